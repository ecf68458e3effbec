//! Parts of a list.

use holdfast_api::v1;
use prost::Message;

use crate::wire::Invalid;

/// The largest page.
pub const MAX: usize = 10_000;
/// The page of a caller that names no size.
const DEFAULT: usize = 1_000;
/// A page ends early at this size, bytes, so that it stays below the 4 MiB that every client takes.
const BYTES: usize = 2 << 20;

/// Which part of a list is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// How many items at most.
    pub size: usize,
    /// The token of the last item of the page before; empty for the first page.
    pub after: String,
}

impl Part {
    /// What a request asks for.
    pub fn of(page: Option<v1::Page>) -> Result<Part, Invalid> {
        let page = page.unwrap_or_default();
        let size = match page.size as usize {
            0 => DEFAULT,
            size if size <= MAX => size,
            size => return Err(Invalid::new("page.size", size, format!("0 to {MAX}"))),
        };
        Ok(Part { size, after: page.token })
    }

    /// The first items, and the token of the last one if there are more.
    pub fn fill<T: Message>(&self, items: impl Iterator<Item = (String, T)>) -> (Vec<T>, String) {
        let mut filled = Vec::new();
        let mut last = String::new();
        let mut bytes = 0;
        for (token, item) in items {
            bytes += item.encoded_len();
            if filled.len() == self.size || (bytes > BYTES && !filled.is_empty()) {
                return (filled, last);
            }
            filled.push(item);
            last = token;
        }
        (filled, String::new())
    }

    /// A token that is not one.
    pub fn bad_token(&self) -> Invalid {
        Invalid::new("page.token", &self.after, "empty, or next_page_token of the page before")
    }
}

/// Cuts items into messages of at most `size` items and about 2 MiB.
pub fn chunks<T: Message>(items: impl Iterator<Item = T>, size: usize) -> impl Iterator<Item = Vec<T>> {
    let mut items = items.peekable();
    std::iter::from_fn(move || {
        let mut chunk = vec![items.next()?];
        let mut bytes = chunk[0].encoded_len();
        while chunk.len() < size
            && let Some(item) = items.next_if(|item| bytes + item.encoded_len() <= BYTES)
        {
            bytes += item.encoded_len();
            chunk.push(item);
        }
        Some(chunk)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(n: usize) -> impl Iterator<Item = (String, String)> {
        (0..n).map(|i| (i.to_string(), "x".to_owned()))
    }

    #[test]
    fn a_page_names_its_last_item_only_if_more_follow() {
        let part = Part { size: 3, after: String::new() };
        assert_eq!(part.fill(items(3)), (vec!["x".to_owned(); 3], String::new()));
        assert_eq!(part.fill(items(4)), (vec!["x".to_owned(); 3], "2".to_owned()));
    }

    #[test]
    fn a_page_is_bounded_in_bytes_but_never_empty() {
        let part = Part { size: 100, after: String::new() };
        let large = "x".repeat(BYTES);
        let (page, next) = part.fill((0..3).map(|i| (i.to_string(), large.clone())));
        assert_eq!((page.len(), next.as_str()), (1, "0"));
    }

    #[test]
    fn chunks_lose_nothing() {
        let cut = chunks((0..7).map(|i| i.to_string()), 3);
        assert_eq!(cut.map(|chunk| chunk.len()).collect::<Vec<_>>(), [3, 3, 1]);
        let large = chunks(vec!["x".repeat(BYTES); 2].into_iter(), 3);
        assert_eq!(large.count(), 2);
    }

    #[test]
    fn sizes_are_bounded() {
        let size = |size| Part::of(Some(v1::Page { size, token: String::new() })).map(|part| part.size);
        assert_eq!(size(0), Ok(DEFAULT));
        assert_eq!(size(10_000), Ok(MAX));
        assert_eq!(size(10_001).map_err(|invalid| invalid.field), Err("page.size".to_owned()));
    }
}
