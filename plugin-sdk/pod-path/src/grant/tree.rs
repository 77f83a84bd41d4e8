//! Grants as a tree, followed along a path in step with the pod.

use serde_json::Value;

use super::{Grant, Segment};
use crate::path::{Selector, has_field};

/// All grants of a set, with their common beginnings merged.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    /// The first is the root.
    nodes: Vec<Node>,
}

#[derive(Clone, Debug, Default)]
struct Node {
    /// Whether a grant ends here.
    granted: bool,
    children: Vec<(Segment, usize)>,
}

impl Tree {
    pub(super) fn new(grants: &[Grant]) -> Self {
        let mut nodes = vec![Node::default()];
        for grant in grants {
            let mut at = 0;
            for segment in &grant.segments {
                at = child(&mut nodes, at, segment);
            }
            if let Some(node) = nodes.get_mut(at) {
                node.granted = true;
            }
        }
        Self { nodes }
    }

    fn node(&self, at: usize) -> Option<&Node> {
        self.nodes.get(at)
    }
}

/// The node's child for a segment, made if need be.
fn child(nodes: &mut Vec<Node>, at: usize, segment: &Segment) -> usize {
    let next = nodes.len();
    let Some(node) = nodes.get_mut(at) else {
        return at;
    };
    if let Some((_, child)) = node.children.iter().find(|(own, _)| own == segment) {
        return *child;
    }
    node.children.push((segment.clone(), next));
    nodes.push(Node::default());
    next
}

/// How far a path is granted, as it is followed segment by segment.
#[derive(Clone, Debug)]
pub(crate) struct Coverage<'g> {
    tree: &'g Tree,
    /// A grant covers the path and sets no condition.
    free: bool,
    /// Where in the tree the path may be.
    open: Few<usize>,
    /// Grants that cover the path and end at an element that must keep its key.
    guards: Few<Guard<'g>>,
    /// How many segments were followed.
    depth: usize,
}

/// A condition on a write: the element that a grant names by its key keeps that key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guard<'g> {
    pub(crate) key: &'g str,
    pub(crate) value: &'g str,
    /// How many segments lead to the element.
    depth: usize,
    /// How the path relates to it.
    pub(crate) reach: Reach,
}

/// Where a path leads, seen from an element that is granted by its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// To the element itself.
    Element,
    /// Into the key field.
    Key,
    /// Into another field.
    Beside,
}

/// What a segment of a path has led to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reached<'s> {
    /// A field of an object, existing or not.
    Key(&'s str),
    /// An element of a list.
    Element(&'s Value),
    /// An element that does not exist, named by its position or as the end of the list.
    MissingPosition,
    /// An element that does not exist, named by its key.
    Missing(&'s Selector<'s>),
    /// An element that is about to be added to these.
    New(&'s Value, &'s [Value]),
}

impl<'g> Coverage<'g> {
    pub(crate) fn at_root(tree: &'g Tree) -> Self {
        let free = tree.node(0).is_some_and(|root| root.granted);
        Self {
            tree,
            free,
            open: Few::one(0),
            guards: Few::none(),
            depth: 0,
        }
    }

    pub(crate) fn follow(&mut self, reached: Reached<'_>) {
        if self.free {
            return;
        }
        self.guards.each(|guard| {
            if guard.depth == self.depth {
                let in_key = matches!(reached, Reached::Key(key) if key == guard.key);
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
        self.open.push(at);
        if !self.tree.node(at).is_some_and(|node| node.granted) {
            return;
        }
        match segment {
            Segment::Selector { key, value } => self.guards.push(Guard {
                key,
                value,
                depth: self.depth,
                reach: Reach::Element,
            }),
            Segment::Key(_) | Segment::Any => self.free = true,
        }
    }

    /// Whether a grant covers the path and sets no condition.
    pub(crate) fn is_free(&self) -> bool {
        self.free
    }

    /// Whether a grant covers the path, perhaps under a condition.
    pub(crate) fn is_covered(&self) -> bool {
        self.free || !self.guards.is_empty()
    }

    /// Whether the path leads towards a grant without reaching it.
    pub(crate) fn is_above(&self) -> bool {
        !self.is_covered() && !self.open.is_empty()
    }

    /// The conditions, of which one must hold unless the path is free.
    pub(crate) fn guards(&self) -> impl Iterator<Item = &Guard<'g>> {
        self.guards.iter()
    }
}

impl Segment {
    fn names(&self, reached: Reached<'_>) -> bool {
        match (self, reached) {
            (Self::Key(own), Reached::Key(key)) => own == key,
            (Self::Key(_), _) | (_, Reached::Key(_)) => false,
            (Self::Any, _) => true,
            (Self::Selector { key, value }, Reached::Element(element)) => {
                has_field(element, key, value)
            }
            (Self::Selector { key, value }, Reached::Missing(selector)) => {
                *key == selector.key && *value == selector.value
            }
            (Self::Selector { .. }, Reached::MissingPosition) => false,
            (Self::Selector { key, value }, Reached::New(element, others)) => {
                has_field(element, key, value)
                    && !others.iter().any(|other| has_field(other, key, value))
            }
        }
    }
}

/// A few values, kept without allocating while there is at most one.
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

    const fn one(value: T) -> Self {
        Self {
            first: Some(value),
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
