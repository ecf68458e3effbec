//! A status that is too large for one object is cut, and says so.

use serde_json::Value;

use crate::export::{IpAddressState, IpPoolStatus};

/// The largest status of a pool that is written, in bytes of JSON: an API server takes objects of up to 1.5 MiB.
pub const LARGEST: usize = 1 << 20;
/// Kept free for all that is no entry.
const REST: usize = 16 << 10;

/// Leaves out as many entries as do not fit: those in use stay first, then the lowest.
pub fn cut(status: &mut IpPoolStatus, largest: usize) -> Result<(), serde_json::Error> {
    let sizes = status.ip_addresses.iter().map(size).collect::<Result<Vec<usize>, _>>()?;
    let most = largest.saturating_sub(REST);
    if sizes.iter().sum::<usize>() <= most {
        return Ok(());
    }
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by_key(|at| (status.ip_addresses[*at].phase != "Allocated", *at));
    let mut left = most;
    let mut kept: Vec<usize> = order
        .into_iter()
        .take_while(|at| {
            let fits = sizes[*at] <= left;
            left = left.saturating_sub(sizes[*at]);
            fits
        })
        .collect();
    kept.sort_unstable();
    let all = status.ip_addresses.len();
    let mut at = 0;
    let mut keep = kept.iter().peekable();
    status.ip_addresses.retain(|_| {
        let kept = keep.next_if(|kept| **kept == at).is_some();
        at += 1;
        kept
    });
    let note = format!(
        "; {} of the {all} addresses held are left out here, where all would be too large; `holdfast grant list` has all",
        all - status.ip_addresses.len()
    );
    if let Some(ready) = status.conditions.iter_mut().find(|condition| condition.kind == "Ready") {
        ready.message.push_str(&note);
    }
    Ok(())
}

/// Bytes of an entry in a list.
fn size(entry: &IpAddressState) -> Result<usize, serde_json::Error> {
    Ok(serde_json::to_string(entry)?.len() + 1)
}

/// Bytes of a value as JSON.
pub fn bytes(value: &Value) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // Counting cannot fail, and a value is always JSON.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::export::{Condition, Holdfast, Owner, Usage};

    fn status(entries: u32) -> IpPoolStatus {
        let entry = |n: u32| IpAddressState {
            ip_address: IpAddr::from((0x0a00_0000 + n).to_be_bytes()),
            phase: if n.is_multiple_of(4) { "Allocated" } else { "Reserved" },
            owner: Owner { name: Some("x".repeat(100).into()), ..Owner::default() },
        };
        let ready = Condition {
            kind: "Ready",
            status: "True",
            last_transition_time: String::new(),
            reason: "InForce",
            message: "its ranges are in force".into(),
        };
        IpPoolStatus {
            ip_addresses: (0..entries).map(entry).collect(),
            usage: Usage { total: 0, used: 0, free: 0 },
            conditions: vec![ready],
            holdfast: Holdfast::default(),
        }
    }

    #[test]
    fn what_fits_is_left_alone() {
        let mut small = status(100);
        cut(&mut small, LARGEST).expect("is JSON");
        assert_eq!(small, status(100));
    }

    #[test]
    fn what_is_in_use_stays_first_and_all_stay_sorted() {
        let mut large = status(1_000);
        cut(&mut large, 100_000).expect("is JSON");
        let in_use = large.ip_addresses.iter().filter(|entry| entry.phase == "Allocated").count();
        assert_eq!(in_use, 250);
        let kept = large.ip_addresses.len();
        assert!((300..1_000).contains(&kept), "{kept}");
        assert!(large.ip_addresses.is_sorted_by_key(|entry| entry.ip_address));
        let lowest_reserved = large.ip_addresses.iter().filter(|entry| entry.phase == "Reserved");
        let expected = status(1_000).ip_addresses.into_iter().filter(|entry| entry.phase == "Reserved");
        assert!(lowest_reserved.cloned().eq(expected.take(kept - 250)));
        let said = &large.conditions[0].message;
        let left_out = 1_000 - kept;
        assert!(said.contains(&format!("{left_out} of the 1000 addresses held are left out")), "{said}");
        let whole = serde_json::to_value(&large).expect("is JSON");
        assert!(bytes(&whole) <= 100_000 && bytes(&whole) == whole.to_string().len());
    }
}
