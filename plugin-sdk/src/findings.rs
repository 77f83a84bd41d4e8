//! What a plugin finds at many places of one pod, said once.

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
mod tests {
    use super::{Findings, KINDS};

    #[test]
    fn places_beyond_the_room_are_counted() {
        let mut found = Findings::default();
        for number in 0..12 {
            found.add(&format!("/spec/containers/[name=c{number}]/image"), "old");
        }
        found.add("/spec/hostPID", "must not be true");
        found.add("/spec/hostIPC", "must not be true");
        let expected = [
            "/spec/containers/[name=c0]/image, /spec/containers/[name=c1]/image, /spec/containers/[name=c2]/image and 9 more: old",
            "/spec/hostPID: must not be true",
            "/spec/hostIPC: must not be true",
        ];
        assert_eq!(found.notes(), expected);
        let reasons = found.reasons();
        assert!(
            reasons[0].ends_with("/spec/containers/[name=c11]/image: old"),
            "a reason has room for all: {reasons:?}"
        );
    }

    #[test]
    fn a_long_place_does_not_hide_what_was_found() {
        let mut found = Findings::default();
        found.add(&format!("/[{}]", "x".repeat(80_000)), "privileged");
        found.add("/[y]", "privileged");
        let expected = format!(
            "/[{}... and 1 more: privileged",
            "x".repeat(super::PLACE - 2)
        );
        assert_eq!(found.notes(), [expected]);
    }

    #[test]
    fn kinds_beyond_the_limit_are_counted() {
        let mut found = Findings::default();
        for number in 0..KINDS + 3 {
            found.add("/spec", &format!("finding {number}"));
        }
        let notes = found.notes();
        assert_eq!(notes.len(), KINDS + 1);
        assert_eq!(notes[KINDS], "3 more findings of other kinds");
    }
}
