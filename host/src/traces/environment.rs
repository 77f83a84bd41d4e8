//! The variables of the environment that OpenTelemetry's specification names, as far as they say something here.

use std::collections::BTreeMap;
use std::env;
use std::path::PathBuf;

use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri};
use percent_encoding::percent_decode_str;

use super::endpoint::{checked, endpoint};

/// Where traces go if nothing else is said.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// The same for traces alone. It is the whole URL.
const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const PROTOCOLS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    "OTEL_EXPORTER_OTLP_PROTOCOL",
];
/// The file with authorities that a receiver's certificate may be of, besides those of the machine.
const CERTIFICATES: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE",
    "OTEL_EXPORTER_OTLP_CERTIFICATE",
];
/// Headers of each request, such as a token.
const HEADERS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    "OTEL_EXPORTER_OTLP_HEADERS",
];
/// The only one that is spoken here.
const PROTOCOL: &str = "http/json";

/// What the environment says of a receiver.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Receiver {
    None,
    At(Uri),
    /// It says something that does not work. Others may have set it, for all pods: so that is no error.
    Unfit(String),
}

/// Returns the receiver that the environment names.
pub(super) fn receiver() -> Receiver {
    receiver_of(&|name| env::var(name).ok().filter(|it| !it.is_empty()))
}

fn receiver_of(read: &dyn Fn(&str) -> Option<String>) -> Receiver {
    let is =
        |name: &str, wanted: &str| read(name).is_some_and(|it| it.eq_ignore_ascii_case(wanted));
    let exporters = read("OTEL_TRACES_EXPORTER").unwrap_or_else(|| "otlp".to_owned());
    let mut exporters = exporters.split(',').map(str::trim);
    if is("OTEL_SDK_DISABLED", "true")
        || is("OTEL_TRACES_SAMPLER", "always_off")
        || !exporters.any(|it| it == "otlp")
    {
        return Receiver::None;
    }
    let (name, parsed) = match (read(TRACES_ENDPOINT), read(ENDPOINT)) {
        (Some(whole), _) => (TRACES_ENDPOINT, checked(&whole)),
        (None, Some(base)) => (ENDPOINT, endpoint(&base)),
        (None, None) => return Receiver::None,
    };
    let protocol = PROTOCOLS.into_iter().find_map(read);
    match (parsed, protocol) {
        (_, Some(protocol)) if protocol != PROTOCOL => Receiver::Unfit(format!(
            "the protocol for traces is {protocol:?}; only {PROTOCOL} is spoken"
        )),
        (Ok(at), _) => Receiver::At(at),
        (Err(error), _) => Receiver::Unfit(format!("{name}: {error}")),
    }
}

/// Returns the file with authorities; none if none is named.
pub(super) fn certificate() -> Option<PathBuf> {
    let named = CERTIFICATES.into_iter().find_map(env::var_os);
    named.filter(|it| !it.is_empty()).map(PathBuf::from)
}

/// Returns the headers of each request.
///
/// # Errors
///
/// Which variable is wrong, and what to write instead, without the values.
pub(super) fn headers() -> Result<HeaderMap, String> {
    headers_of(&|name| env::var(name).ok())
}

fn headers_of(read: &dyn Fn(&str) -> Option<String>) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    let mut named = HEADERS.into_iter();
    let Some((name, text)) = named.find_map(|it| Some((it, read(it)?))) else {
        return Ok(headers);
    };
    let wrong =
        || format!("{name} is no list of headers; write for example api-key=secret,tenant=a");
    for (key, value) in attributes(&text).ok_or_else(wrong)? {
        let key: HeaderName = key.parse().map_err(|_| wrong())?;
        let mut value: HeaderValue = value.parse().map_err(|_| wrong())?;
        value.set_sensitive(true);
        headers.insert(key, value);
    }
    Ok(headers)
}

/// Who sends: attributes of OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME, and what is known without them.
pub(super) fn resource(instance: Option<&str>) -> BTreeMap<String, String> {
    resource_of(instance, &|name| env::var(name).ok())
}

fn resource_of(
    instance: Option<&str>,
    read: &dyn Fn(&str) -> Option<String>,
) -> BTreeMap<String, String> {
    let pod = |key: &'static str| instance.map(|name| (key, name.to_owned()));
    let known = [
        Some(("service.name", "podloom".to_owned())),
        Some(("service.version", env!("CARGO_PKG_VERSION").to_owned())),
        pod("service.instance.id"),
        pod("k8s.pod.name"),
    ];
    let known = known.into_iter().flatten();
    let mut all: BTreeMap<String, String> =
        known.map(|(key, value)| (key.to_owned(), value)).collect();
    let given = read("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
    // If anything is wrong with it, the specification says to leave all of it out.
    all.extend(attributes(&given).unwrap_or_default());
    let name = read("OTEL_SERVICE_NAME").filter(|it| !it.is_empty());
    all.extend(name.map(|name| ("service.name".to_owned(), name)));
    all
}

/// Reads `key=value,key=value`, percent-encoded; none if it is not that.
fn attributes(text: &str) -> Option<Vec<(String, String)>> {
    let decoded = |text: &str| {
        let decoded = percent_decode_str(text.trim()).decode_utf8().ok()?;
        (!decoded.is_empty()).then(|| decoded.into_owned())
    };
    let pairs = text.split(',').filter(|pair| !pair.trim().is_empty());
    let pairs = pairs.map(|pair| {
        let (key, value) = pair.split_once('=')?;
        Some((decoded(key)?, decoded(value)?))
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::{Receiver, headers_of, receiver_of, resource_of};

    fn of<'p>(pairs: &'p [(&str, &str)]) -> impl Fn(&str) -> Option<String> + 'p {
        |name| {
            let mut pairs = pairs.iter();
            pairs
                .find(|(key, _)| *key == name)
                .map(|(_, value)| (*value).to_owned())
        }
    }

    #[test]
    fn the_environment_names_a_receiver() {
        let at = |text: &str| Receiver::At(text.parse().unwrap());
        let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4318");
        let whole = (
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            "http://b:4318/v1/traces",
        );
        let json = ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json");
        for (pairs, expected) in [
            (vec![], Receiver::None),
            (vec![base], at("http://a:4318/v1/traces")),
            (vec![base, json], at("http://a:4318/v1/traces")),
            (
                vec![("OTEL_EXPORTER_OTLP_ENDPOINT", "https://a")],
                at("https://a/v1/traces"),
            ),
            (vec![base, whole], at("http://b:4318/v1/traces")),
            (vec![base, ("OTEL_SDK_DISABLED", "true")], Receiver::None),
            (vec![base, ("OTEL_TRACES_EXPORTER", "none")], Receiver::None),
            (
                vec![base, ("OTEL_TRACES_SAMPLER", "always_off")],
                Receiver::None,
            ),
            (
                vec![base, ("OTEL_TRACES_EXPORTER", "console, otlp")],
                at("http://a:4318/v1/traces"),
            ),
        ] {
            assert_eq!(receiver_of(&of(&pairs)), expected, "{pairs:?}");
        }
        for unfit in [
            vec![base, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")],
            vec![("OTEL_EXPORTER_OTLP_ENDPOINT", "ftp://a:4318")],
            vec![("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "a:4318")],
        ] {
            let read = receiver_of(&of(&unfit));
            assert!(matches!(read, Receiver::Unfit(_)), "{unfit:?}: {read:?}");
        }
    }

    #[test]
    fn headers_are_read_and_never_shown() {
        let read = |text: &str| headers_of(&of(&[("OTEL_EXPORTER_OTLP_HEADERS", text)]));
        let headers = read("api-key=hunter2%3D, tenant = a").unwrap();
        assert_eq!(headers["api-key"], "hunter2=");
        assert_eq!(headers["tenant"], "a");
        assert!(!format!("{headers:?}").contains("hunter2"));
        for wrong in ["hunter2", "a key=hunter2", "key=hunter2%0A"] {
            let error = read(wrong).unwrap_err();
            assert!(
                error.starts_with("OTEL_EXPORTER_OTLP_HEADERS is no list"),
                "{error}"
            );
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn who_sends_can_be_named() {
        let pairs = [
            (
                "OTEL_RESOURCE_ATTRIBUTES",
                "service.name=a, k8s.cluster.name = b%2C",
            ),
            ("OTEL_SERVICE_NAME", "c"),
        ];
        let known = resource_of(Some("podloom-0"), &of(&pairs));
        let shown: Vec<String> = known
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        let version = format!("service.version={}", env!("CARGO_PKG_VERSION"));
        assert_eq!(
            shown,
            [
                "k8s.cluster.name=b,",
                "k8s.pod.name=podloom-0",
                "service.instance.id=podloom-0",
                "service.name=c",
                version.as_str(),
            ]
        );
        let odd = [("OTEL_RESOURCE_ATTRIBUTES", "service.name=a,odd")];
        assert_eq!(resource_of(None, &of(&odd))["service.name"], "podloom");
    }
}
