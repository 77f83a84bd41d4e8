//! Results do not depend on values that are not granted: on two pods that differ only there, every plugin gets the same results.

use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, Strategy, any, prop_oneof, proptest};
use proptest::sample::{Index, select, subsequence};
use serde_json::{Map, Value, json};

use super::super::Transaction;
use crate::{Access, EditError, Grants};

const GRANTS: [&str; 14] = [
    "/metadata/labels",
    "/metadata/annotations/x",
    "/spec/hostNetwork",
    "/spec/containers",
    "/spec/containers/*",
    "/spec/containers/*/image",
    "/spec/containers/*/env/*/name",
    "/spec/containers/*/env/[name=A]",
    "/spec/containers/[name=a]",
    "/spec/containers/[name=b]/env/[value=x]",
    "/spec/containers/[image=x]/env",
    "/spec/volumes/[name=a]",
    "/spec/new/*/kind",
    "/spec/new/[kind=x]/on",
];

pub(super) fn grants() -> impl Strategy<Value = Vec<&'static str>> {
    subsequence(GRANTS.to_vec(), 0..3)
}

/// Few values, so that guesses often match.
fn text() -> impl Strategy<Value = Value> {
    prop_oneof![
        8 => select(vec![json!("a"), json!("b"), json!("x")]),
        1 => select(vec![json!(null), json!(1), json!({}), json!([])]),
    ]
}

fn maybe(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Option<Value>> {
    proptest::option::weighted(0.8, value)
}

fn object(fields: impl IntoIterator<Item = (&'static str, Option<Value>)>) -> Value {
    let present = fields
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value?)));
    Value::Object(present.collect())
}

fn list(element: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    prop_oneof![
        9 => vec(element, 0..4).prop_map(Value::Array),
        1 => text(),
    ]
}

fn element() -> impl Strategy<Value = Value> {
    let env = (maybe(text()), maybe(text()))
        .prop_map(|(name, value)| object([("name", name), ("value", value)]));
    let fields = (maybe(text()), maybe(text()), maybe(list(env)));
    prop_oneof![
        9 => fields.prop_map(|(name, image, env)| object([("name", name), ("image", image), ("env", env)])),
        1 => text(),
    ]
}

pub(super) fn any_pod() -> impl Strategy<Value = Value> {
    let texts = || (maybe(text()), maybe(text())).prop_map(|(x, y)| object([("x", x), ("y", y)]));
    let unknown = || {
        (maybe(text()), maybe(text()), maybe(text())).prop_map(|(kind, on, star)| {
            let star = object([("kind", star)]);
            object([("kind", kind), ("on", on), ("*", Some(star))])
        })
    };
    let metadata =
        (maybe(texts()), maybe(prop_oneof![texts(), text()])).prop_map(|(labels, annotations)| {
            object([("labels", labels), ("annotations", annotations)])
        });
    let spec = (
        maybe(text()),
        maybe(list(element())),
        maybe(list(element())),
        maybe(prop_oneof![list(unknown()), unknown()]),
    )
        .prop_map(|(host, containers, volumes, new)| {
            object([
                ("hostNetwork", host),
                ("containers", containers),
                ("volumes", volumes),
                ("new", new),
            ])
        });
    (maybe(metadata), maybe(spec))
        .prop_map(|(metadata, spec)| object([("metadata", metadata), ("spec", spec)]))
}

/// `hidden` with everything that the grants reveal of `shown`; shares no code with the crate.
///
/// Revealed are the values below a grant; for parents of a grant, whether they exist and their kind; for a list with `*`, the number
/// of elements and their keys; for a list with a selector, the matching elements.
fn graft(
    shown: Option<&Value>,
    hidden: Option<&Value>,
    grants: &[&[String]],
    place: &str,
) -> Option<Value> {
    if grants.iter().any(|grant| grant.is_empty()) {
        return shown.cloned();
    }
    if grants.is_empty() {
        return hidden.cloned();
    }
    Some(match shown? {
        Value::Object(fields) => {
            let none = Map::new();
            let others = hidden.and_then(Value::as_object).unwrap_or(&none);
            let keys = fields.keys().chain(others.keys());
            let field = |key: &String| {
                // On an object `*` grants nothing.
                let below = below(grants, |segment| segment == key && segment != "*");
                let place = format!("{place}/{key}");
                let value = graft(fields.get(key), others.get(key), &below, &place)?;
                Some((key.clone(), value))
            };
            Value::Object(keys.filter_map(field).collect())
        }
        Value::Array(elements) => {
            let others = hidden.and_then(Value::as_array);
            graft_list(elements, others.map_or(&[], Vec::as_slice), grants, place)
        }
        scalar => scalar.clone(),
    })
}

fn graft_list(shown: &[Value], hidden: &[Value], grants: &[&[String]], place: &str) -> Value {
    if grants.iter().any(|grant| grant[0] == "*") {
        let pairs = shown.iter().enumerate();
        return pairs
            .map(|(index, shown)| graft_element(shown, hidden.get(index), grants, place))
            .collect();
    }
    let is_granted = |element: &&Value| grants.iter().any(|grant| is_named(element, &grant[0]));
    let mut others = hidden.iter().filter(|element| !is_granted(element));
    let mut mixed = Vec::new();
    for element in shown.iter().filter(is_granted) {
        mixed.extend(others.next().cloned());
        mixed.push(graft_element(element, hidden.first(), grants, place));
    }
    mixed.extend(others.cloned());
    Value::Array(mixed)
}

/// An element keeps its key besides the granted values.
fn graft_element(
    shown: &Value,
    hidden: Option<&Value>,
    grants: &[&[String]],
    place: &str,
) -> Value {
    let below = below(grants, |segment| segment == "*" || is_named(shown, segment));
    let alike = hidden.filter(|hidden| hidden.is_object() == shown.is_object());
    let mut grafted = graft(Some(shown), alike.or(Some(shown)), &below, place).unwrap_or_default();
    let selected = grants
        .iter()
        .filter_map(|grant| named(&grant[0]))
        .map(|(key, _)| key);
    let any = grants.iter().any(|grant| grant[0] == "*");
    let is_keyed = ["/spec/containers", "/spec/volumes", "/env"]
        .iter()
        .any(|list| place.ends_with(list));
    let key = (any && is_keyed).then_some("name");
    if let Some(fields) = grafted.as_object_mut() {
        for key in selected.chain(key) {
            match shown.get(key) {
                Some(value) => drop(fields.insert(key.to_owned(), value.clone())),
                None => drop(fields.remove(key)),
            }
        }
    }
    grafted
}

/// The rest of the grants that continue with such a segment.
fn below<'g>(grants: &[&'g [String]], goes_on: impl Fn(&str) -> bool) -> Vec<&'g [String]> {
    let going = grants.iter().filter(|grant| goes_on(&grant[0]));
    going.map(|grant| &grant[1..]).collect()
}

fn is_named(element: &Value, segment: &str) -> bool {
    named(segment).is_some_and(|(key, value)| element.get(key) == Some(&json!(value)))
}

fn named(segment: &str) -> Option<(&str, &str)> {
    segment
        .strip_prefix('[')?
        .strip_suffix(']')?
        .split_once('=')
}

#[derive(Clone, Debug)]
pub(super) enum Ask {
    Get(PathTemplate),
    Keys(PathTemplate),
    View(PathTemplate, &'static str),
    Set(PathTemplate, &'static str),
    Insert(PathTemplate, &'static str),
    Remove(PathTemplate),
}

pub(super) fn answer(
    pod: &mut Transaction,
    ask: &Ask,
    grants: &[&str],
) -> Result<String, EditError> {
    let path = |place: &PathTemplate| place.path(grants);
    match ask {
        Ask::Get(place) => pod.get(&path(place)).map(|got| format!("{got:?}")),
        Ask::Keys(place) => pod.keys(&path(place)).map(|keys| keys.join(" ")),
        Ask::View(place, field) => pod
            .view(&path(place), &[field])
            .map(|view| format!("{view:?}")),
        Ask::Set(place, value) => pod
            .set(&path(place), (*value).to_owned())
            .map(|()| String::new()),
        Ask::Insert(place, value) => pod
            .insert(&path(place), (*value).to_owned())
            .map(|()| String::new()),
        Ask::Remove(place) => pod.remove(&path(place)).map(|removed| removed.to_string()),
    }
}

const ELEMENTS: &str = "0 1 2 - [name=a] [name=b] [name=A] [image=x] [image=b] [value=x] [value=b] [kind=x] [on=x] x *";

/// A path that depends on the grants.
#[derive(Clone, Debug)]
pub(super) enum PathTemplate {
    Fixed(&'static str),
    /// A grant's path with other elements, cut short or extended.
    Near {
        grant: Index,
        elements: Vec<&'static str>,
        cut: usize,
        suffix: &'static str,
    },
}

impl PathTemplate {
    fn path(&self, grants: &[&str]) -> String {
        let (grant, elements, cut, suffix) = match self {
            Self::Near {
                grant,
                elements,
                cut,
                suffix,
            } if !grants.is_empty() => (grant.get(grants), elements, *cut, suffix),
            Self::Near { .. } => return "/spec/containers".to_owned(),
            Self::Fixed(path) => return (*path).to_owned(),
        };
        let mut elements = elements.iter();
        let segments = grant.split('/').skip(1).take(cut);
        let path: String = segments
            .map(|segment| match segment.starts_with(['*', '[']) {
                true => format!("/{}", elements.next().unwrap_or(&"0")),
                false => format!("/{segment}"),
            })
            .collect();
        path + suffix
    }
}

fn words(words: &'static str) -> impl Strategy<Value = &'static str> {
    select(words.split(' ').collect::<Vec<_>>())
}

fn place() -> impl Strategy<Value = PathTemplate> {
    let suffix = words(" /name /image /value /kind /on /zz /env/[value=x]/name /env/1");
    let near = (any::<Index>(), vec(words(ELEMENTS), 3), 2..8_usize, suffix);
    prop_oneof![
        9 => near.prop_map(|(grant, elements, cut, suffix)| PathTemplate::Near { grant, elements, cut, suffix }),
        1 => words(" /metadata /metadata/labels/y /metadata/annotations /metadata/annotations/y /metadata/annotations/y/z /spec \
            /spec/volumes /spec/new/z /status").prop_map(PathTemplate::Fixed),
    ]
}

pub(super) fn ask() -> impl Strategy<Value = Ask> {
    let field = select(vec![
        "",
        "/name",
        "/*",
        "/*/name",
        "/*/image",
        "/*/env/*/name",
        "/image/zz",
        "/containers/*/image",
        "/*/kind",
        "/x",
        "/labels/x",
    ]);
    let value = || {
        select(vec![
            "{}",
            "[]",
            "\"x\"",
            "null",
            r#"{"name":"a"}"#,
            r#"{"name":"A"}"#,
            r#"{"name":"b","image":"x"}"#,
            r#"{"kind":"x"}"#,
            "x",
        ])
    };
    prop_oneof![
        2 => place().prop_map(Ask::Get),
        1 => place().prop_map(Ask::Keys),
        2 => (place(), field).prop_map(|(place, field)| Ask::View(place, field)),
        2 => (place(), value()).prop_map(|(place, value)| Ask::Set(place, value)),
        2 => (place(), value()).prop_map(|(place, value)| Ask::Insert(place, value)),
        1 => place().prop_map(Ask::Remove),
    ]
}

proptest! {
    // Results rarely differ even if something leaks.
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(1000), ..ProptestConfig::default() })]

    #[test]
    fn results_do_not_depend_on_values_without_grant(
        shown in any_pod(), hidden in any_pod(), reads in grants(), writes in grants(), asks in vec(ask(), 1..12), swap in any::<bool>(),
    ) {
        let grants: Vec<&str> = reads.iter().chain(&writes).copied().collect();
        let segments: Vec<Vec<String>> = grants.iter()
            .map(|grant| grant.split('/').skip(1).map(str::to_owned).collect())
            .collect();
        let segments: Vec<&[String]> = segments.iter().map(Vec::as_slice).collect();
        let other = graft(Some(&shown), Some(&hidden), &segments, "").unwrap();
        let access = std::sync::Arc::new(Access::new(Grants::parse(&reads).unwrap(), Grants::parse_writes(&writes).unwrap()));
        let (first, second) = if swap { (other, shown) } else { (shown, other) };
        let mut first = Transaction::begin(first, access.clone(), [].into());
        let mut second = Transaction::begin(second, access, [].into());
        for ask in &asks {
            assert_eq!(answer(&mut first, ask, &grants), answer(&mut second, ask, &grants), "{ask:?}\n{}\n{}", first.pod, second.pod);
        }
        assert_eq!((first.refused_reads(), first.refused_writes()), (second.refused_reads(), second.refused_writes()));
    }
}
