//! Values under small ids.

use std::ops::{Index, IndexMut};

/// Values by id. The ids of removed values are used again, so an id says nothing about order or age and must
/// never decide anything that can be seen.
#[derive(Clone, Debug)]
pub(super) struct Slab<T> {
    items: Vec<Option<T>>,
    free: Vec<u32>,
}

const LIVE: &str = "an id is used only while its value is there";

impl<T> Slab<T> {
    pub fn new() -> Slab<T> {
        Slab { items: Vec::new(), free: Vec::new() }
    }

    pub fn insert(&mut self, value: T) -> u32 {
        if let Some(id) = self.free.pop() {
            self.items[id as usize] = Some(value);
            return id;
        }
        let id = u32::try_from(self.items.len()).expect("fewer than 2^32 values fit into memory");
        self.items.push(Some(value));
        id
    }

    pub fn remove(&mut self, id: u32) -> T {
        let value = self.items[id as usize].take().expect(LIVE);
        self.free.push(id);
        value
    }

    pub fn len(&self) -> usize {
        self.items.len() - self.free.len()
    }

    /// By id, which is not an order to show.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..).zip(&self.items).filter_map(|(id, item)| Some((id, item.as_ref()?)))
    }

    /// By id, which is not an order to show.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        (0..).zip(&mut self.items).filter_map(|(id, item)| Some((id, item.as_mut()?)))
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, id: u32) -> &T {
        self.items[id as usize].as_ref().expect(LIVE)
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, id: u32) -> &mut T {
        self.items[id as usize].as_mut().expect(LIVE)
    }
}
