//! Clients and readers that go on through whatever happens, and what they saw.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use holdfast_api::v1::rejection::Reason;
use holdfast_api::v1::{Consistency, ListGrantsRequest, Page};
use holdfast_api::{Client, ClientError};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinSet;

use super::address_model::{Address, Call, Reply};
use super::ask::{grant, holder, named, only, pool_id, propose, put_pool, release};
use super::group::{Group, eventually};
use super::linearizability::{Clock, Operation, check};

/// Owners ask for these by name, and take them from each other.
const CONTENDED: &str = "contended";
/// How many of them.
const ADDRESSES: usize = 24;
/// Owners ask for any of these, and keep them.
const KEPT: &str = "kept";
/// How long a client waits for an answer; longer than an election takes.
const TIMEOUT: Duration = Duration::from_secs(8);

type History = Vec<Operation<Call, Reply>>;

/// Clients and readers at work.
pub(crate) struct Load {
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    clock: Clock,
    /// For each contended address, its calls.
    histories: Mutex<HashMap<usize, History>>,
    /// Grants that are never released, as acknowledged: owner, address, revision.
    kept: Mutex<Vec<(String, String, u64)>>,
    /// Owners that asked for one, and do not know whether they got it.
    unknown: Mutex<Vec<String>>,
    /// Who anybody ever saw hold an address that is never released.
    seen: Mutex<HashMap<String, String>>,
    /// Linearizable answers: invoked, returned, the ledger's revision.
    revisions: Mutex<Vec<(u64, u64, u64)>>,
    reads: AtomicU64,
    stale_reads: AtomicU64,
}

/// What was done and seen.
#[derive(Debug)]
pub(crate) struct Counts {
    /// Writes and reads with an answer, of contended addresses.
    pub(crate) answered: usize,
    /// Calls of unknown fate.
    pub(crate) unknown: usize,
    /// Grants acknowledged and kept.
    pub(crate) kept: usize,
    /// Reads of kept addresses that an answer must be right about.
    pub(crate) reads: u64,
    /// Of them, those that may be old.
    pub(crate) stale_reads: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Load {
    /// Starts `clients` writers and two readers on a group that is formed.
    pub(crate) async fn start(group: &Group, clients: usize, seed: u64) -> Load {
        let pools = propose([put_pool(CONTENDED, "10.1.0.0/24"), put_pool(KEPT, "10.64.0.0/10")]);
        group.client().propose_repeatedly(pools).await.expect("a group that is formed");
        let shared = Arc::new(Shared::default());
        let mut tasks = JoinSet::new();
        for number in 0..clients {
            let client = group.client().with_timeout(TIMEOUT);
            let random = StdRng::seed_from_u64(seed.wrapping_add(number as u64));
            tasks.spawn(Writer { shared: shared.clone(), client, number, random, asked: 0 }.run());
        }
        for number in 0..2 {
            let stale = group.endpoints().iter().map(|at| Client::new([at]).expect("a good endpoint")).collect();
            let random = StdRng::seed_from_u64(seed ^ number);
            tasks.spawn(read(shared.clone(), group.client().with_timeout(TIMEOUT), stale, random));
        }
        Load { shared, tasks }
    }

    /// How many calls have had an answer so far.
    pub(crate) fn acknowledged(&self) -> usize {
        lock(&self.shared.kept).len()
    }

    /// Waits until a grant asked for from now on is acknowledged.
    pub(crate) async fn progress(&self) {
        // One may have been under way; the clients' next ones were asked for later.
        let enough = self.acknowledged() + 2;
        eventually("grants are acknowledged", async || (self.acknowledged() >= enough).then_some(())).await;
    }

    /// Stops, and lets every call come to its end.
    pub(crate) async fn stop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended.expect("what a client saw is right");
        }
    }

    /// Checks all that was seen, against the group as it is now. Call [`stop`](Load::stop) before.
    pub(crate) async fn check(&self, group: &Group) -> Counts {
        let shared = &self.shared;
        let (mut answered, mut unknown) = (0, 0);
        for (address, history) in lock(&shared.histories).iter() {
            answered += history.iter().filter(|call| call.reply.is_some()).count();
            unknown += history.iter().filter(|call| call.reply.is_none()).count();
            check::<Address>(history).unwrap_or_else(|error| panic!("address {address}: {error}"));
        }
        check_revisions(&mut lock(&shared.revisions));
        let held = all_grants(group).await;
        let kept = lock(&shared.kept).clone();
        for (owner, address, revision) in &kept {
            assert_eq!(held.get(address), Some(&(owner.clone(), *revision)), "{address} was acknowledged to {owner}");
        }
        let lost: std::collections::HashSet<_> = lock(&shared.unknown).iter().cloned().collect();
        let acknowledged: std::collections::HashSet<_> = kept.iter().map(|(owner, ..)| owner).collect();
        for (owner, _) in held.values() {
            assert!(
                acknowledged.contains(owner) || lost.contains(owner),
                "{owner} holds an address, though its call was answered as not done"
            );
        }
        Counts {
            answered,
            unknown: unknown + lost.len(),
            kept: kept.len(),
            reads: shared.reads.load(Ordering::Relaxed),
            stale_reads: shared.stale_reads.load(Ordering::Relaxed),
        }
    }
}

/// The kept grants: address → (owner, revision). An address that is listed twice is an error.
async fn all_grants(group: &Group) -> BTreeMap<String, (String, u64)> {
    let client = group.client();
    let mut held = BTreeMap::new();
    let mut token = String::new();
    loop {
        let page = Some(Page { size: 10_000, token });
        let request = ListGrantsRequest { page, pool: Some(pool_id(KEPT)), ..ListGrantsRequest::default() };
        let part = client.list_grants(request).await.expect("a group that is whole again");
        for grant in part.grants {
            let owner = named(&grant).expect("a named owner").to_owned();
            let revision = grant.stamp.expect("each has one").revision;
            let before = held.insert(grant.address.clone(), (owner, revision));
            assert_eq!(before, None, "{} is listed twice", grant.address);
        }
        token = part.next_page_token;
        if token.is_empty() {
            return held;
        }
    }
}

/// What was answered before a call was made is no newer than what that call was answered.
fn check_revisions(answers: &mut [(u64, u64, u64)]) {
    let mut returned: Vec<_> = answers.iter().map(|&(_, returned, revision)| (returned, revision)).collect();
    returned.sort_unstable();
    answers.sort_unstable();
    let (mut at, mut newest) = (0, 0);
    for &(invoked, _, revision) in answers.iter() {
        while at < returned.len() && returned[at].0 < invoked {
            newest = newest.max(returned[at].1);
            at += 1;
        }
        assert!(revision >= newest, "an answer shows revision {revision} after another showed {newest}");
    }
}

/// One client: half of its calls are for contended addresses, half for one to keep.
struct Writer {
    shared: Arc<Shared>,
    client: Client,
    number: usize,
    random: StdRng,
    /// Addresses asked for to keep.
    asked: u64,
}

impl Writer {
    async fn run(mut self) {
        while !self.shared.stop.load(Ordering::Relaxed) {
            if self.random.random_bool(0.5) {
                self.keep_one().await;
            } else {
                self.contend().await;
            }
        }
    }

    /// Asks for any address. If it is not known whether there is one, half the time the call is repeated.
    async fn keep_one(&mut self) {
        self.asked += 1;
        let owner = format!("c{}-{}", self.number, self.asked);
        let request = propose([grant(&owner, KEPT, None)]);
        let mut answer = self.client.propose(request.clone()).await;
        if matches!(answer, Err(ClientError::FateUnknown { .. })) && self.random.random_bool(0.5) {
            let unknown = answer;
            // That the repetition was not done says nothing of the first call.
            answer = self.client.propose_repeatedly(request).await.or(unknown);
        }
        match answer {
            Ok(answer) => {
                let outcome = only(answer).expect("there are enough addresses");
                let [granted] = &outcome.granted[..] else { panic!("one address: {outcome:?}") };
                saw(&self.shared, &granted.first, &owner);
                lock(&self.shared.kept).push((owner, granted.first.clone(), granted.revision));
            }
            Err(ClientError::FateUnknown { .. }) => lock(&self.shared.unknown).push(owner),
            Err(error) => not_done(&error),
        }
    }

    /// Grants, releases or reads one of the addresses that all want.
    async fn contend(&mut self) {
        let at = self.random.random_range(0..ADDRESSES);
        let address = format!("10.1.0.{}", at + 10);
        let owner = u32::try_from(self.number).expect("few clients");
        let call = match self.random.random_range(0..10) {
            0..5 => Call::Grant(owner),
            5..8 => Call::Release(owner),
            _ => Call::Read,
        };
        let invoked = self.shared.clock.now();
        let answer = match call {
            Call::Grant(_) => self.ask(grant(&name(owner, at), CONTENDED, Some(&address))).await,
            Call::Release(_) => self.ask(release(&name(owner, at))).await,
            Call::Read => self.read(&address).await,
        };
        let returned = self.shared.clock.now();
        let reply = match answer {
            Ok((reply, revision)) => {
                lock(&self.shared.revisions).extend(revision.map(|revision| (invoked, returned, revision)));
                Some((reply, returned))
            }
            Err(ClientError::FateUnknown { .. }) if call != Call::Read => None,
            Err(error) => return not_done(&error),
        };
        let operation = Operation { client: self.number, call, invoked, reply };
        lock(&self.shared.histories).entry(at).or_default().push(operation);
    }

    /// The reply, and the ledger's revision if it was told.
    async fn ask(&self, action: holdfast_api::v1::command::Action) -> Result<(Reply, Option<u64>), ClientError> {
        let answer = only(self.client.propose(propose([action.clone()])).await?);
        Ok(match (answer, action) {
            (Ok(outcome), holdfast_api::v1::command::Action::Grant(_)) => {
                let [granted] = &outcome.granted[..] else { panic!("one address: {outcome:?}") };
                let reply = Reply::Granted { revision: granted.revision, changed: outcome.changed };
                (reply, Some(outcome.revision))
            }
            (Ok(outcome), _) => {
                let reply = if outcome.changed { Reply::Released } else { Reply::NotHeld };
                (reply, Some(outcome.revision))
            }
            (Err(rejection), _) => match rejection.reason {
                Some(Reason::AddressHeld(held)) => {
                    let by = held.by.expect("it says by whom");
                    let grant = holdfast_api::v1::GrantRow { holder: Some(by), ..Default::default() };
                    (Reply::HeldBy(owner_in(named(&grant).expect("a named owner"))), None)
                }
                _ => panic!("{rejection:?}"),
            },
        })
    }

    async fn read(&self, address: &str) -> Result<(Reply, Option<u64>), ClientError> {
        let answer = self.client.get_grant(holder(address, Consistency::Linearizable)).await?;
        let held = answer.grant.map(|grant| {
            let owner = owner_in(named(&grant).expect("a named owner"));
            (owner, grant.stamp.expect("each has one").revision)
        });
        Ok((Reply::Holder(held), Some(answer.header.expect("each has one").revision)))
    }
}

/// The name of a client as owner of one contended address: an owner holds one address alone.
fn name(client: u32, address: usize) -> String {
    format!("{client}/{address}")
}

fn owner_in(name: &str) -> u32 {
    name.split_once('/').and_then(|(client, _)| client.parse().ok()).expect("a name that we made")
}

/// An error after which nothing was done, as the client promises: such a call is not part of any history, so
/// that a promise broken shows.
fn not_done(error: &ClientError) {
    assert!(matches!(error, ClientError::Unreachable { .. } | ClientError::Overloaded { .. }), "{error:?}");
}

/// Notes who holds an address that is never released, and that nobody saw another hold it.
fn saw(shared: &Shared, address: &str, owner: &str) {
    let before = lock(&shared.seen).insert(address.to_owned(), owner.to_owned());
    assert!(before.as_deref().is_none_or(|before| before == owner), "{address} is held by {owner} and {before:?}");
}

/// Reads addresses that were acknowledged, all the time: from any replica that answers, as of now, and from
/// each replica as far as it is.
async fn read(shared: Arc<Shared>, client: Client, replicas: Vec<Client>, mut random: StdRng) {
    while !shared.stop.load(Ordering::Relaxed) {
        let known = {
            let kept = lock(&shared.kept);
            if kept.is_empty() { None } else { Some(kept[random.random_range(0..kept.len())].clone()) }
        };
        let Some((owner, address, _)) = known else {
            tokio::task::yield_now().await;
            continue;
        };
        if let Ok(answer) = client.get_grant(holder(&address, Consistency::Linearizable)).await {
            let grant = answer.grant.unwrap_or_else(|| panic!("{address} was acknowledged to {owner}, and is free"));
            saw(&shared, &address, named(&grant).expect("a named owner"));
            shared.reads.fetch_add(1, Ordering::Relaxed);
        }
        let replica = &replicas[random.random_range(0..replicas.len())];
        if let Ok(answer) = replica.get_grant(holder(&address, Consistency::Stale)).await {
            if let Some(grant) = &answer.grant {
                saw(&shared, &address, named(grant).expect("a named owner"));
            }
            shared.stale_reads.fetch_add(1, Ordering::Relaxed);
        }
    }
}
