//! Views: reading several parts of a pod in one call.

use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::Transaction;
use crate::access::Access;
use crate::error::{AccessError, EditError, shown};
use crate::grant::tree::{Coverage, Reached};
use crate::json::write_json_as_read;
use crate::path::{Path, Segments, push_escaped, unescape};

/// How many fields one view may name.
const FIELDS: usize = 256;
/// Maximum bytes of memory that a segment of a field takes while its view is read, besides its text.
const SEGMENT: usize = 512;
/// Initial capacity, enough for most views.
const TEXT: usize = 2048;

/// The parsed fields of a view.
///
/// A plugin asks for the same fields of each pod, so its host can keep them. Created by [`Transaction::fields`].
#[derive(Debug)]
pub struct Fields {
    names: Vec<String>,
    segments: usize,
    selection: Selection,
    /// The grants of the plugin that they were parsed for.
    access: Arc<Access>,
    /// Set once all of them were found to be granted in a view of the whole pod, as most views are.
    granted: OnceLock<()>,
}

impl Fields {
    /// The text of the fields, in order.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// How many segments they have in total.
    #[must_use]
    pub fn segments(&self) -> usize {
        self.segments
    }
}

/// Fields as a tree, in the order in which they first occur. The root has no key.
#[derive(Debug, Default)]
struct Selection {
    key: String,
    /// The key as JSON, and the colon.
    opening: String,
    /// The key's [`mark`].
    mark: u64,
    /// Whether a field ends here, and everything below is shown.
    whole: bool,
    below: Vec<Self>,
}

/// One of 64 bits for a key: if none of an object's keys has that bit, the object does not have the key.
/// Most fields of most views are missing, so this avoids most searches.
fn mark(key: &str) -> u64 {
    let first = key.as_bytes().first().copied().unwrap_or_default();
    1 << ((usize::from(first) * 5 + key.len()) % 64)
}

impl Selection {
    fn add(&mut self, mut segments: Segments<'_>) {
        let Some(segment) = segments.next() else {
            self.whole = true;
            return;
        };
        let key = unescape(segment);
        let at = match self.below.iter().position(|own| own.key == key) {
            Some(at) => at,
            None => {
                self.below.push(Self {
                    opening: format!("{}:", Value::from(&*key)),
                    mark: mark(&key),
                    key: key.into_owned(),
                    ..Self::default()
                });
                self.below.len() - 1
            }
        };
        if let Some(own) = self.below.get_mut(at) {
            own.add(segments);
        }
    }
}

/// A view that is being written.
struct ViewWriter<'s> {
    path: &'s str,
    /// Whether `*` matches only elements of lists, as it does unless the whole value is granted.
    lists_only: bool,
    /// JSON, and so UTF-8.
    text: Vec<u8>,
}

impl Transaction {
    /// Returns the JSON text at a path with only the parts that `fields` name; none if there is no value.
    ///
    /// Each field is a path below `path`, with `*` for all elements of a list. Objects have only the keys that lead to a field, lists
    /// have all their elements in order. Missing values are left out.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get), for the path and for each field, whether or not it exists; also for more than 256 fields.
    ///
    /// ```
    /// use podloom_pod_path::{Access, Transaction};
    /// use serde_json::json;
    ///
    /// let pod = json!({ "spec": { "nodeName": "n", "containers": [{ "name": "a", "image": "x" }, { "image": "y" }] } });
    /// let pod = Transaction::begin(pod, Access::unrestricted().into(), [].into());
    /// let view = pod.view("/spec", &["/containers/*/name", "/hostNetwork"])?;
    /// assert_eq!(view.as_deref(), Some(r#"{"containers":[{"name":"a"},{}]}"#));
    /// # Ok::<(), podloom_pod_path::EditError>(())
    /// ```
    pub fn view<F: AsRef<str>>(
        &self,
        path: &str,
        fields: &[F],
    ) -> Result<Option<String>, EditError> {
        self.view_of(path, &self.fields(path, fields)?)
    }

    /// Parses the fields of a view.
    ///
    /// # Errors
    ///
    /// A field is malformed or too long, or there are too many fields.
    pub fn fields<F: AsRef<str>>(&self, path: &str, fields: &[F]) -> Result<Fields, EditError> {
        if fields.len() > FIELDS {
            let reason = format_args!("the view has {} fields, of at most {FIELDS}", fields.len());
            return Err(AccessError::invalid_path(path, reason).into());
        }
        let mut names = fields.iter().map(AsRef::as_ref);
        names.try_for_each(|field| self.check_length(field))?;
        let mut selection = Selection::default();
        let mut segments = 0;
        for field in fields {
            let field = Path::parse(field.as_ref())?;
            segments += field.segments().count();
            selection.add(field.segments());
        }
        let names = fields.iter().map(|field| field.as_ref().to_owned());
        Ok(Fields {
            names: names.collect(),
            segments,
            selection,
            access: Arc::clone(&self.access),
            granted: OnceLock::new(),
        })
    }

    /// As [`view`](Self::view), with fields that a transaction with the same limits has parsed.
    ///
    /// # Errors
    ///
    /// As [`view`](Self::view).
    ///
    /// ```
    /// use podloom_pod_path::{Access, Transaction};
    /// use serde_json::json;
    ///
    /// let pod = json!({ "spec": { "nodeName": "n", "hostNetwork": true } });
    /// let pod = Transaction::begin(pod, Access::unrestricted().into(), [].into());
    /// let fields = pod.fields("/spec", &["/hostNetwork"])?;
    /// assert_eq!(pod.view_of("/spec", &fields)?.as_deref(), Some(r#"{"hostNetwork":true}"#));
    /// # Ok::<(), podloom_pod_path::EditError>(())
    /// ```
    pub fn view_of(&self, path: &str, fields: &Fields) -> Result<Option<String>, EditError> {
        let answer = self.read(
            || {
                // Charged for kept fields too, so that limits do not depend on earlier calls.
                self.count_read(fields.segments.saturating_mul(SEGMENT))?;
                self.show(path, fields)
            },
            |text| text.as_ref().map_or(0, String::len),
        );
        self.note_view(&answer, path, &fields.names);
        answer
    }

    fn show(&self, path: &str, fields: &Fields) -> Result<Option<String>, EditError> {
        let (here, coverage) = self.follow(path)?;
        let at_root = path.is_empty() && Arc::ptr_eq(&fields.access, &self.access);
        if !at_root || fields.granted.get().is_none() {
            if let Some(field) = refused(&fields.selection, &coverage) {
                return Err(self.unreadable(&format!("{path}{field}")).into());
            }
            if at_root {
                // Another run may have set it meanwhile.
                let _ = fields.granted.set(());
            }
        }
        let Some(here) = here.filter(|value| !value.is_null()) else {
            return Ok(None);
        };
        let mut writer = ViewWriter {
            path,
            lists_only: !coverage.is_readable(),
            text: Vec::with_capacity(TEXT),
        };
        writer.show(here, &fields.selection)?;
        Ok(Some(String::from_utf8(writer.text).unwrap_or_default()))
    }
}

/// The first field that is not granted, as a path below the viewed path. The result does not depend on the pod.
fn refused(selection: &Selection, coverage: &Coverage<'_>) -> Option<String> {
    if coverage.is_readable() {
        return None;
    }
    if selection.whole || coverage.is_lost() && selection.below.is_empty() {
        return Some(String::new());
    }
    selection.below.iter().find_map(|below| {
        let mut coverage = coverage.clone();
        coverage.follow(match below.key.as_str() {
            "*" => Reached::EachElement,
            key => Reached::Key(key),
        });
        let rest = refused(below, &coverage)?;
        let mut field = String::from("/");
        push_escaped(&mut field, &below.key);
        Some(field + &rest)
    })
}

impl ViewWriter<'_> {
    fn show(&mut self, value: &Value, selection: &Selection) -> Result<(), AccessError> {
        match value {
            _ if selection.whole => write_json_as_read(&mut self.text, value),
            Value::Object(fields) => self.show_fields(fields, selection)?,
            Value::Array(list) => self.show_elements(list, selection)?,
            scalar => {
                let reason = format_args!(
                    "a field of the view leads through {}, which has no fields; a `/` in a key is written `~1`",
                    crate::check::noun(scalar)
                );
                return Err(AccessError::invalid_path(shown(self.path), reason));
            }
        }
        Ok(())
    }

    fn show_fields(
        &mut self,
        fields: &serde_json::Map<String, Value>,
        selection: &Selection,
    ) -> Result<(), AccessError> {
        self.text.push(b'{');
        let marks = fields.keys().fold(0, |marks, key| marks | mark(key));
        for below in &selection.below {
            if marks & below.mark == 0 || self.lists_only && below.key == "*" {
                continue;
            }
            let Some(value) = fields.get(&below.key).filter(|value| !value.is_null()) else {
                continue;
            };
            self.text.extend_from_slice(below.opening.as_bytes());
            self.show(value, below)?;
            self.text.push(b',');
        }
        self.close(b'}');
        Ok(())
    }

    fn show_elements(&mut self, list: &[Value], selection: &Selection) -> Result<(), AccessError> {
        let below = match selection.below.as_slice() {
            [below] if below.key == "*" => below,
            _ => return Err(self.not_every_element()),
        };
        self.text.push(b'[');
        for element in list {
            if element.is_null() {
                self.text.extend_from_slice(b"null");
            } else {
                self.show(element, below)?;
            }
            self.text.push(b',');
        }
        self.close(b']');
        Ok(())
    }

    /// Ends an object or list; the bracket replaces the last comma.
    fn close(&mut self, bracket: u8) {
        match self.text.last_mut() {
            Some(comma @ b',') => *comma = bracket,
            _ => self.text.push(bracket),
        }
    }

    fn not_every_element(&self) -> AccessError {
        let reason = "a field of the view leads to a list; write `*` there, for all elements";
        AccessError::invalid_path(self.path, reason)
    }
}
