//! Until when a call may take.

use std::time::{Duration, Instant};

use tonic::metadata::MetadataMap;

/// For a call without a deadline.
pub const DEFAULT: Duration = Duration::from_secs(10);
/// No call gets more: what waits holds memory.
pub const MAX: Duration = Duration::from_mins(1);
/// How much earlier than the client we give up, at most, so that our answer, which says more than that time
/// is up, still arrives.
const MARGIN: Duration = Duration::from_millis(50);

/// When to give up on a call with this metadata. A `grpc-timeout` that cannot be read counts as none.
pub fn deadline(metadata: &MetadataMap) -> Instant {
    let asked = metadata.get("grpc-timeout").and_then(|value| value.to_str().ok()).and_then(parse);
    let timeout = asked.unwrap_or(DEFAULT).min(MAX);
    Instant::now() + timeout.saturating_sub((timeout / 10).min(MARGIN))
}

/// One to eight digits and a unit.
fn parse(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3_600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_digits_and_a_unit() {
        assert_eq!(parse("2S"), Some(Duration::from_secs(2)));
        assert_eq!(parse("99999999H"), Some(Duration::from_hours(99_999_999)));
        assert_eq!(parse("250m"), Some(Duration::from_millis(250)));
        assert_eq!(parse("7u"), Some(Duration::from_micros(7)));
        for refused in ["", "S", "1", "1s", "-1S", "123456789S", "1.5S", "1ä"] {
            assert_eq!(parse(refused), None, "{refused}");
        }
    }
}
