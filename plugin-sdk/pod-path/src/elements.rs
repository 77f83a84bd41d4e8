//! How the elements of a list are named in paths.

#[cfg(test)]
mod tests;

use serde_json::Value;

use crate::compare::keys;
use crate::path::{ListSegment, push_escaped, segments, unescape};
use crate::schema::{ROOT, Schema};

/// The segments that name the elements of a list in a pod, in their order, as [`compare`](crate::compare) and
/// [`Write::path`](crate::Write::path) name them: `[key=value]` by the list's merge key, or the index in a list without one, or whose
/// keys are not unique.
///
/// ```
/// use podloom_pod_path::element_segments;
/// use serde_json::json;
///
/// let env = [json!({ "name": "TZ", "value": "UTC" }), json!({ "name": "LANG" })];
/// assert_eq!(element_segments("/spec/containers/[name=web]/env", &env), ["[name=TZ]", "[name=LANG]"]);
/// assert_eq!(element_segments("/spec/containers/[name=web]/args", &[json!("-v")]), ["0"]);
/// ```
#[must_use]
pub fn element_segments(list: &str, elements: &[Value]) -> Vec<String> {
    let schema = schema_at(list);
    let (Some(keys), Some(name)) = (keys(schema, elements), schema.element_key()) else {
        return (0..elements.len()).map(|index| index.to_string()).collect();
    };
    let segment = |key: &String| {
        let mut segment = format!("[{name}=");
        push_escaped(&mut segment, key);
        segment.push(']');
        segment
    };
    keys.iter().map(segment).collect()
}

/// The type of what is at a path, whether it is there or not.
fn schema_at(path: &str) -> Schema {
    segments(path).fold(ROOT, |schema, raw| match schema {
        Schema::List(..) if ListSegment::parse(raw).is_some() => schema.element(),
        _ => schema.field(&unescape(raw)),
    })
}
