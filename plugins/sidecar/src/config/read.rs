//! Reads the configuration.
//!
//! By hand: the code that would be derived for these types is a third of what the plugin may weigh. The schema of the
//! configuration is derived from them, and a test compares its fields with those that are read here.

use podloom_plugin_sdk::json;
use serde::de::{Deserialize, Deserializer, Error as _};

use super::{
    Additions, Config, OnConflict, OnPortConflict, OnVolumeConflict, Os, Placement, Position,
    Sidecar, Token, hour,
};
use crate::build;
use crate::json::Object;
use crate::selector::{LabelSelector, Operator, Requirement};
use crate::text::list;

pub(crate) const CONFIG: [&str; 12] = [
    "containers",
    "volumes",
    "imagePullSecrets",
    "addToContainers",
    "injectByDefault",
    "neverInject",
    "alwaysInject",
    "ignoredNamespaces",
    "os",
    "onVolumeConflict",
    "onPortConflict",
    "retired",
];
pub(crate) const SIDECAR: [&str; 6] = [
    "container",
    "placement",
    "position",
    "onConflict",
    "token",
    "restricted",
];
pub(crate) const TOKEN: [&str; 3] = ["mountPath", "audience", "expirationSeconds"];
pub(crate) const ADDITIONS: [&str; 3] = ["names", "env", "volumeMounts"];
pub(crate) const SELECTOR: [&str; 2] = ["matchLabels", "matchExpressions"];
pub(crate) const REQUIREMENT: [&str; 3] = ["key", "operator", "values"];

impl<'de> Deserialize<'de> for Config {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = Object::deserialize(deserializer)?;
        config(&fields).map_err(D::Error::custom)
    }
}

/// What is wrong with a field.
type Wrong = String;

#[expect(
    clippy::field_reassign_with_default,
    reason = "as one expression it is twice the code: each way out would drop what was read before it"
)]
fn config(fields: &Object) -> Result<Config, Wrong> {
    known(fields, &CONFIG)?;
    let mut config = Config::default();
    config.volumes = objects(fields, "volumes")?;
    config.image_pull_secrets = objects(fields, "imagePullSecrets")?;
    config.never_inject = selectors(fields, "neverInject")?;
    config.always_inject = selectors(fields, "alwaysInject")?;
    config.retired = strings(fields, "retired")?;
    config.inject_by_default = flag(fields, "injectByDefault")?;
    for sidecar in objects(fields, "containers")? {
        config.containers.push(read_sidecar(&sidecar)?);
    }
    if let Some(additions) = object(fields, "addToContainers")? {
        known(&additions, &ADDITIONS)?;
        config.add_to_containers = Additions {
            names: strings(&additions, "names")?,
            env: objects(&additions, "env")?,
            volume_mounts: objects(&additions, "volumeMounts")?,
        };
    }
    if fields.has("ignoredNamespaces") {
        config.ignored_namespaces = strings(fields, "ignoredNamespaces")?;
    }
    if choice(fields, "os", &["linux", "windows"])? == 1 {
        config.os = Os::Windows;
    }
    if choice(fields, "onVolumeConflict", &["rename", "deny"])? == 1 {
        config.on_volume_conflict = OnVolumeConflict::Deny;
    }
    if choice(fields, "onPortConflict", &["deny", "note"])? == 1 {
        config.on_port_conflict = OnPortConflict::Note;
    }
    Ok(config)
}

#[inline(never)]
fn read_sidecar(fields: &Object) -> Result<Sidecar, Wrong> {
    known(fields, &SIDECAR)?;
    Ok(Sidecar {
        container: object(fields, "container")?.ok_or("field container is missing")?,
        placement: match choice(fields, "placement", &["native", "classic", "init"])? {
            0 => Placement::Native,
            1 => Placement::Classic,
            _ => Placement::Init,
        },
        position: position(fields)?,
        on_conflict: match choice(fields, "onConflict", &["skip", "merge", "replace", "deny"])? {
            0 => OnConflict::Skip,
            1 => OnConflict::Merge,
            2 => OnConflict::Replace,
            _ => OnConflict::Deny,
        },
        token: object(fields, "token")?
            .map(|token| read_token(&token))
            .transpose()?,
        restricted: flag(fields, "restricted")?,
        settled: build::Settled::default(),
    })
}

#[inline(never)]
fn position(fields: &Object) -> Result<Option<Position>, Wrong> {
    let Some(text) = fields.get("position") else {
        return Ok(None);
    };
    if let Some(anchor) = Object::parse(text) {
        known(&anchor, &["before", "after"])?;
        return match (anchor.has("before"), anchor.has("after")) {
            (true, false) => Ok(Some(Position::Before(string(&anchor, "before")?))),
            (false, true) => Ok(Some(Position::After(string(&anchor, "after")?))),
            _ => Err("position: either before or after".to_owned()),
        };
    }
    Ok(Some(
        match choice(fields, "position", &["first", "last"])? {
            0 => Position::First,
            _ => Position::Last,
        },
    ))
}

fn read_token(fields: &Object) -> Result<Token, Wrong> {
    known(fields, &TOKEN)?;
    let expiration_seconds = match fields.get("expirationSeconds") {
        None => hour(),
        Some(text) => text
            .parse()
            .map_err(|_| expected("expirationSeconds", "a number of seconds"))?,
    };
    Ok(Token {
        mount_path: string(fields, "mountPath")?,
        audience: string(fields, "audience")?,
        expiration_seconds,
    })
}

#[inline(never)]
fn selectors(fields: &Object, key: &str) -> Result<Vec<LabelSelector>, Wrong> {
    let mut selectors = Vec::new();
    for selector in objects(fields, key)? {
        known(&selector, &SELECTOR)?;
        let mut match_expressions = Vec::new();
        for requirement in objects(&selector, "matchExpressions")? {
            known(&requirement, &REQUIREMENT)?;
            let operator = if requirement.has("operator") {
                &requirement
            } else {
                &Object::default()
            };
            match_expressions.push(Requirement {
                key: string(&requirement, "key")?,
                operator: match choice(
                    operator,
                    "operator",
                    &["", "In", "NotIn", "Exists", "DoesNotExist"],
                )? {
                    1 => Operator::In,
                    2 => Operator::NotIn,
                    3 => Operator::Exists,
                    4 => Operator::DoesNotExist,
                    _ => return Err(expected("operator", "In, NotIn, Exists or DoesNotExist")),
                },
                values: strings(&requirement, "values")?,
            });
        }
        selectors.push(LabelSelector {
            match_labels: object(&selector, "matchLabels")?.unwrap_or_default(),
            match_expressions,
        });
    }
    Ok(selectors)
}

/// Refuses fields that have another name than these.
#[inline(never)]
fn known(fields: &Object, names: &[&str]) -> Result<(), Wrong> {
    match fields.fields().find(|(key, _)| !names.contains(key)) {
        Some((key, _)) => Err(["unknown field ", key, ", known: ", &list(names, ", ")].concat()),
        None => Ok(()),
    }
}

#[inline(never)]
fn object(fields: &Object, key: &str) -> Result<Option<Object>, Wrong> {
    let Some(text) = fields.get(key) else {
        return Ok(None);
    };
    Object::parse(text)
        .map(Some)
        .ok_or_else(|| expected(key, "an object"))
}

#[inline(never)]
fn objects(fields: &Object, key: &str) -> Result<Vec<Object>, Wrong> {
    let Some(text) = fields.get(key) else {
        return Ok(Vec::new());
    };
    json::from_str(text).map_err(|_| expected(key, "a list of objects"))
}

#[inline(never)]
fn strings(fields: &Object, key: &str) -> Result<Vec<String>, Wrong> {
    let Some(text) = fields.get(key) else {
        return Ok(Vec::new());
    };
    crate::json::strings(text).ok_or_else(|| expected(key, "a list of texts"))
}

#[inline(never)]
fn string(fields: &Object, key: &str) -> Result<String, Wrong> {
    fields
        .get(key)
        .and_then(|text| json::from_str(text).ok())
        .ok_or_else(|| expected(key, "a text"))
}

/// A flag that is on unless it is switched off.
#[inline(never)]
fn flag(fields: &Object, key: &str) -> Result<bool, Wrong> {
    match fields.get(key) {
        None | Some("true") => Ok(true),
        Some("false") => Ok(false),
        Some(_) => Err(expected(key, "true or false")),
    }
}

/// Which of the names a field has; the first if it is missing.
#[inline(never)]
fn choice(fields: &Object, key: &str, names: &[&str]) -> Result<usize, Wrong> {
    if !fields.has(key) {
        return Ok(0);
    }
    let found = string(fields, key)?;
    names
        .iter()
        .position(|name| *name == found)
        .ok_or_else(|| expected(key, &list(names, ", ")))
}

#[inline(never)]
fn expected(key: &str, what: &str) -> Wrong {
    [key, ": expected ", what].concat()
}
