use std::net::IpAddr;

use proptest::prelude::*;

use super::{FreeSpace, Pass, Run};
use crate::Range;
use crate::address::offset;
use crate::command::Contiguity;

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn range(first: &str, last: &str) -> Range {
    Range::new(ip(first), ip(last)).expect("a range")
}

fn run(first: &str, count: u32) -> Run {
    Run { first: ip(first), count }
}

/// One flag of each kind an address, in the order of the ranges; everything by plain scans.
#[derive(Clone, Debug)]
struct Naive {
    ranges: Vec<Vec<Flags>>,
}

#[derive(Clone, Copy, Debug)]
struct Flags {
    address: IpAddr,
    held: bool,
    cooling: bool,
    headroom: bool,
}

impl Flags {
    fn open(self, pass: Pass) -> bool {
        !self.held && (pass >= Pass::Cooling || !self.cooling) && (pass >= Pass::Headroom || !self.headroom)
    }
}

impl Naive {
    fn new(ranges: &[Range]) -> Naive {
        let flags = |address| Flags { address, held: false, cooling: false, headroom: false };
        let all = |range: &Range| (0..range.len()).map(|i| flags(offset(range.first(), i).expect("inside"))).collect();
        Naive { ranges: ranges.iter().map(all).collect() }
    }

    fn at(&mut self, address: IpAddr) -> Option<&mut Flags> {
        self.ranges.iter_mut().flatten().find(|flags| flags.address == address)
    }

    fn block(&self, pass: Pass, n: usize) -> Option<IpAddr> {
        let blocks = self.ranges.iter().flat_map(|range| range.windows(n));
        let mut open = blocks.filter(|block| block.iter().all(|flags| flags.open(pass)));
        open.next().map(|block| block[0].address)
    }

    fn search(&self, pass: Pass, n: usize, headroom: usize, contiguity: Contiguity) -> Option<Vec<IpAddr>> {
        let roomy = if pass == Pass::Clear { self.block(pass, n + headroom) } else { None };
        if let Some(first) = roomy.or_else(|| self.block(pass, n)) {
            return Some((0..n as u128).map(|i| offset(first, i).expect("inside")).collect());
        }
        let open = self.ranges.iter().flatten().filter(|flags| flags.open(pass));
        let lowest: Vec<IpAddr> = open.take(n).map(|flags| flags.address).collect();
        (contiguity == Contiguity::Preferred && lowest.len() == n).then_some(lowest)
    }

    fn longest(&self, pass: Pass) -> u128 {
        let runs = self.ranges.iter().flat_map(|range| range.split(|flags| !flags.open(pass)));
        runs.map(|run| run.len() as u128).max().unwrap_or(0)
    }

    fn open(&self, pass: Pass) -> u128 {
        self.ranges.iter().flatten().filter(|flags| flags.open(pass)).count() as u128
    }
}

fn listed(runs: &[Run]) -> Vec<IpAddr> {
    let each =
        |run: &Run| (0..u128::from(run.count)).map(|i| offset(run.first, i).expect("inside")).collect::<Vec<_>>();
    runs.iter().flat_map(each).collect()
}

#[derive(Clone, Debug)]
enum Step {
    Hold(u128),
    HoldRun(u128, u32),
    Release(u128),
    Cool(u128),
    Uncool(u128),
    Reserve(u128, u128),
    Clear(u128, u128),
}

/// Addresses of the tests: 64 from here on, of which the pools leave some out.
const FIRST: [&str; 3] = ["10.0.0.0", "2001:db8::ffff:ffff:ffff:ffe0", "255.255.255.192"];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let at = || 0u128..64;
    let step = prop_oneof![
        6 => at().prop_map(Step::Hold),
        1 => (at(), 1u32..6).prop_map(|(at, n)| Step::HoldRun(at, n)),
        4 => at().prop_map(Step::Release),
        3 => at().prop_map(Step::Cool),
        2 => at().prop_map(Step::Uncool),
        2 => (at(), 0u128..8).prop_map(|(at, n)| Step::Reserve(at, n)),
        2 => (at(), 0u128..8).prop_map(|(at, n)| Step::Clear(at, n)),
    ];
    proptest::collection::vec(step, 1..120)
}

/// Three ranges, not in the order of their addresses; two of them touch.
fn ranges_of(base: IpAddr) -> Vec<Range> {
    let address = |n| offset(base, n).expect("inside the family");
    let range = |first, last| Range::new(address(first), address(last)).expect("a range");
    vec![range(30, 50), range(2, 20), range(51, 63)]
}

fn do_both(space: &mut FreeSpace, naive: &mut Naive, base: IpAddr, step: &Step) -> Result<(), TestCaseError> {
    let address = |n: u128| offset(base, n.min(63)).expect("inside the family");
    match *step {
        Step::Hold(at) => {
            let flags = naive.at(address(at)).filter(|flags| !flags.held);
            prop_assert_eq!(space.hold(address(at)), flags.map(|flags| flags.held = true).is_some());
        }
        Step::HoldRun(at, count) => {
            let run = Run { first: address(at), count };
            let inside = naive.ranges.iter_mut().find_map(|range| {
                let start = range.iter().position(|flags| flags.address == run.first)?;
                range.get_mut(start..start + count as usize)
            });
            let free = inside.filter(|flags| flags.iter().all(|flags| !flags.held));
            let held = free.map(|flags| flags.iter_mut().for_each(|flags| flags.held = true)).is_some();
            prop_assert_eq!(space.hold_run(run), held);
        }
        Step::Release(at) => {
            let flags = naive.at(address(at)).filter(|flags| flags.held);
            prop_assert_eq!(space.release(address(at)), flags.map(|flags| flags.held = false).is_some());
        }
        Step::Cool(at) => {
            space.cool(address(at));
            naive.at(address(at)).into_iter().for_each(|flags| flags.cooling = true);
        }
        Step::Uncool(at) => {
            space.uncool(address(at));
            naive.at(address(at)).into_iter().for_each(|flags| flags.cooling = false);
        }
        Step::Reserve(at, more) => {
            let range = Range::new(address(at), address(at + more)).expect("a range");
            space.reserve_headroom(range);
            let inside = naive.ranges.iter_mut().flatten().filter(|flags| range.contains(flags.address));
            inside.for_each(|flags| flags.headroom = true);
        }
        Step::Clear(at, more) => {
            let range = Range::new(address(at), address(at + more)).expect("a range");
            space.clear_headroom(range);
            let inside = naive.ranges.iter_mut().flatten().filter(|flags| range.contains(flags.address));
            inside.for_each(|flags| flags.headroom = false);
        }
    }
    Ok(())
}

fn compare(space: &FreeSpace, naive: &Naive) -> Result<(), TestCaseError> {
    let held = naive.ranges.iter().flatten().filter(|flags| flags.held).count() as u128;
    prop_assert_eq!(space.used(), held);
    prop_assert_eq!(space.free(), space.total() - held);
    prop_assert_eq!(space.largest_free_run(), naive.longest(Pass::Cooling));
    for pass in Pass::ALL {
        prop_assert_eq!(space.open(pass), naive.open(pass), "{:?}", pass);
        prop_assert_eq!(space.largest_open_run(pass), naive.longest(pass), "{:?}", pass);
        for (n, headroom) in [(1, 0), (1, 2), (2, 0), (3, 3), (5, 0), (9, 1), (14, 30), (40, 0)] {
            for contiguity in [Contiguity::Required, Contiguity::Preferred] {
                let found = space.search(pass, n, headroom, contiguity);
                let wanted = naive.search(pass, n as usize, headroom as usize, contiguity);
                prop_assert_eq!(found.as_deref().map(listed), wanted, "{:?} {} {} {:?}", pass, n, headroom, contiguity);
            }
        }
    }
    for range in &naive.ranges {
        for (i, flags) in range.iter().enumerate() {
            prop_assert_eq!(space.is_held(flags.address), flags.held);
            prop_assert_eq!(space.is_free(flags.address), !flags.held);
            prop_assert_eq!(space.is_cooling(flags.address), flags.cooling);
            prop_assert_eq!(space.is_headroom(flags.address), flags.headroom);
            for pass in Pass::ALL {
                let open = range.get(i..i + 3).is_some_and(|run| run.iter().all(|flags| flags.open(pass)));
                prop_assert_eq!(space.is_open(pass, Run { first: flags.address, count: 3 }), open);
            }
            let behind = range[i + 1..].iter().take(4).take_while(|flags| !flags.held);
            let last = behind.last().map(|flags| flags.address);
            let behind = last.and_then(|last| Range::new(range[i + 1].address, last));
            prop_assert_eq!(space.free_behind(flags.address, 4), behind);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn agrees_with_flags_per_address(base in 0..FIRST.len(), steps in steps()) {
        let base = ip(FIRST[base]);
        let ranges = ranges_of(base);
        let (mut space, mut naive) = (FreeSpace::new(&ranges), Naive::new(&ranges));
        for (i, step) in steps.iter().enumerate() {
            do_both(&mut space, &mut naive, base, step)?;
            if i % 8 == 0 {
                compare(&space, &naive)?;
            }
        }
        compare(&space, &naive)?;
    }
}

fn free_space(ranges: &[Range], held: &[&str]) -> FreeSpace {
    let mut space = FreeSpace::new(ranges);
    for address in held {
        assert!(space.hold(ip(address)), "{address}");
    }
    space
}

fn block(space: &FreeSpace, n: u32) -> Option<Vec<Run>> {
    space.search(Pass::Clear, n, 0, Contiguity::Required)
}

#[test]
fn first_fit_is_the_lowest_block_in_the_order_of_the_ranges() {
    let space = free_space(&[range("10.2.2.1", "10.2.2.254")], &["10.2.2.13", "10.2.2.30"]);
    assert_eq!(block(&space, 15), Some(vec![run("10.2.2.14", 15)]));

    let space = free_space(&[range("1.1.1.10", "1.1.1.20")], &["1.1.1.12", "1.1.1.16"]);
    assert_eq!(block(&space, 5), None);
    let scattered = vec![run("1.1.1.10", 2), run("1.1.1.13", 3)];
    assert_eq!(space.search(Pass::Clear, 5, 0, Contiguity::Preferred), Some(scattered));

    let two = [range("1.1.1.10", "1.1.1.20"), range("2.2.2.10", "2.2.2.30")];
    let space = free_space(&two, &["1.1.1.15", "2.2.2.15", "2.2.2.16"]);
    assert_eq!(block(&space, 10), Some(vec![run("2.2.2.17", 10)]));

    let three = [range("2001::2", "2001::5"), range("2001::10", "2001::12"), range("2001::20", "2001::29")];
    assert_eq!(block(&free_space(&three, &[]), 10), Some(vec![run("2001::20", 10)]));

    let external = [range("1.1.1.1", "1.1.1.2"), range("1.1.2.10", "1.1.2.20")];
    assert_eq!(block(&free_space(&external, &["1.1.1.1", "1.1.1.2"]), 1), Some(vec![run("1.1.2.10", 1)]));
}

#[test]
fn a_small_pool_gives_all_or_nothing() {
    let space = free_space(&[range("10.2.2.100", "10.2.2.110")], &[]);
    assert_eq!(space.total(), 11);
    assert_eq!(block(&space, 11), Some(vec![run("10.2.2.100", 11)]));
    assert_eq!(space.search(Pass::Cooling, 20, 0, Contiguity::Preferred), None);
    assert_eq!(block(&space, 0), Some(vec![]));
}

#[test]
fn wanted_headroom_moves_a_block_only_in_the_first_pass() {
    let space = free_space(&[range("10.0.0.1", "10.0.0.20")], &["10.0.0.6"]);
    assert_eq!(space.search(Pass::Clear, 4, 2, Contiguity::Required), Some(vec![run("10.0.0.7", 4)]));
    assert_eq!(space.search(Pass::Headroom, 4, 2, Contiguity::Required), Some(vec![run("10.0.0.1", 4)]));
    // No room for the headroom: the block alone will do.
    assert_eq!(space.search(Pass::Clear, 14, 1, Contiguity::Required), Some(vec![run("10.0.0.7", 14)]));
}

#[test]
fn touching_ranges_stay_two() {
    let space = free_space(&[range("10.0.0.1", "10.0.0.4"), range("10.0.0.5", "10.0.0.8")], &[]);
    assert_eq!((space.free(), space.largest_free_run()), (8, 4));
    assert_eq!(block(&space, 5), None);
    assert_eq!(space.free_behind(ip("10.0.0.2"), 100), Some(range("10.0.0.3", "10.0.0.4")));
    assert!(!space.is_open(Pass::Cooling, run("10.0.0.3", 3)));
    assert_eq!(space.range_of(ip("10.0.0.5")), Some(range("10.0.0.5", "10.0.0.8")));
}

#[test]
fn marks_outlast_holding() {
    let mut space = free_space(&[range("10.0.0.1", "10.0.0.9")], &[]);
    space.cool(ip("10.0.0.1"));
    space.reserve_headroom(range("10.0.0.2", "10.0.0.3"));
    assert!(space.hold_run(run("10.0.0.1", 3)));
    assert!(space.release(ip("10.0.0.1")) && space.release(ip("10.0.0.2")) && space.release(ip("10.0.0.3")));
    let first = |pass| space.search(pass, 1, 0, Contiguity::Required);
    assert_eq!(first(Pass::Clear), Some(vec![run("10.0.0.4", 1)]));
    assert_eq!(first(Pass::Headroom), Some(vec![run("10.0.0.2", 1)]));
    assert_eq!(first(Pass::Cooling), Some(vec![run("10.0.0.1", 1)]));
}

#[test]
fn all_of_ipv6() {
    let mut space = free_space(&[range("::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")], &["::", "::2"]);
    assert_eq!((space.total(), space.used(), space.free()), (u128::MAX, 2, u128::MAX - 1));
    assert_eq!(block(&space, u32::MAX), Some(vec![run("::3", u32::MAX)]));
    assert!(space.release(ip("::")) && !space.release(ip("::")));
    assert_eq!(block(&space, 2), Some(vec![run("::", 2)]));
    assert_eq!(block(&space, 3), Some(vec![run("::3", 3)]));
    assert_eq!(space.free_behind(ip("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), 3), None);
}

#[test]
fn outside_is_nothing() {
    let mut space = free_space(&[range("10.0.0.1", "10.0.0.2")], &[]);
    for address in ["10.0.0.0", "10.0.0.3", "::a00:1"] {
        assert!(!space.hold(ip(address)) && !space.release(ip(address)));
        space.cool(ip(address));
        assert!(!space.is_held(ip(address)) && !space.is_free(ip(address)) && !space.is_cooling(ip(address)));
        assert_eq!(space.range_of(ip(address)), None);
    }
    assert!(!space.hold_run(run("10.0.0.1", 0)));
    let empty = FreeSpace::new(&[]);
    assert_eq!((empty.total(), empty.free(), empty.largest_free_run()), (0, 0, 0));
    assert_eq!(block(&empty, 1), None);
}
