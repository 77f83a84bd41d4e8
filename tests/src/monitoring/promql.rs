//! Finds in a query what it reads. This is no parser: it knows the queries of `deploy/`, and a real Prometheus runs them.

/// The series that a query reads: `podloom_leader{duty="browser"}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// The name of the series.
    pub series: String,
    /// The labels that must match, each with `=`, `!=`, `=~` or `!~` and a text.
    pub matchers: Vec<(String, String, String)>,
}

/// Whether a name is that of a series that the operator serves, or of the scrape itself.
fn is_series(name: &str) -> bool {
    name == "up"
        || ["podloom_", "process_"]
            .iter()
            .any(|it| name.starts_with(it))
}

/// Everything that a query reads.
#[must_use]
pub fn selectors(query: &str) -> Vec<Selector> {
    let mut found = Vec::new();
    let mut rest = query;
    while let Some(start) = rest.find(|it: char| it.is_ascii_alphanumeric() || it == '_') {
        rest = &rest[start..];
        let end = rest
            .find(|it: char| !it.is_ascii_alphanumeric() && it != '_')
            .unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        rest = after;
        if !is_series(name) {
            continue;
        }
        let mut matchers = Vec::new();
        if let Some(inside) = after.strip_prefix('{') {
            let (inside, after) = inside.split_once('}').unwrap();
            matchers = inside.split("\",").filter_map(matcher).collect();
            rest = after;
        }
        found.push(Selector {
            series: name.to_owned(),
            matchers,
        });
    }
    found
}

/// `reason=~"a|b"`, perhaps without the last quotation mark.
fn matcher(text: &str) -> Option<(String, String, String)> {
    let (left, value) = text.split_once('"')?;
    let label = left.trim_end_matches(['=', '!', '~']);
    let operator = left.strip_prefix(label)?;
    let value = value.trim_end_matches('"');
    Some((
        label.trim().to_owned(),
        operator.to_owned(),
        value.to_owned(),
    ))
}

/// All labels that a query groups by, or matches on.
#[must_use]
pub fn grouped_by(query: &str) -> Vec<&str> {
    let clauses = ["by (", "on ("].into_iter();
    let lists = clauses.flat_map(|clause| query.split(clause).skip(1));
    let lists = lists.filter_map(|rest| Some(rest.split_once(')')?.0));
    lists
        .flat_map(|list| list.split(','))
        .map(str::trim)
        .collect()
}
