//! The ids of infrastructures.

use std::fmt;

use serde::{Serialize, Serializer};

/// The id that IM gave an infrastructure: a UUID in lower case. So it can stand in a path as it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct InfrastructureId(String);

impl InfrastructureId {
    /// Returns the id, or none if the text is no UUID in lower case.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let groups: Vec<&str> = text.split('-').collect();
        let is_hex = |group: &&str| {
            let mut bytes = group.bytes();
            bytes.all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
        (lengths == [8, 4, 4, 4, 12] && groups.iter().all(is_hex)).then(|| Self(text.to_owned()))
    }

    /// Returns the id as it is written.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for InfrastructureId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for InfrastructureId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}
