//! A set of small numbers that finds the next member in O(log n).

/// Bits with a summary: a bit of each layer says that a word of the layer below has a bit set.
#[derive(Clone, Debug)]
pub(super) struct Bitmap {
    /// The bits themselves first; the last layer is one word.
    layers: Vec<Vec<u64>>,
}

const WORD: usize = u64::BITS as usize;

impl Bitmap {
    /// Room for the numbers `0..len`, none of them set.
    pub fn new(len: usize) -> Bitmap {
        let mut layers = Vec::new();
        let mut words = len;
        loop {
            words = words.div_ceil(WORD).max(1);
            layers.push(vec![0; words]);
            if words == 1 {
                return Bitmap { layers };
            }
        }
    }

    pub fn set(&mut self, mut bit: usize) {
        for layer in &mut self.layers {
            layer[bit / WORD] |= 1 << (bit % WORD);
            bit /= WORD;
        }
    }

    pub fn clear(&mut self, mut bit: usize) {
        for layer in &mut self.layers {
            let word = &mut layer[bit / WORD];
            *word &= !(1 << (bit % WORD));
            if *word != 0 {
                return;
            }
            bit /= WORD;
        }
    }

    /// The first number set that is not below `from`.
    pub fn next(&self, from: usize) -> Option<usize> {
        let mut at = from;
        for (height, layer) in self.layers.iter().enumerate() {
            let index = at / WORD;
            let word = layer.get(index)? & (!0 << (at % WORD));
            if word != 0 {
                let mut found = index * WORD + word.trailing_zeros() as usize;
                for below in self.layers[..height].iter().rev() {
                    found = found * WORD + below[found].trailing_zeros() as usize;
                }
                return Some(found);
            }
            at = index + 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_next_across_layers() {
        let mut bits = Bitmap::new(300_000);
        assert_eq!(bits.next(0), None);
        for bit in [0, 63, 64, 4_095, 4_096, 262_143, 262_144, 299_999] {
            bits.set(bit);
        }
        assert_eq!(bits.next(0), Some(0));
        assert_eq!(bits.next(1), Some(63));
        assert_eq!(bits.next(65), Some(4_095));
        assert_eq!(bits.next(4_097), Some(262_143));
        assert_eq!(bits.next(262_145), Some(299_999));
        bits.clear(262_143);
        bits.clear(4_096);
        assert_eq!(bits.next(4_096), Some(262_144));
        bits.clear(299_999);
        assert_eq!(bits.next(262_145), None);
        assert_eq!(bits.next(10_000_000), None);
    }

    #[test]
    fn one_word_is_enough() {
        let mut bits = Bitmap::new(1);
        bits.set(0);
        assert_eq!(bits.next(0), Some(0));
        assert_eq!(bits.next(1), None);
        bits.clear(0);
        assert_eq!(bits.next(0), None);
    }
}
