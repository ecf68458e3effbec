//! Addresses and times as people read them.

use std::net::IpAddr;
use std::time::Duration;

use holdfast_statemachine::command::Retention;
use holdfast_statemachine::{Millis, Range, address};
use jiff::Timestamp;

/// `10.2.2.100-104`, `fd00::64-68`, `10.2.2.250-10.2.3.4`, `10.2.2.7`: the last address is cut to what differs
/// after the last dot or colon.
pub fn range(range: Range) -> String {
    let (first, last) = (range.first().to_string(), range.last().to_string());
    if first == last {
        return first;
    }
    let head = |text: &str| text.rfind(['.', ':']).map_or(0, |at| at + 1);
    let (at, of_last) = (head(&first), head(&last));
    if first[..at] == last[..of_last] && at < first.len() {
        format!("{first}-{}", &last[of_last..])
    } else {
        format!("{first}-{last}")
    }
}

/// So many addresses from this one on.
pub fn run(first: IpAddr, count: u32) -> String {
    let last = address::offset(first, u128::from(count.max(1) - 1));
    last.and_then(|last| Range::new(first, last)).map_or_else(|| first.to_string(), range)
}

/// A time for programs: `2026-11-30T08:00:00.123Z`.
pub fn time(at: Millis) -> String {
    timestamp(at).strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}

/// A time for people: `2026-11-30 08:00:00`.
pub fn clock(at: Millis) -> String {
    timestamp(at).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

fn timestamp(at: Millis) -> Timestamp {
    i64::try_from(at).ok().and_then(|at| Timestamp::from_millisecond(at).ok()).unwrap_or(Timestamp::MAX)
}

/// Reads a duration such as `500ms`, `10s` or `2m`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let millis = holdfast_bridge::translate::duration::parse(text).filter(|millis| *millis > 0);
    millis.map(Duration::from_millis).ok_or_else(|| "an integer and ms, s, m, h or d, such as 500ms or 10s".to_owned())
}

/// A rule as the annotations of a StatefulSet write it: `retain`, `release`, `7d`.
pub fn retention(rule: Retention) -> String {
    match rule {
        Retention::Retain => "retain".to_owned(),
        Retention::Release => "release".to_owned(),
        Retention::After(millis) => holdfast_bridge::translate::duration::format(millis),
    }
}

/// `1 address`, `2 addresses`.
pub fn counted(count: impl Into<u128>, one: &str, more: &str) -> String {
    let count = count.into();
    format!("{count} {}", if count == 1 { one } else { more })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_repeats_only_what_differs() {
        let shown = |first: &str, last: &str| {
            let parse = |text: &str| text.parse().expect("an address");
            range(Range::new(parse(first), parse(last)).expect("a range"))
        };
        assert_eq!(shown("10.2.2.100", "10.2.2.104"), "10.2.2.100-104");
        assert_eq!(shown("10.2.2.250", "10.2.3.4"), "10.2.2.250-10.2.3.4");
        assert_eq!(shown("10.2.2.7", "10.2.2.7"), "10.2.2.7");
        assert_eq!(shown("fd00::64", "fd00::68"), "fd00::64-68");
        assert_eq!(shown("fd00::", "fd00::3"), "fd00::-fd00::3");
        assert_eq!(run("10.0.0.1".parse().expect("an address"), 3), "10.0.0.1-3");
    }

    #[test]
    fn a_rule_reads_as_its_annotation() {
        let shown = [Retention::Retain, Retention::Release, Retention::After(604_800_000)].map(retention);
        assert_eq!(shown, ["retain", "release", "7d"]);
    }

    #[test]
    fn a_duration_is_positive() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert!(duration("0s").is_err() && duration("5").is_err());
    }
}
