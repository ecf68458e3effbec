//! The points of a ring, in buckets by hash.

use super::bitmap::Bitmap;

/// How many points a Node has on a ring (fewer where two of its own fall together).
const POINTS: u32 = 50;
/// Buckets are doubled beyond this many points a bucket: one is read in a cache line or two.
const CROWDED: usize = 8;
const FEWEST_BUCKETS: usize = 64;

/// The key of an address and the hash of a point: CRC-32 (IEEE), as Antrea has it.
pub(super) fn hash(text: &str) -> u32 {
    crc32fast::hash(text.as_bytes())
}

/// The points of a Node of this name, ascending: hashes of `<i><name>`.
pub(super) fn points(name: &str) -> Box<[u32]> {
    let mut points: Vec<u32> = (0..POINTS).map(|i| hash(&format!("{i}{name}"))).collect();
    points.sort_unstable();
    points.dedup();
    points.into()
}

/// Points in the order of their hashes. A point is *open* if its member owns it and has room; a search sees open
/// points only, and passes buckets without any by the summary above them.
#[derive(Clone, Debug)]
pub(super) struct Circle {
    buckets: Vec<Bucket>,
    /// Buckets with an open point.
    open: Bitmap,
    /// A hash's bucket is what is left of it without this many low bits.
    shift: u32,
    points: usize,
}

#[derive(Clone, Debug, Default)]
struct Bucket {
    /// By hash; of one hash, the owner first, then the others by name.
    points: Vec<Point>,
    open: u32,
}

#[derive(Clone, Copy, Debug)]
struct Point {
    hash: u32,
    /// The member, twice, plus one if the point is open: eight bytes in all.
    tagged: u32,
}

impl Point {
    fn member(self) -> u32 {
        self.tagged >> 1
    }

    fn is_open(self) -> bool {
        self.tagged & 1 == 1
    }
}

/// Whose a point is after [`Circle::insert`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Insertion {
    /// The new member's, and before that this other one's.
    Owned { before: Option<u32> },
    /// Another member's, which has the smaller name.
    Shared,
}

/// Whose a point is after [`Circle::remove`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Removal {
    /// It was the removed member's, and is now this other one's.
    Owned { heir: Option<u32> },
    /// Another member's, as before.
    Shared,
}

impl Circle {
    pub fn new() -> Circle {
        Circle::with_buckets(FEWEST_BUCKETS)
    }

    fn with_buckets(buckets: usize) -> Circle {
        Circle {
            buckets: vec![Bucket::default(); buckets],
            open: Bitmap::new(buckets),
            shift: u32::BITS - buckets.trailing_zeros(),
            points: 0,
        }
    }

    fn bucket(&self, hash: u32) -> usize {
        (hash >> self.shift) as usize
    }

    /// Adds a point, closed. `precedes(other)` says whether the new member's name is smaller than that of `other`.
    pub fn insert(&mut self, hash: u32, member: u32, precedes: impl Fn(u32) -> bool) -> Insertion {
        if self.points >= self.buckets.len() * CROWDED {
            self.grow();
        }
        self.points += 1;
        let index = self.bucket(hash);
        let bucket = &mut self.buckets[index];
        let first = bucket.points.partition_point(|point| point.hash < hash);
        let sharers = bucket.points[first..].iter().take_while(|point| point.hash == hash);
        let at = first + sharers.take_while(|point| !precedes(point.member())).count();
        bucket.points.insert(at, Point { hash, tagged: member << 1 });
        if at > first {
            return Insertion::Shared;
        }
        let before = bucket.points.get(at + 1).filter(|point| point.hash == hash).map(|point| point.member());
        if before.is_some() {
            self.tag(index, at + 1, false);
        }
        Insertion::Owned { before }
    }

    /// Takes a point away. The heir's point is closed.
    pub fn remove(&mut self, hash: u32, member: u32) -> Removal {
        self.points -= 1;
        let index = self.bucket(hash);
        let points = &self.buckets[index].points;
        let first = points.partition_point(|point| point.hash < hash);
        let at = first
            + points[first..]
                .iter()
                .position(|point| point.hash == hash && point.member() == member)
                .expect("a member is removed from the points that it was added to");
        self.tag(index, at, false);
        let points = &mut self.buckets[index].points;
        points.remove(at);
        if at > first {
            return Removal::Shared;
        }
        Removal::Owned { heir: points.get(at).filter(|point| point.hash == hash).map(|point| point.member()) }
    }

    /// Opens or closes the point, if it is the member's own.
    pub fn set_open(&mut self, hash: u32, member: u32, open: bool) {
        let index = self.bucket(hash);
        if let Some(at) = self.position(index, hash, member) {
            self.tag(index, at, open);
        }
    }

    /// Whether the point at this hash is the member's own.
    pub fn owns(&self, hash: u32, member: u32) -> bool {
        self.position(self.bucket(hash), hash, member).is_some()
    }

    fn position(&self, index: usize, hash: u32, member: u32) -> Option<usize> {
        let points = &self.buckets[index].points;
        let at = points.iter().position(|point| point.hash >= hash)?;
        (points[at].hash == hash && points[at].member() == member).then_some(at)
    }

    fn tag(&mut self, index: usize, at: usize, open: bool) {
        let bucket = &mut self.buckets[index];
        let point = &mut bucket.points[at];
        if point.is_open() == open {
            return;
        }
        point.tagged ^= 1;
        if open {
            bucket.open += 1;
            if bucket.open == 1 {
                self.open.set(index);
            }
        } else {
            bucket.open -= 1;
            if bucket.open == 0 {
                self.open.clear(index);
            }
        }
    }

    /// The member of the first open point that is not before the key, wrapping, of those that `wanted` accepts.
    pub fn first(&self, key: u32, wanted: impl Fn(u32) -> bool) -> Option<u32> {
        let find = |points: &[Point]| {
            points.iter().find(|point| point.is_open() && wanted(point.member())).map(|point| point.member())
        };
        let start = self.bucket(key);
        let home = &self.buckets[start].points;
        let split = home.iter().position(|point| point.hash >= key).unwrap_or(home.len());
        if let Some(member) = find(&home[split..]) {
            return Some(member);
        }
        let mut at = start + 1;
        while let Some(index) = self.open.next(at) {
            if let Some(member) = find(&self.buckets[index].points) {
                return Some(member);
            }
            at = index + 1;
        }
        at = 0;
        while let Some(index) = self.open.next(at).filter(|index| *index < start) {
            if let Some(member) = find(&self.buckets[index].points) {
                return Some(member);
            }
            at = index + 1;
        }
        find(&home[..split])
    }

    /// Doubles the buckets. Rare: its cost is spread over as many insertions.
    fn grow(&mut self) {
        let mut grown = Circle::with_buckets(self.buckets.len() * 2);
        grown.points = self.points;
        for bucket in &self.buckets {
            for point in &bucket.points {
                let index = grown.bucket(point.hash);
                grown.buckets[index].points.push(*point);
                if point.is_open() {
                    grown.buckets[index].open += 1;
                    grown.open.set(index);
                }
            }
        }
        *self = grown;
    }

    /// Every point in order: hash, member, whether open.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32, bool)> {
        self.buckets.iter().flat_map(|bucket| &bucket.points).map(|p| (p.hash, p.member(), p.is_open()))
    }

    /// Buckets whose summary does not say what their points say.
    pub fn wrong_buckets(&self) -> usize {
        let wrong = |(index, bucket): &(usize, &Bucket)| {
            let open = bucket.points.iter().filter(|point| point.is_open()).count();
            open != bucket.open as usize
                || (self.open.next(*index) == Some(*index)) != (open > 0)
                || bucket.points.iter().any(|point| self.bucket(point.hash) != *index)
        };
        self.buckets.iter().enumerate().filter(wrong).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_antrea() {
        for (text, value) in [
            ("1.1.1.1", 218_290_772),
            ("1.1.1.11", 4_023_875_712),
            ("1.1.1.21", 3_304_729_411),
            ("0node1", 4_134_892_627),
            ("49node1", 2_717_440_519),
            ("0node2", 1_870_407_145),
            ("0node3", 410_719_615),
        ] {
            assert_eq!(hash(text), value, "{text}");
        }
    }

    #[test]
    fn a_shared_point_passes_to_its_heir_and_back() {
        let mut circle = Circle::new();
        let precedes = |member: u32| move |other: u32| member < other;
        assert_eq!(circle.insert(7, 2, precedes(2)), Insertion::Owned { before: None });
        circle.set_open(7, 2, true);
        assert_eq!(circle.insert(7, 3, precedes(3)), Insertion::Shared);
        circle.set_open(7, 3, true);
        assert_eq!(circle.first(0, |_| true), Some(2));
        assert_eq!(circle.insert(7, 1, precedes(1)), Insertion::Owned { before: Some(2) });
        assert_eq!(circle.first(0, |_| true), None, "closed until its new owner opens it");
        circle.set_open(7, 1, true);
        assert_eq!(circle.first(8, |_| true), Some(1));
        assert_eq!(circle.remove(7, 2), Removal::Shared);
        assert_eq!(circle.remove(7, 1), Removal::Owned { heir: Some(3) });
        assert_eq!(circle.first(0, |_| true), None);
        assert_eq!(circle.remove(7, 3), Removal::Owned { heir: None });
        assert_eq!(circle.wrong_buckets(), 0);
    }

    #[test]
    fn a_search_wraps_into_its_own_bucket_and_the_one_before() {
        let mut circle = Circle::new();
        circle.insert(5, 0, |_| false);
        circle.set_open(5, 0, true);
        assert_eq!(circle.first(5, |_| true), Some(0));
        assert_eq!(circle.first(6, |_| true), Some(0));
        let next_bucket = 1 << circle.shift;
        assert_eq!(circle.first(next_bucket, |_| true), Some(0));
        assert_eq!(circle.first(u32::MAX, |_| true), Some(0));
        assert_eq!(circle.first(6, |_| false), None);
    }

    #[test]
    fn growing_keeps_every_point() {
        let mut circle = Circle::new();
        for member in 0..100 {
            for point in points(&format!("node-{member}")) {
                circle.insert(point, member, |other| member < other);
                circle.set_open(point, member, true);
            }
        }
        assert!(circle.buckets.len() > FEWEST_BUCKETS);
        assert_eq!(circle.iter().count(), 5_000);
        assert!(circle.iter().is_sorted_by_key(|(hash, ..)| hash));
        assert_eq!(circle.wrong_buckets(), 0);
        assert_eq!(circle.first(hash("1.1.1.1"), |_| true), Some(79));
    }
}
