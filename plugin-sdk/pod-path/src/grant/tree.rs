//! Grants as a tree, which is followed along a path together with the pod.

use serde_json::Value;

use super::{Grants, Segment};
use crate::path::Selector;

/// All grants of a plugin, for reading and writing, with common prefixes merged.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    /// The first is the root.
    nodes: Vec<Node>,
}

#[derive(Clone, Debug, Default)]
struct Node {
    /// Whether a grant ends here. A write grant includes reading.
    read: bool,
    /// Whether a write grant ends here.
    write: bool,
    /// Whether a write grant ends further down.
    leads_to_write: bool,
    children: Vec<(Segment, usize)>,
}

impl Tree {
    pub(crate) fn new(reads: &Grants, writes: &Grants) -> Self {
        let mut tree = Self {
            nodes: vec![Node::default()],
        };
        for grant in &reads.grants {
            tree.add(&grant.segments, false);
        }
        for grant in &writes.grants {
            tree.add(&grant.segments, true);
        }
        tree
    }

    fn add(&mut self, segments: &[Segment], write: bool) {
        let mut at = 0;
        for segment in segments {
            if let Some(node) = self.nodes.get_mut(at) {
                node.leads_to_write |= write;
            }
            at = self.child(at, segment);
        }
        if let Some(node) = self.nodes.get_mut(at) {
            node.read = true;
            node.write |= write;
        }
    }

    /// The node's child for a segment, which is created if it is missing.
    fn child(&mut self, at: usize, segment: &Segment) -> usize {
        let next = self.nodes.len();
        let Some(node) = self.nodes.get_mut(at) else {
            return at;
        };
        if let Some((_, child)) = node.children.iter().find(|(own, _)| own == segment) {
            return *child;
        }
        node.children.push((segment.clone(), next));
        self.nodes.push(Node::default());
        next
    }

    fn node(&self, at: usize) -> Option<&Node> {
        self.nodes.get(at)
    }

    /// Whether this field of the value at a node may be read.
    fn shows(&self, at: usize, field: &str) -> bool {
        let is_granted = |(segment, at): &(Segment, usize)| {
            matches!(segment, Segment::Key(key) if key == field)
                && self.node(*at).is_some_and(|node| node.read)
        };
        self.node(at)
            .is_some_and(|node| node.read || node.children.iter().any(is_granted))
    }
}

/// Which grants cover a path, while it is followed segment by segment.
#[derive(Clone, Debug)]
pub(crate) struct Coverage<'g> {
    tree: &'g Tree,
    /// A write grant covers the path without a condition.
    free: bool,
    /// A grant covers the path.
    readable: bool,
    /// The nodes that match the path and have children.
    open: Few<usize>,
    /// Write grants that cover the path and end at an element whose key must not change.
    guards: Few<KeyGuard<'g>>,
    /// How many segments have been followed.
    depth: usize,
}

/// A condition on a write: the key by which a grant selects the element must not change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyGuard<'g> {
    pub(crate) selector: &'g Selector<'static>,
    /// The number of segments of the element's path.
    pub(crate) depth: usize,
    /// How the path relates to the element.
    pub(crate) reach: Reach,
}

/// How a path relates to an element that is granted by its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// It is the element.
    Element,
    /// It is in the key field.
    Key,
    /// It is in another field.
    Beside,
}

/// What a segment of a path has reached.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reached<'s> {
    /// A field of an object, whether or not it exists.
    Key(&'s str),
    /// An element of a list.
    Element(&'s Value),
    /// All elements of a list.
    EachElement,
    /// An element that does not exist, by index or as the end of the list.
    MissingPosition,
    /// An element that does not exist, by selector.
    Missing(&'s Selector<'s>),
    /// An element to be added to these.
    New(&'s Value, &'s [Value]),
}

/// Which elements of a list a selector may search, so that it reveals only fields that may be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    All,
    /// Those for which [`Coverage::sees`] is true.
    Some,
    None,
}

impl<'g> Coverage<'g> {
    pub(crate) fn at_root(tree: &'g Tree) -> Self {
        let mut coverage = Self {
            tree,
            free: tree.node(0).is_some_and(|root| root.write),
            readable: false,
            open: Few::none(),
            guards: Few::none(),
            depth: 0,
        };
        coverage.open(0);
        coverage
    }

    pub(crate) fn follow(&mut self, reached: Reached<'_>) {
        if self.free {
            return;
        }
        self.guards.each(|guard| {
            if guard.depth == self.depth {
                let in_key = matches!(reached, Reached::Key(key) if key == guard.selector.key);
                guard.reach = if in_key { Reach::Key } else { Reach::Beside };
            }
        });
        self.depth += 1;
        let tree = self.tree;
        let open = std::mem::take(&mut self.open);
        for node in open.iter().filter_map(|&at| tree.node(at)) {
            for (segment, at) in &node.children {
                if segment.names(reached) {
                    self.enter(segment, *at);
                }
            }
        }
    }

    fn enter(&mut self, segment: &'g Segment, at: usize) {
        self.open(at);
        if !self.tree.node(at).is_some_and(|node| node.write) {
            return;
        }
        match segment {
            Segment::Selector(selector) => self.guards.push(KeyGuard {
                selector,
                depth: self.depth,
                reach: Reach::Element,
            }),
            Segment::Key(_) | Segment::Any => self.free = true,
        }
    }

    fn open(&mut self, at: usize) {
        if let Some(node) = self.tree.node(at) {
            self.readable |= node.read;
            if !node.children.is_empty() {
                self.open.push(at);
            }
        }
    }

    /// Whether the value here may be read.
    pub(crate) fn is_readable(&self) -> bool {
        self.readable
    }

    /// Whether nothing here or further down is granted. Then the result must not depend on the pod.
    pub(crate) fn is_lost(&self) -> bool {
        !self.readable && self.open.is_empty()
    }

    /// Whether a write grant covers the path without a condition.
    pub(crate) fn is_free(&self) -> bool {
        self.free
    }

    /// Whether a write grant covers the path, possibly with a condition.
    pub(crate) fn is_covered(&self) -> bool {
        self.free || !self.guards.is_empty()
    }

    /// Whether the path is a parent of a write grant.
    pub(crate) fn is_above(&self) -> bool {
        let leads = |&at: &usize| self.tree.node(at).is_some_and(|node| node.leads_to_write);
        !self.is_covered() && self.open.iter().any(leads)
    }

    /// The conditions, one of which must hold unless the path is free.
    pub(crate) fn guards(&self) -> impl Iterator<Item = &KeyGuard<'g>> {
        self.guards.iter()
    }

    /// Whether indices in the list here, and so its length, may be known.
    pub(crate) fn shows_positions(&self) -> bool {
        self.readable
            || self
                .segments()
                .any(|(segment, _)| matches!(segment, Segment::Any))
    }

    /// Which elements of the list here a selector may search. `key` is the list's merge key, which a grant with `*` reveals.
    pub(crate) fn sight(&self, selector: &Selector<'_>, key: Option<&str>) -> Sight {
        let field = &*selector.key;
        if self.readable {
            return Sight::All;
        }
        let mut sight = Sight::None;
        for (segment, at) in self.segments() {
            match segment {
                Segment::Any if key == Some(field) || self.tree.shows(*at, field) => {
                    return Sight::All;
                }
                Segment::Selector(own) if own.key == field || self.tree.shows(*at, field) => {
                    sight = Sight::Some;
                }
                _ => {}
            }
        }
        sight
    }

    /// Whether a selector without [`Sight::All`] may search this element of the list here.
    pub(crate) fn sees(&self, selector: &Selector<'_>, element: &Value) -> bool {
        self.segments().any(|(segment, at)| match segment {
            Segment::Selector(own) => {
                (own == selector || self.tree.shows(*at, &selector.key)) && own.matches(element)
            }
            // If a grant with `*` shows the field, the sight is all.
            Segment::Any | Segment::Key(_) => false,
        })
    }

    /// The next segments of the grants that match the path so far.
    fn segments(&self) -> impl Iterator<Item = &'g (Segment, usize)> {
        let tree = self.tree;
        let nodes = self.open.iter().filter_map(move |&at| tree.node(at));
        nodes.flat_map(|node| &node.children)
    }
}

impl Segment {
    fn names(&self, reached: Reached<'_>) -> bool {
        match (self, reached) {
            (Self::Key(own), Reached::Key(key)) => own == key,
            (Self::Key(_), _) | (_, Reached::Key(_)) => false,
            (Self::Any, _) => true,
            (Self::Selector(own), Reached::Element(element)) => own.matches(element),
            (Self::Selector(own), Reached::Missing(selector)) => own == selector,
            (Self::Selector(_), Reached::MissingPosition | Reached::EachElement) => false,
            (Self::Selector(own), Reached::New(element, others)) => {
                own.matches(element) && !others.iter().any(|other| own.matches(other))
            }
        }
    }
}

/// A list that does not allocate for a single value.
#[derive(Clone, Debug)]
struct Few<T> {
    first: Option<T>,
    more: Vec<T>,
}

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self::none()
    }
}

impl<T> Few<T> {
    const fn none() -> Self {
        Self {
            first: None,
            more: Vec::new(),
        }
    }

    fn push(&mut self, value: T) {
        match self.first {
            None => self.first = Some(value),
            Some(_) => self.more.push(value),
        }
    }

    fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(&self.more)
    }

    fn each(&mut self, act: impl FnMut(&mut T)) {
        self.first.iter_mut().chain(&mut self.more).for_each(act);
    }
}
