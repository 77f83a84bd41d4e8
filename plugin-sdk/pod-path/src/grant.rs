//! The paths that a plugin needs, or that it is granted.

mod overlap;
mod parse;
#[cfg(test)]
mod tests;
pub(crate) mod tree;

use std::error::Error;
use std::fmt;

pub use self::overlap::Disturbance;

/// A set of path prefixes: what a plugin needs, or what it is granted.
///
/// Each is a path on a Pod, and covers everything below it.
/// On a list, a segment is `*` (all elements) or `[key=value]` (only that element, which may also be created).
///
/// ```
/// use podloom_pod_path::Grants;
///
/// let allowed = Grants::parse_writes(&["/metadata/labels", "/spec/containers/*"])?;
/// let needed = Grants::parse_writes(&["/spec/containers/[name=proxy]/env", "/spec/volumes"])?;
/// assert_eq!(allowed.covers(&needed), Err(vec!["/spec/volumes".to_owned()]));
/// # Ok::<(), podloom_pod_path::GrantError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Grants {
    grants: Vec<Grant>,
}

/// One path of a set.
#[derive(Clone, Debug)]
struct Grant {
    text: String,
    segments: Vec<Segment>,
}

/// A segment of a grant, unescaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    /// A field of an object.
    Key(String),
    /// `*`: all elements of a list.
    Any,
    /// `[key=value]`: the element with this field.
    Selector {
        /// The field that the selector compares.
        key: String,
        /// Its value, as text.
        value: String,
    },
}

impl Grants {
    /// Parses paths for reading. The empty path is the whole pod.
    ///
    /// # Errors
    ///
    /// The first path that is malformed, or that has another segment on a list than `*` or `[key=value]`.
    pub fn parse<S: AsRef<str>>(paths: &[S]) -> Result<Self, GrantError> {
        let grants = paths
            .iter()
            .map(|path| parse::grant(path.as_ref()))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self { grants })
    }

    /// Parses paths for writing.
    ///
    /// # Errors
    ///
    /// Besides the errors of [`parse`](Self::parse): the first path that plugins never write, or that covers such a path.
    /// These are `/apiVersion`, `/kind`, `/status` and, in `/metadata`, `name`, `generateName`, `namespace`, `uid`,
    /// `ownerReferences`, `finalizers`, `resourceVersion` and `managedFields`.
    /// Also the field that a selector in the path compares.
    ///
    /// ```
    /// use podloom_pod_path::Grants;
    ///
    /// let error = Grants::parse_writes(&["/metadata"]).unwrap_err();
    /// assert!(error.to_string().contains("/metadata/name"));
    /// ```
    pub fn parse_writes<S: AsRef<str>>(paths: &[S]) -> Result<Self, GrantError> {
        let grants = paths
            .iter()
            .map(|path| parse::write_grant(path.as_ref()))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self { grants })
    }

    /// The whole pod, for reading and writing.
    pub(crate) fn everything() -> Self {
        let whole = Grant {
            text: String::new(),
            segments: Vec::new(),
        };
        Self {
            grants: vec![whole],
        }
    }

    /// Checks that each needed path is covered by one of these.
    ///
    /// # Errors
    ///
    /// The text of the needed paths that are not covered.
    pub fn covers(&self, needed: &Self) -> Result<(), Vec<String>> {
        let covered = |needed: &Grant| self.grants.iter().any(|grant| grant.covers(needed));
        let missing: Vec<String> = needed
            .grants
            .iter()
            .filter(|needed| !covered(needed))
            .map(|needed| needed.text.clone())
            .collect();
        if missing.is_empty() {
            Ok(())
        } else {
            Err(missing)
        }
    }

    /// The segments of each path.
    pub(crate) fn segments(&self) -> impl Iterator<Item = &[Segment]> {
        self.grants.iter().map(|grant| grant.segments.as_slice())
    }

    /// The text of the paths.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.grants.iter().map(|grant| grant.text.as_str())
    }
}

/// Lists the paths for messages.
impl fmt::Display for Grants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 20;
        if self.grants.is_empty() {
            return f.write_str("nothing");
        }
        for (i, path) in self.paths().take(SHOWN).enumerate() {
            f.write_str(if i == 0 { "" } else { ", " })?;
            f.write_str(crate::error::shown(path))?;
        }
        match self.grants.len().checked_sub(SHOWN) {
            None | Some(0) => Ok(()),
            Some(more) => write!(f, " and {more} more"),
        }
    }
}

impl Grant {
    /// Whether this grant covers the other one.
    fn covers(&self, needed: &Self) -> bool {
        self.segments.len() <= needed.segments.len()
            && self
                .segments
                .iter()
                .zip(&needed.segments)
                .all(|(own, needed)| own.covers(needed))
    }
}

impl Segment {
    fn covers(&self, needed: &Self) -> bool {
        match self {
            Self::Any => !matches!(needed, Self::Key(_)),
            own => own == needed,
        }
    }
}

/// Why a path cannot be granted.
///
/// ```
/// use podloom_pod_path::Grants;
///
/// let error = Grants::parse(&["/spec/containers/0"]).unwrap_err();
/// assert_eq!(error.path, "/spec/containers/0");
/// assert!(error.reason.contains("write `[name=...]` for one element"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantError {
    /// The text of the path.
    pub path: String,
    /// What is wrong with it, and what to write instead.
    pub reason: String,
}

impl fmt::Display for GrantError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} cannot be granted: {}", self.path, self.reason)
    }
}

impl Error for GrantError {}
