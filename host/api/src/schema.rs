//! What is changed in the schemas that the types give, so that CRDs are small and as strict as the API server.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON,
};
use schemars::transform::{RecursiveTransform, Transform, transform_subschemas};
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

/// What a quantity looks like, as every CRD made for Kubernetes itself says it.
const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// How many characters a name in a spec may have.
pub const NAME_MAX: usize = 253;

/// How many entries each list and each map of a spec may have.
pub const ENTRIES_MAX: usize = 1024;

/// A DNS label, as the names of Services are.
pub(crate) const DNS_LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";

/// The URL of a relay: wss or https, a hostname that is no IP address, a port from 1 to 65535, and a path of plain characters. No user,
/// query, fragment or comma. Parsing URLs in CEL costs more than the API server allows.
pub(crate) const RELAY_URL: &str = concat!(
    "^(wss|https)://",
    r"([A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?\.)*[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?",
    "(:([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?",
    "(/[A-Za-z0-9._~/-]*)?$",
);

/// The URL of an Infrastructure Manager or of a cloud: http or https, without a user, a query and a fragment.
pub const IM_URL: &str = r"^https?://[^/?#@\s]+(/[^?#\s]*)?$";

/// A UUID as the Infrastructure Manager writes it.
pub const UUID: &str = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$";

/// A DNS subdomain, as the names of Secrets are.
pub const DNS_SUBDOMAIN: &str =
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

/// Embeds a type of Kubernetes' core: keeps the description of our field, drops those inside.
///
/// With them a CRD is over the 262,144 bytes that `kubectl apply` can remember in its annotation.
pub(crate) fn core(schema: &mut Schema) {
    transform_subschemas(
        &mut RecursiveTransform(|nested: &mut Schema| {
            nested.remove("description");
            strict_quantity(nested);
        }),
        schema,
    );
    strict_quantity(schema);
}

/// Every value that may be a number or a string is a quantity in the types that we embed.
fn strict_quantity(schema: &mut Schema) {
    if schema.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
        schema.insert(
            "anyOf".to_owned(),
            json!([{ "type": "integer" }, { "type": "string" }]),
        );
        schema.insert("pattern".to_owned(), QUANTITY.into());
    }
}

/// The same for rules of a NetworkPolicy: there, such a value is a port or the name of one.
pub(crate) fn network_rules(schema: &mut Schema) {
    core(schema);
    let port = |nested: &mut Schema| {
        if nested.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
            nested.insert("pattern".to_owned(), PORT_NAME.into());
        }
    };
    transform_subschemas(&mut RecursiveTransform(port), schema);
}

/// The name of a port: an IANA service name.
const PORT_NAME: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";

/// Asks for at least one sidecar if the field is given.
///
/// Only of the template: a version may well say `sidecars: []` and mean the template's.
pub(crate) fn sidecars_not_empty(schema: &mut Schema) {
    if let Some(sidecars) = schema.pointer_mut("/properties/sidecars") {
        sidecars["minItems"] = 1.into();
    }
}

/// Asks for at least one browser, and at least one version of each, with names that are not too long.
///
/// Keys of a map can have no `maxLength`, so a rule says it, once for both: one at the versions would be charged for every browser.
pub(crate) fn browsers(schema: &mut Schema) {
    schema.insert("minProperties".to_owned(), 1.into());
    if let Some(versions) = schema.get_mut("additionalProperties") {
        versions["minProperties"] = 1.into();
    }
    let rule =
        format!("self.all(b, size(b) <= {NAME_MAX} && self[b].all(v, size(v) <= {NAME_MAX}))");
    let message = format!(
        "names of browsers and versions have at most {NAME_MAX} characters, use shorter ones"
    );
    rules(schema, &[(&rule, &message)]);
}

/// How many browsers, and versions of each, may have warm pods.
const WARM_MAX: usize = 64;

/// Asks for few pools, none of which keeps more pods at least than at most.
pub(crate) fn warm(schema: &mut Schema) {
    schema.insert("maxProperties".to_owned(), WARM_MAX.into());
    let rule = format!(
        "self.all(b, size(b) <= {NAME_MAX} && self[b].all(v, size(v) <= {NAME_MAX} && self[b][v].min <= self[b][v].max))"
    );
    let message = format!("min is at most max, and names have at most {NAME_MAX} characters");
    rules(schema, &[(&rule, &message)]);
    if let Some(versions) = schema.get_mut("additionalProperties") {
        versions["maxProperties"] = WARM_MAX.into();
    }
}

/// Makes the API server check these rules in CEL, each with the message if it is broken.
pub(crate) fn rules(schema: &mut Schema, rules: &[(&str, &str)]) {
    let rules = rules.iter();
    let rules = rules.map(|(rule, message)| json!({ "rule": rule, "message": message }));
    schema.insert("x-kubernetes-validations".to_owned(), rules.collect());
}

/// How many patterns a list of what is allowed may have: each is held against each option of a session.
const PATTERNS_MAX: usize = 128;

/// How many characters a pattern may have: a label's key has at most a domain of 253, a slash and a name of 63.
const PATTERN_MAX: usize = 317;

/// Asks for a list of patterns, none of them empty.
pub(crate) fn patterns(schema: &mut Schema) {
    schema.insert("maxItems".to_owned(), PATTERNS_MAX.into());
    if let Some(items) = schema.get_mut("items") {
        items["minLength"] = 1.into();
        items["maxLength"] = PATTERN_MAX.into();
    }
}

/// Asks for such a list for each container, whose names are as long here as where the containers are defined.
pub(crate) fn patterns_by_container(schema: &mut Schema) {
    let rule = format!("self.all(c, size(c) <= {NAME_MAX})");
    let message = format!("names of containers have at most {NAME_MAX} characters");
    rules(schema, &[(&rule, &message)]);
    let lists = schema.get_mut("additionalProperties");
    if let Some(lists) = lists.and_then(|lists| <&mut Schema>::try_from(lists).ok()) {
        patterns(lists);
    }
}

/// Bounds every list and every map: what a spec costs to read, merge and compare grows with them.
pub(crate) fn bounded(schema: &mut Schema) {
    transform_subschemas(&mut RecursiveTransform(bound), schema);
}

fn bound(schema: &mut Schema) {
    // One that is optional is a list or null.
    let is_list = match schema.get("type") {
        Some(Value::Array(types)) => types.iter().any(|it| it == "array"),
        one => one.is_some_and(|it| it == "array"),
    };
    let is_map = schema
        .get("additionalProperties")
        .is_some_and(Value::is_object);
    let keyword = match (is_list, is_map) {
        (true, _) => "maxItems",
        (_, true) => "maxProperties",
        _ => return,
    };
    let object = schema.ensure_object();
    object.entry(keyword).or_insert(ENTRIES_MAX.into());
}

/// Asks for a list that is replaced as a whole.
pub(crate) fn atomic_list(schema: &mut Schema) {
    schema.insert("x-kubernetes-list-type".to_owned(), "atomic".into());
}

/// Asks for a list with one entry per `type`, so that each condition can have its own owner.
pub(crate) fn conditions(schema: &mut Schema) {
    core(schema);
    schema.insert("x-kubernetes-list-type".to_owned(), "map".into());
    schema.insert("x-kubernetes-list-map-keys".to_owned(), json!(["type"]));
}

/// Asks for at most 64 labels of nodes, with values as long as labels may be.
pub(crate) fn node_selector(schema: &mut Schema) {
    schema.insert("maxProperties".to_owned(), 64.into());
    if let Some(values) = schema.get_mut("additionalProperties") {
        values["maxLength"] = 63.into();
    }
}

/// Asks for one of the 65,535 ports.
pub(crate) fn port(schema: &mut Schema) {
    schema.insert("minimum".to_owned(), 1.into());
    schema.insert("maximum".to_owned(), 65_535.into());
}

/// Gives the key of a reference to a Secret a default.
pub(crate) struct DefaultKey(pub(crate) &'static str);

impl Transform for DefaultKey {
    fn transform(&mut self, schema: &mut Schema) {
        if let Some(key) = schema.pointer_mut("/properties/key") {
            key["default"] = self.0.into();
        }
    }
}

/// A TOSCA template, of which only the output kubeconfig is asked for.
pub(crate) fn tosca(_: &mut SchemaGenerator) -> Schema {
    let object = |properties: Value, required: Value| {
        json!({
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": true,
            "properties": properties,
            "required": required,
        })
    };
    let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let outputs = object(json!({ "kubeconfig": open }), json!(["kubeconfig"]));
    let topology = object(json!({ "outputs": outputs }), json!(["outputs"]));
    let mut template = object(
        json!({ "topology_template": topology }),
        json!(["topology_template"]),
    );
    template["x-kubernetes-map-type"] = "atomic".into();
    Schema::try_from(template).unwrap_or_default()
}

/// An object that is stored as it is, and replaced as a whole.
pub(crate) fn preserved_atomic(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "x-kubernetes-map-type": "atomic",
    })
}

/// Asks for at most 32 parameters of a cloud.
pub(crate) fn parameters(schema: &mut Schema) {
    named_parameters(schema, 32);
    if let Some(values) = schema.get_mut("additionalProperties") {
        values["maxLength"] = 8192.into();
    }
}

/// Asks for at most 16 parameters of a cloud that are in Secrets.
pub(crate) fn secret_parameters(schema: &mut Schema) {
    named_parameters(schema, 16);
    if let Some(key) = schema.pointer_mut("/additionalProperties/properties/key") {
        key["default"] = "value".into();
    }
}

/// Keys of a map can have no `pattern`, so a rule says it.
fn named_parameters(schema: &mut Schema, max: usize) {
    schema.insert("maxProperties".to_owned(), max.into());
    let names = [
        (
            "self.all(n, size(n) <= 63 && n.matches('^[A-Za-z_][A-Za-z0-9_]*$'))",
            "names of parameters have at most 63 letters, digits and underscores, and no digit first",
        ),
        (
            "!('id' in self) && !('type' in self) && !('host' in self)",
            "id, type and host are no parameters: type and host are fields beside them, and the operator sets id",
        ),
    ];
    rules(schema, &names);
}

/// Asks for a cluster-scoped provider: a namespaced one would be in no namespace.
pub(crate) fn only_global_providers(crd: &mut CustomResourceDefinition) {
    for version in &mut crd.spec.versions {
        let schema = version.schema.as_mut();
        let root = schema.and_then(|schema| schema.open_api_v3_schema.as_mut());
        let field = ["spec", "providerRef", "kind"]
            .into_iter()
            .try_fold(root, |parent, name| {
                Some(parent?.properties.as_mut()?.get_mut(name))
            });
        if let Some(Some(kind)) = field {
            kind.enum_ = Some(vec![JSON("GlobalInfrastructureProvider".into())]);
            kind.description = Some("Choose its kind: GlobalInfrastructureProvider.".to_owned());
        }
    }
}
