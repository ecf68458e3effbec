//! A set of numbers, kept as runs, that finds the lowest run of a given length in one descent.

#[cfg(test)]
mod tests;

/// Most runs in a leaf, and most children of an inner node. Small in tests, so that small sets are deep.
const FULL: usize = if cfg!(test) { 4 } else { 32 };

/// A set of `u128`, as disjoint inclusive runs, no two of which touch.
///
/// A B-tree: the leaves hold the runs in ascending order, and an inner node knows of each child the
/// lowest number and the longest run below it. A run costs 32 bytes and the slack of its leaf.
/// Counts are exact, but for the set of all 2^128 numbers, which counts as `u128::MAX`.
#[derive(Clone, Debug, Default)]
pub struct RunSet {
    root: Node,
    /// How many numbers, modulo 2^128.
    count: u128,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    first: u128,
    last: u128,
}

impl Run {
    /// One less than the length, which may be 2^128.
    fn span(self) -> u128 {
        self.last - self.first
    }
}

#[derive(Clone, Debug)]
enum Node {
    Leaf(Vec<Run>),
    /// Never empty, but inside [`Node::replace`]. All leaves are equally deep.
    Inner(Vec<Child>),
}

#[derive(Clone, Debug)]
struct Child {
    /// The lowest number below.
    first: u128,
    /// The longest [`Run::span`] below.
    span: u128,
    node: Node,
}

impl RunSet {
    /// The empty set.
    pub fn new() -> RunSet {
        RunSet::default()
    }

    /// Adds `first..=last`; nothing if `first > last`. O(log n) for each run that it touches.
    /// `false` if nothing changed.
    pub fn insert(&mut self, first: u128, last: u128) -> bool {
        if first > last {
            return false;
        }
        let mut new = Run { first, last };
        while let Some(run) = self.root.run_from(first.saturating_sub(1))
            && run.first <= last.saturating_add(1)
        {
            if run.first <= first && run.last >= last {
                return false;
            }
            new.first = new.first.min(run.first);
            new.last = new.last.max(run.last);
            self.replace(run.first, [None, None]);
            self.count = self.count.wrapping_sub(run.span()).wrapping_sub(1);
            if run.last > last {
                break;
            }
        }
        self.replace(new.first, [Some(new), None]);
        self.count = self.count.wrapping_add(new.span()).wrapping_add(1);
        true
    }

    /// Takes `first..=last` out; nothing if `first > last`. O(log n) for each run that it touches.
    /// `false` if nothing changed.
    pub fn remove(&mut self, first: u128, last: u128) -> bool {
        let mut changed = false;
        while let Some(run) = self.root.run_from(first)
            && run.first <= last
            && first <= last
        {
            let before = (run.first < first).then(|| Run { first: run.first, last: first - 1 });
            let after = (run.last > last).then(|| Run { first: last + 1, last: run.last });
            let cut = Run { first: run.first.max(first), last: run.last.min(last) };
            self.replace(run.first, [before, after]);
            self.count = self.count.wrapping_sub(cut.span()).wrapping_sub(1);
            changed = true;
            if run.last >= last {
                break;
            }
        }
        changed
    }

    /// Whether `x` is in the set.
    pub fn contains(&self, x: u128) -> bool {
        self.run_at(x).is_some()
    }

    /// The run that holds `x`.
    pub fn run_at(&self, x: u128) -> Option<(u128, u128)> {
        self.run_from(x).filter(|&(first, _)| first <= x)
    }

    /// The run that holds `from`, or else the next one after it. Whole, also where it begins before `from`.
    pub fn run_from(&self, from: u128) -> Option<(u128, u128)> {
        self.root.run_from(from).map(|run| (run.first, run.last))
    }

    /// Length of the longest run; 0 for the empty set.
    pub fn longest(&self) -> u128 {
        self.root.span().map_or(0, |span| span.saturating_add(1))
    }

    /// How many numbers are in the set.
    pub fn count(&self) -> u128 {
        if self.count == 0 && !self.is_empty() { u128::MAX } else { self.count }
    }

    /// Whether nothing is in the set.
    pub fn is_empty(&self) -> bool {
        self.root.len() == 0
    }

    /// The lowest `s >= from` such that `s ..= s + n - 1` are all in the set; it may lie inside a run
    /// that begins before `from`. `None` if there is none, or `n` is 0. O(log n).
    pub fn lowest_run(&self, n: u128, from: u128) -> Option<u128> {
        self.root.lowest_run(n.checked_sub(1)?, from)
    }

    /// The runs, ascending, as (first, last).
    pub fn runs(&self) -> impl Iterator<Item = (u128, u128)> + '_ {
        std::iter::successors(self.run_from(0), |&(_, last)| self.run_from(last.checked_add(1)?))
    }

    /// See [`Node::replace`].
    fn replace(&mut self, at: u128, with: [Option<Run>; 2]) {
        if let Some(right) = self.root.replace(at, with) {
            let left = Child::new(std::mem::take(&mut self.root)).expect("a node that was split is not empty");
            self.root = Node::Inner(vec![left, right]);
        }
        while let Node::Inner(children) = &mut self.root
            && children.len() < 2
        {
            self.root = children.pop().map(|child| child.node).unwrap_or_default();
        }
    }
}

impl Default for Node {
    fn default() -> Node {
        Node::Leaf(Vec::new())
    }
}

impl Node {
    fn len(&self) -> usize {
        match self {
            Node::Leaf(runs) => runs.len(),
            Node::Inner(children) => children.len(),
        }
    }

    /// The lowest number below; `None` if there is nothing.
    fn first(&self) -> Option<u128> {
        match self {
            Node::Leaf(runs) => runs.first().map(|run| run.first),
            Node::Inner(children) => children.first().map(|child| child.first),
        }
    }

    /// The longest span below; `None` if there is nothing.
    fn span(&self) -> Option<u128> {
        match self {
            Node::Leaf(runs) => runs.iter().map(|run| run.span()).max(),
            Node::Inner(children) => children.iter().map(|child| child.span).max(),
        }
    }

    /// The first run whose last number is at least `x`.
    fn run_from(&self, x: u128) -> Option<Run> {
        match self {
            Node::Leaf(runs) => runs.get(runs.partition_point(|run| run.last < x)).copied(),
            Node::Inner(children) => {
                // Of the children after the one that could hold x, the first has the answer: two descents at most.
                children[place_of(children, x)..].iter().take(2).find_map(|child| child.node.run_from(x))
            }
        }
    }

    /// The lowest `s >= from` with `s ..= s + span` in one run.
    fn lowest_run(&self, span: u128, from: u128) -> Option<u128> {
        match self {
            Node::Leaf(runs) => {
                let start = runs.partition_point(|run| run.last < from);
                let mut clipped = runs[start..].iter().map(|run| Run { first: run.first.max(from), last: run.last });
                clipped.find(|run| run.span() >= span).map(|run| run.first)
            }
            Node::Inner(children) => {
                // Only in the first child can the run found be cut short by `from`: two descents at most.
                let mut long = children[place_of(children, from)..].iter().filter(|child| child.span >= span);
                long.find_map(|child| child.node.lowest_run(span, from))
            }
        }
    }

    /// Replaces the run that begins at `at`, if there is one, by `with`; its runs are ascending, lie before
    /// the next run, and are at most one more than the runs replaced. Returns the upper half if the
    /// node became too large. May leave the node empty.
    fn replace(&mut self, at: u128, with: [Option<Run>; 2]) -> Option<Child> {
        match self {
            Node::Leaf(runs) => {
                let place = runs.partition_point(|run| run.first < at);
                let replaced = runs.get(place).is_some_and(|run| run.first == at);
                match (with, replaced) {
                    ([Some(first), after], true) => {
                        runs[place] = first;
                        if let Some(after) = after {
                            runs.insert(place + 1, after);
                        }
                    }
                    ([None, Some(only)], true) => runs[place] = only,
                    ([None, None], true) => drop(runs.remove(place)),
                    (with, false) => {
                        for run in with.into_iter().flatten() {
                            runs.insert(place, run);
                        }
                    }
                }
                split(runs).and_then(|upper| Child::new(Node::Leaf(upper)))
            }
            Node::Inner(children) => {
                let place = place_of(children, at);
                let upper = children[place].node.replace(at, with);
                if children[place].measure() {
                    match upper {
                        Some(upper) => children.insert(place + 1, upper),
                        None => merge_small(children, place),
                    }
                } else {
                    children.remove(place);
                }
                split(children).and_then(|upper| Child::new(Node::Inner(upper)))
            }
        }
    }

    /// Takes over what the next node on the same level holds.
    fn append(&mut self, next: Node) {
        match (self, next) {
            (Node::Leaf(runs), Node::Leaf(next)) => runs.extend(next),
            (Node::Inner(children), Node::Inner(next)) => children.extend(next),
            _ => unreachable!("all leaves are equally deep"),
        }
    }
}

impl Child {
    /// `None` for an empty node.
    fn new(node: Node) -> Option<Child> {
        Some(Child { first: node.first()?, span: node.span()?, node })
    }

    /// Brings `first` and `span` up to date; `false` if the node is empty.
    fn measure(&mut self) -> bool {
        let (Some(first), Some(span)) = (self.node.first(), self.node.span()) else {
            return false;
        };
        (self.first, self.span) = (first, span);
        true
    }
}

/// The child below which `x` is, or would be put.
fn place_of(children: &[Child], x: u128) -> usize {
    children.partition_point(|child| child.first <= x).saturating_sub(1)
}

/// Takes the upper half off if there are more than [`FULL`], and gives back the room that it took.
fn split<T>(items: &mut Vec<T>) -> Option<Vec<T>> {
    if items.len() <= FULL {
        return None;
    }
    let upper = items.split_off(items.len() / 2);
    items.shrink_to(FULL);
    Some(upper)
}

/// Joins the child with a neighbour if it is less than half full and the two leave room for growth.
fn merge_small(children: &mut Vec<Child>, place: usize) {
    let len = |place: usize| children.get(place).map_or(FULL, |child| child.node.len());
    if len(place) >= FULL / 2 {
        return;
    }
    let fits = |left: usize| len(left) + len(left + 1) <= FULL * 3 / 4;
    let left = match place.checked_sub(1) {
        _ if fits(place) => place,
        Some(before) if fits(before) => before,
        _ => return,
    };
    let next = children.remove(left + 1);
    children[left].node.append(next.node);
    children[left].measure();
}
