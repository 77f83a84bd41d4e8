//! Finds the line of a value in a YAML text, for messages about values that were parsed without their positions.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

/// The lines of all values of a YAML document.
pub(crate) struct Lines(Option<Spanned<Node>>);

enum Node {
    Scalar,
    List(Vec<Spanned<Self>>),
    Map(Vec<(String, Spanned<Self>)>),
}

impl Lines {
    /// Reads a text; what cannot be read has no lines.
    pub(crate) fn of(text: &str) -> Self {
        Self(serde_saphyr::from_str(text).ok())
    }

    /// The line of the value at a JSON Pointer, or of the last value on the way that exists; 0 if nothing is known.
    pub(crate) fn line(&self, pointer: &str) -> u64 {
        let Some(mut here) = self.0.as_ref() else {
            return 0;
        };
        for raw in pointer.split('/').skip(1) {
            let segment = raw.replace("~1", "/").replace("~0", "~");
            let next = match &here.value {
                Node::Scalar => None,
                Node::List(items) => segment.parse().ok().and_then(|at: usize| items.get(at)),
                Node::Map(fields) => {
                    let mut fields = fields.iter();
                    fields
                        .find(|(key, _)| *key == segment)
                        .map(|(_, value)| value)
                }
            };
            match next {
                Some(next) => here = next,
                None => break,
            }
        }
        here.referenced.line()
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_str<E>(self, _: &str) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Node::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut fields = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            fields.push((key, map.next_value()?));
        }
        Ok(Node::Map(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::Lines;

    #[test]
    fn values_are_found_by_their_pointers() {
        let text = "plugins:\n- name: a\n  config:\n    x: 1\n    \"y/z\": [1,\n      2]\n- {name: b, config: null}\n";
        let lines = Lines::of(text);
        for (pointer, line) in [
            ("/plugins/0/name", 2),
            ("/plugins/0/config/x", 4),
            ("/plugins/0/config/y~1z", 5),
            ("/plugins/0/config/y~1z/1", 6),
            ("/plugins/1/config", 7),
            // The nearest value around it.
            ("/plugins/0/config/gone/away", 4),
        ] {
            assert_eq!(lines.line(pointer), line, "{pointer}");
        }
        assert_eq!(Lines::of("a: [").line("/a"), 0);
    }
}
