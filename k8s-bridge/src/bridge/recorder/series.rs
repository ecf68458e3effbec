//! Events that were written, and how often the same was told since.

use std::collections::HashMap;

use holdfast_statemachine::Name;
use jiff::{SignedDuration, Timestamp};

use super::Telling;
use crate::bridge::key::Key;

/// The same told again within this time is one Event, and counted.
const SPAN: SignedDuration = SignedDuration::from_mins(6);
/// A count is written once in this time.
const PAUSE: SignedDuration = SignedDuration::from_secs(5);

/// What makes two tellings the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Same {
    about: Key,
    uid: Name,
    reason: &'static str,
    note: String,
}

impl Same {
    /// What this telling is the same as.
    pub fn of(telling: &Telling) -> Same {
        let Telling { about, uid, reason, note, .. } = telling;
        Same { about: about.clone(), uid: uid.clone(), reason, note: note.clone() }
    }
}

/// An Event that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// How often it was told.
    pub count: i32,
    /// When it was told last.
    pub last: Timestamp,
    /// The count that it shows.
    shown: i32,
    /// When it was written last.
    at: Timestamp,
}

/// All Events of the last minutes.
#[derive(Debug, Default)]
pub struct Series {
    written: HashMap<Same, Written>,
}

impl Series {
    /// Counts a telling that is the same as one before. Whether it is; if not, an Event is to be written.
    pub fn counts(&mut self, same: &Same, now: Timestamp) -> bool {
        match self.written.get_mut(same).filter(|it| now.duration_since(it.last) < SPAN) {
            Some(written) => {
                written.count = written.count.saturating_add(1);
                written.last = now;
                true
            }
            None => false,
        }
    }

    /// An Event was written. Those that nothing can be added to are forgotten.
    pub fn add(&mut self, same: Same, namespace: String, name: String, now: Timestamp) {
        self.written.retain(|_, it| it.count > it.shown || now.duration_since(it.last) < SPAN);
        self.written.insert(same, Written { namespace, name, count: 1, last: now, shown: 1, at: now });
    }

    /// When the next count is to be written, if one is.
    pub fn next(&self) -> Option<Timestamp> {
        self.uncounted().map(|(_, written)| written.at + PAUSE).min()
    }

    /// Takes an Event whose count is to be written now.
    pub fn due(&mut self, now: Timestamp) -> Option<Written> {
        let (same, _) = self.uncounted().find(|(_, it)| it.at + PAUSE <= now)?;
        let same = same.clone();
        let written = self.written.get_mut(&same)?;
        (written.shown, written.at) = (written.count, now);
        Some(written.clone())
    }

    fn uncounted(&self) -> impl Iterator<Item = (&Same, &Written)> {
        self.written.iter().filter(|(_, it)| it.count > it.shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::Kind;

    fn telling(note: &str) -> Telling {
        let about = Key::cluster(Kind::IpPool, "p".into());
        Telling { about, uid: "u".into(), warning: true, reason: "NotInForce", note: note.to_owned() }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_000 + seconds).expect("is a time")
    }

    #[test]
    fn repeats_are_counted_and_the_count_is_written_now_and_then() {
        let mut series = Series::default();
        let same = Same::of(&telling("overlap"));
        assert!(!series.counts(&same, at(0)));
        series.add(same.clone(), "default".into(), "p.1".into(), at(0));
        assert_eq!(series.next(), None);
        assert!(series.counts(&same, at(1)));
        assert!(series.counts(&same, at(2)));
        assert_eq!((series.next(), series.due(at(4))), (Some(at(5)), None));
        let due = series.due(at(5)).expect("is due");
        assert_eq!((due.count, due.last, &*due.name), (3, at(2), "p.1"));
        assert_eq!((series.next(), series.due(at(60))), (None, None));
        // Another note is another Event.
        assert!(!series.counts(&Same::of(&telling("held")), at(6)));
        // After six minutes a new one begins.
        assert!(!series.counts(&same, at(362)));
    }
}
