//! Reads what relays answer.
//!
//! All paths answer with an envelope, `{"ok": true, "data": ...}`. Relays of gosuda/portal serve their website under unknown paths, with
//! status 200, so only JSON counts. A body is whatever the relay likes, up to the limit of the client: it is read in one pass, which
//! keeps nothing but what was looked for.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::marker::PhantomData;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use podloom_engine::outbound::Response;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::answer::{Answer, Trouble};

/// What a relay answered to a request for one of its paths.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reply<T> {
    Known(T),
    /// The relay has no such path.
    UnknownPath,
    Unusable(Trouble),
}

/// Reads the answer of `/api/state`: which of these hostnames have a lease. The result has each of them.
pub(super) fn state(
    response: &Response,
    hostnames: &BTreeSet<String>,
) -> Reply<BTreeMap<String, Answer>> {
    read(response, State(hostnames))
}

/// Reads the answer of `/tunnel/status` about a hostname.
pub(super) fn tunnel(response: &Response, hostname: &str) -> Reply<Answer> {
    match read(response, PhantomData::<Tunnel>) {
        Reply::Known(tunnel) if tunnel.is_of_another(hostname) => {
            Reply::Unusable(Trouble::bad_response("it answered for another hostname"))
        }
        Reply::Known(tunnel) => Reply::Known(match (tunnel.registered, tunnel.service_alive) {
            (false, _) => Answer::NoLease,
            (true, false) => Answer::LeaseNotReady,
            (true, true) => Answer::Ready,
        }),
        Reply::UnknownPath => Reply::UnknownPath,
        Reply::Unusable(trouble) => Reply::Unusable(trouble),
    }
}

/// Reads the answer of `/sdk/domain`: whether this is a relay at all.
pub(super) fn domain(response: &Response) -> Reply<()> {
    match read(response, PhantomData::<Domain>) {
        Reply::Known(Domain {}) => Reply::Known(()),
        Reply::UnknownPath => Reply::UnknownPath,
        Reply::Unusable(trouble) => Reply::Unusable(trouble),
    }
}

/// Reads an envelope; the seed reads its data.
fn read<'de, S: DeserializeSeed<'de>>(response: &'de Response, seed: S) -> Reply<S::Value> {
    let status = response.status;
    let unusable = |text: String| Reply::Unusable(Trouble::bad_response(text));
    if status == StatusCode::NOT_FOUND {
        return Reply::UnknownPath;
    }
    if status.is_server_error() {
        return unusable(format!("it answered {}", status.as_u16()));
    }
    if !is_json(&response.headers) {
        return Reply::UnknownPath;
    }
    if !status.is_success() {
        return unusable(format!("it answered {}", status.as_u16()));
    }
    let mut json = serde_json::Deserializer::from_slice(&response.body);
    let envelope = json.deserialize_map(Envelope(seed));
    match envelope.and_then(|read| json.end().map(|()| read)) {
        Ok((true, Some(data))) => Reply::Known(data),
        Ok(_) => unusable("it answered that the request failed".to_owned()),
        Err(_) => unusable("its answer is not that of a relay".to_owned()),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let Some(Ok(text)) = headers.get(CONTENT_TYPE).map(|value| value.to_str()) else {
        return false;
    };
    let media = text.split(';').next().unwrap_or_default().trim();
    let media = media.to_ascii_lowercase();
    media == "application/json" || (media.starts_with("application/") && media.ends_with("+json"))
}

/// Reads an envelope: whether it is ok, and its data.
struct Envelope<S>(S);

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum EnvelopeKey {
    Ok,
    Data,
    #[serde(other)]
    Other,
}

impl<'de, S: DeserializeSeed<'de>> Visitor<'de> for Envelope<S> {
    type Value = (bool, Option<S::Value>);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an envelope")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let (mut is_ok, mut data, mut seed) = (false, None, Some(self.0));
        while let Some(key) = map.next_key()? {
            match key {
                EnvelopeKey::Ok => is_ok = matches!(map.next_value()?, Scalar::Flag(true)),
                EnvelopeKey::Data => {
                    let seed = seed
                        .take()
                        .ok_or_else(|| M::Error::duplicate_field("data"))?;
                    data = Some(map.next_value_seed(seed)?);
                }
                EnvelopeKey::Other => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok((is_ok, data))
    }
}

/// Reads the data of `/api/state`.
struct State<'a>(&'a BTreeSet<String>);

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum StateKey {
    Leases,
    #[serde(other)]
    Other,
}

impl<'de> DeserializeSeed<'de> for State<'_> {
    type Value = BTreeMap<String, Answer>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for State<'_> {
    type Value = BTreeMap<String, Answer>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the state of a relay")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let mut answers: BTreeMap<String, Answer> = self
            .0
            .iter()
            .map(|hostname| (hostname.clone(), Answer::NoLease))
            .collect();
        while let Some(key) = map.next_key()? {
            match key {
                StateKey::Leases => map.next_value_seed(Leases(&mut answers))?,
                StateKey::Other => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(answers)
    }
}

/// Reads a list of leases into the answers. A relay without leases leaves the list out, or sends null.
struct Leases<'a>(&'a mut BTreeMap<String, Answer>);

impl<'de> DeserializeSeed<'de> for Leases<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Leases<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of leases")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<Q: SeqAccess<'de>>(self, mut leases: Q) -> Result<(), Q::Error> {
        while let Some(lease) = leases.next_element::<LeaseState>()? {
            let Scalar::Text(hostname) = lease.hostname else {
                continue;
            };
            let Some(answer) = self.0.get_mut(&hostname) else {
                continue;
            };
            // A relay has one lease for a hostname. If it lists several, one that is ready is enough.
            match lease.ready {
                Scalar::Positive => *answer = Answer::Ready,
                _ if *answer == Answer::NoLease => *answer = Answer::LeaseNotReady,
                _ => {}
            }
        }
        Ok(())
    }
}

/// A lease. Older relays write the names of its fields with a capital.
#[derive(Deserialize)]
struct LeaseState {
    #[serde(default, alias = "Hostname")]
    hostname: Scalar,
    /// How many connections of the tunnel are ready.
    #[serde(default, alias = "Ready")]
    ready: Scalar,
}

/// The data of `/tunnel/status`.
#[derive(Deserialize)]
struct Tunnel {
    #[serde(default)]
    hostname: Option<String>,
    registered: bool,
    #[serde(default)]
    service_alive: bool,
}

impl Tunnel {
    fn is_of_another(&self, hostname: &str) -> bool {
        let found = self.hostname.as_deref();
        found.is_some_and(|found| found != hostname)
    }
}

/// The data of `/sdk/domain`.
#[derive(Deserialize)]
struct Domain {}

/// A value of any type. Of a list or an object nothing is kept: the leases of others may hold whatever their relay allows.
#[derive(Default)]
enum Scalar {
    Flag(bool),
    Positive,
    Text(String),
    #[default]
    Other,
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<Scalar, E> {
        Ok(Scalar::Flag(flag))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Scalar, E> {
        Ok(positive(number > 0))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Scalar, E> {
        Ok(positive(number > 0))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Scalar, E> {
        Ok(positive(number > 0.0))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Scalar, E> {
        Ok(Scalar::Text(text.to_owned()))
    }

    fn visit_unit<E: Error>(self) -> Result<Scalar, E> {
        Ok(Scalar::Other)
    }

    fn visit_seq<Q: SeqAccess<'de>>(self, mut list: Q) -> Result<Scalar, Q::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Scalar::Other)
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Scalar, M::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Scalar::Other)
    }
}

fn positive(is_positive: bool) -> Scalar {
    if is_positive {
        Scalar::Positive
    } else {
        Scalar::Other
    }
}

#[cfg(test)]
mod tests;
