//! Durations in annotations: an integer and one unit, `90s`, `10m`, `2h`, `7d`; also `ms`.

use holdfast_statemachine::Millis;

pub(super) const ALLOWED: &str =
    "a duration: an integer and ms, s, m, h or d, such as 90s, 10m, 2h, 7d; at most 36500d";

const DAY: Millis = 24 * 60 * 60 * 1000;
/// A hundred years: no deadline computed from it leaves the range of a time.
const LONGEST: Millis = 36_500 * DAY;
/// Largest first.
const UNITS: [(&str, Millis); 5] = [("d", DAY), ("h", 60 * 60 * 1000), ("m", 60 * 1000), ("s", 1000), ("ms", 1)];

/// Milliseconds, or `None` for what is no duration or longer than 36,500 days.
pub fn parse(text: &str) -> Option<Millis> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let (_, millis) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
    number.parse::<Millis>().ok()?.checked_mul(millis).filter(|total| *total <= LONGEST)
}

/// The shortest text that [`parse`] reads as this.
pub fn format(millis: Millis) -> String {
    let exact = UNITS.into_iter().find(|(_, unit)| millis > 0 && millis.is_multiple_of(*unit));
    exact.map_or_else(|| "0s".to_owned(), |(name, unit)| format!("{}{name}", millis / unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_an_integer_and_one_unit() {
        for (text, millis) in [
            ("90s", 90_000),
            ("10m", 600_000),
            ("2h", 7_200_000),
            ("7d", 604_800_000),
            ("250ms", 250),
            ("0s", 0),
            ("36500d", LONGEST),
        ] {
            assert_eq!(parse(text), Some(millis), "{text}");
            assert_eq!(parse(&format(millis)), Some(millis), "{text}");
        }
        assert_eq!(format(90_000), "90s");
        assert_eq!(format(7_200_000), "2h");
        for text in ["", "s", "10", "-1s", "1.5h", "1h30m", "10 m", "10M", "1w", "36501d", "99999999999999999999s"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
