//! The members of a ring by how many addresses they carry.

/// Loads are below the largest capacity, 255: a Node that carries so many has no room.
const LEVELS: usize = 256;

/// Members in lists by load.
#[derive(Clone, Debug)]
pub(super) struct Levels {
    lists: Vec<Vec<u32>>,
    /// A bit for each list that is not empty.
    used: [u64; LEVELS / 64],
    len: usize,
}

impl Levels {
    pub fn new() -> Levels {
        Levels { lists: vec![Vec::new(); LEVELS], used: [0; LEVELS / 64], len: 0 }
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many members there are at all levels.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Adds a member; its slot in the list is needed to take it out again.
    pub fn insert(&mut self, level: u32, member: u32) -> usize {
        let list = &mut self.lists[level as usize];
        list.push(member);
        self.used[level as usize / 64] |= 1 << (level % 64);
        self.len += 1;
        list.len() - 1
    }

    /// Takes a member out. The member that has its slot now, if another has.
    pub fn remove(&mut self, level: u32, slot: usize) -> Option<u32> {
        let list = &mut self.lists[level as usize];
        list.swap_remove(slot);
        if list.is_empty() {
            self.used[level as usize / 64] &= !(1 << (level % 64));
        }
        self.len -= 1;
        list.get(slot).copied()
    }

    /// The members at a level, in no order to show.
    pub fn at(&self, level: u32) -> &[u32] {
        &self.lists[level as usize]
    }

    /// The levels that have members, ascending.
    pub fn used(&self) -> impl Iterator<Item = u32> {
        (0..).step_by(64).zip(self.used).flat_map(|(base, word)| {
            std::iter::successors(Some(word), |rest| Some(rest & rest.wrapping_sub(1)))
                .take_while(|rest| *rest != 0)
                .map(move |rest| base + rest.trailing_zeros())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_found_from_the_lowest() {
        let mut levels = Levels::new();
        for (level, member) in [(254, 1), (0, 2), (64, 3), (63, 4), (64, 5)] {
            levels.insert(level, member);
        }
        assert_eq!(levels.used().collect::<Vec<_>>(), [0, 63, 64, 254]);
        assert_eq!(levels.remove(64, 0), Some(5));
        assert_eq!(levels.remove(64, 0), None);
        assert_eq!(levels.remove(0, 0), None);
        assert_eq!(levels.used().collect::<Vec<_>>(), [63, 254]);
        assert_eq!(levels.len(), 2);
    }
}
