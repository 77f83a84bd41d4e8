//! Why an access was refused, and why a pod was; and what a plugin finds at many places of one pod, said once.

use std::fmt;

/// Why an access to the pod failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The path is malformed, a selector in it matches several elements, or it leads through a scalar.
    InvalidPath(String),
    /// The path leads through an element or field that does not exist.
    NotFound(String),
    /// The plugin was not granted this path, or it may never be written.
    Forbidden(String),
    /// The value is not of the type that a pod has at this path, or the API server refuses it there.
    InvalidValue(String),
    /// What is at the path could not be read as the type that was asked for.
    Decode {
        /// The path that was read.
        path: String,
        /// What does not fit.
        message: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidPath(message)
            | Self::NotFound(message)
            | Self::Forbidden(message)
            | Self::InvalidValue(message) => f.write_str(message),
            Self::Decode { path, message } => {
                f.write_str(path)?;
                f.write_str(": ")?;
                f.write_str(message)
            }
        }
    }
}

impl std::error::Error for Error {}

/// How many bytes the reasons of a denial have. The API server's answer has 4096 with everything else.
const REASONS: usize = 3500;

/// Why a plugin did not mutate a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The pod must not exist like this. Always final, and the user reads the reason: say what to change.
    Denied(String),
    /// The plugin could not do its work. The chain's failure policy decides what that means.
    Failed(String),
}

impl Rejection {
    /// Denies the pod for all of these reasons at once, so that its author can fix it in one go; `Ok` if there are none.
    ///
    /// Begin with the worst: what is beyond 3500 bytes is counted.
    ///
    /// ```
    /// use podloom_plugin_sdk::Rejection;
    ///
    /// let mut reasons = Vec::new();
    /// assert_eq!(Rejection::deny_if_any(&reasons), Ok(()));
    /// reasons.push("label team is missing: set it".to_owned());
    /// reasons.push("label tier is missing: set it".to_owned());
    /// let both = "label team is missing: set it; label tier is missing: set it";
    /// assert_eq!(Rejection::deny_if_any(&reasons), Err(Rejection::Denied(both.to_owned())));
    /// ```
    ///
    /// # Errors
    ///
    /// [`Denied`](Self::Denied) with the reasons.
    pub fn deny_if_any(reasons: &[String]) -> Result<(), Self> {
        let Some((first, others)) = reasons.split_first() else {
            return Ok(());
        };
        let mut text = first.clone();
        for (index, reason) in others.iter().enumerate() {
            if text.len() + reason.len() > REASONS {
                let more = others.len() - index;
                text.push_str(&format!("; and {more} more reasons"));
                break;
            }
            text.push_str("; ");
            text.push_str(reason);
        }
        Err(Self::Denied(text))
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Denied(message) | Self::Failed(message)) = self;
        f.write_str(message)
    }
}

impl std::error::Error for Rejection {}

impl From<Error> for Rejection {
    fn from(error: Error) -> Self {
        Self::Failed(error.to_string())
    }
}

/// How many different findings are kept. There is no pod about which more can be read, and looking for one of them stays cheap.
const KINDS: usize = 64;
/// How many bytes of places a note names: a warning of the API server has 256 bytes with everything else.
const NOTE_PLACES: usize = 120;
/// How many bytes of one place are shown: more than any path that Kubernetes accepts, so that no name hides what was found.
const PLACE: usize = 240;
/// How many bytes of places a reason to deny a pod names. Its author has to mend all of them.
const REASON_PLACES: usize = 1000;

/// What a plugin finds at many places of one pod, so that it is said once and not for each container.
///
/// ```
/// use podloom_plugin_sdk::Findings;
///
/// let mut found = Findings::default();
/// for name in ["a", "b", "c"] {
///     found.add(&format!("/spec/containers/[name={name}]/image"), "not pinned by a digest");
/// }
/// assert_eq!(
///     found.notes(),
///     ["/spec/containers/[name=a]/image, /spec/containers/[name=b]/image, /spec/containers/[name=c]/image: not pinned by a digest"]
/// );
/// ```
#[derive(Clone, Debug, Default)]
pub struct Findings {
    kinds: Vec<Kind>,
    /// How many findings are of no kind that is kept.
    others: usize,
}

/// One finding, and where it is so.
#[derive(Clone, Debug)]
struct Kind {
    what: String,
    places: Vec<String>,
}

impl Findings {
    /// Adds what is so at a place, which is best a path. It joins what was found before if it is the same, in the same field of another
    /// element of a list. Findings keep the order in which they are added first: begin with the worst.
    pub fn add(&mut self, place: &str, what: &str) {
        let has_room = self.kinds.len() < KINDS;
        let mut kinds = self.kinds.iter_mut();
        match kinds.find(|kind| kind.what == what && kind.is_at(place)) {
            Some(kind) => kind.places.push(place.to_owned()),
            None if has_room => self.kinds.push(Kind {
                what: what.to_owned(),
                places: vec![place.to_owned()],
            }),
            None => self.others += 1,
        }
    }

    /// Returns whether nothing was found.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// Returns one sentence for each finding, for [`note`](crate::note) or [`warn`](crate::warn): the first places, how many more
    /// there are, and what is so.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        self.sentences(NOTE_PLACES)
    }

    /// Returns one sentence for each finding, for [`Rejection::deny_if_any`](crate::Rejection::deny_if_any), with more of the places.
    #[must_use]
    pub fn reasons(&self) -> Vec<String> {
        self.sentences(REASON_PLACES)
    }

    fn sentences(&self, room: usize) -> Vec<String> {
        let kinds = self.kinds.iter();
        let mut sentences: Vec<String> = kinds.map(|kind| kind.sentence(room)).collect();
        if self.others > 0 {
            sentences.push(format!("{} more findings of other kinds", self.others));
        }
        sentences
    }
}

impl Kind {
    /// Whether a place differs from the first one only in the elements of lists that it names.
    fn is_at(&self, place: &str) -> bool {
        let mut segments = place.split('/');
        let first = self.places.first().map_or("", String::as_str);
        let is_alike = first.split('/').all(|known| {
            let segment = segments.next();
            segment.is_some_and(|it| it == known || is_element(it) && is_element(known))
        });
        is_alike && segments.next().is_none()
    }

    /// At least the first place, and others as far as there is room.
    fn sentence(&self, room: usize) -> String {
        let mut text = String::new();
        let mut shown = 0;
        for place in &self.places {
            if shown > 0 && text.len() + place.len() > room {
                break;
            }
            if shown > 0 {
                text.push_str(", ");
            }
            push_cut(&mut text, place);
            shown += 1;
        }
        let more = self.places.len() - shown;
        if more > 0 {
            text.push_str(" and ");
            text.push_str(&more.to_string());
            text.push_str(" more");
        }
        text.push_str(": ");
        text.push_str(&self.what);
        text
    }
}

/// Whether a segment of a path names an element of a list.
fn is_element(segment: &str) -> bool {
    segment.starts_with('[') || segment.bytes().all(|byte| byte.is_ascii_digit())
}

fn push_cut(text: &mut String, place: &str) {
    let cut = place.get(..place.floor_char_boundary(PLACE));
    let cut = cut.unwrap_or_default();
    text.push_str(cut);
    if cut.len() < place.len() {
        text.push_str("...");
    }
}

#[cfg(test)]
mod tests;
