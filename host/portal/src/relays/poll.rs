//! Asks a relay which hostnames it serves.
//!
//! Relays of gosuda/portal differ, so this tries, in this order:
//!
//! 1. `/api/state` lists all leases. If there are too many to read, the next path is tried.
//! 2. `/tunnel/status` tells of one hostname, so it is asked about each.
//! 3. If `/sdk/domain` shows that this is a relay, a request to the hostname itself, sent to the relay's address, shows whether
//!    somebody answers. TLS ends in the tunnel, so the relay cannot answer instead.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt, stream};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use hyper::body::Bytes;
use podloom_engine::outbound::{
    Client, Part, Policy, Request, RequestErrorKind, RequestLimits, Resolve, Response, Rules,
    Settings, Tls, Url,
};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use tokio::time::{Instant, timeout_at};

use super::RelayMetrics;
use super::RelaySettings;
use super::answer::{Answer, Trouble};
use super::board::{Finding, Question};
use crate::check::Authority;

/// How many requests run at once.
pub(super) const REQUESTS: u16 = 8;
/// How many of them go to one relay. A relay that hangs leaves the others for the rest.
const REQUESTS_PER_RELAY: u16 = 2;
/// How long a look takes at most. The next look starts with the hostnames that it was too short for.
const LOOK: Duration = Duration::from_secs(10);

const LIMITS: RequestLimits = RequestLimits {
    // Two such pauses and a request are less than a look, so what waits for others is busy, not late.
    permit_timeout: Duration::from_secs(2),
    connect_timeout: Duration::from_secs(5),
    total_timeout: Duration::from_secs(5),
    request_bytes: 0,
    head_bytes: 16 * 1024,
    response_bytes: 4 * 1024 * 1024,
    concurrency: REQUESTS,
    concurrency_per_host: REQUESTS_PER_RELAY,
};

/// Sends the requests.
pub(super) struct Asker {
    client: Client,
    tls: Tls,
    /// Whether names of the cluster are looked up. Without an exception for its addresses none may be asked, and the result of a lookup
    /// would only tell which Services exist.
    asks_cluster: bool,
}

impl Asker {
    pub(super) fn new(
        settings: &RelaySettings,
        resolver: Arc<dyn Resolve>,
        metrics: &RelayMetrics,
    ) -> Self {
        let rules = Rules {
            policy: Policy::PublicOnly,
            allow: settings.allow.clone(),
            deny: settings.deny.clone(),
            flag: "--portal-relay-allow-cidr",
        };
        let requests = Settings {
            system: "portal-relay",
            rules,
            limits: LIMITS,
        };
        Self {
            client: Client::new(requests, resolver, metrics.outbound.clone()),
            tls: settings.tls.clone(),
            asks_cluster: !settings.allow.is_empty(),
        }
    }

    /// Asks a relay.
    pub(super) async fn ask(&self, authority: &Authority, question: &Question) -> Finding {
        if authority.is_of_cluster() && !self.asks_cluster {
            return Finding::Trouble(Trouble::in_cluster());
        }
        let look = Look {
            asker: self,
            relay: authority.url(),
            question,
            until: Instant::now() + LOOK,
        };
        look.find().await.unwrap_or_else(|end| match end {
            End::Busy => Finding::Busy,
            End::Late => Finding::Trouble(Trouble::late(LOOK)),
            End::UnknownPath => Finding::Trouble(Trouble::bad_response(NO_RELAY)),
            End::Trouble(trouble) => Finding::Trouble(trouble),
        })
    }
}

/// One look at a relay.
struct Look<'a> {
    asker: &'a Asker,
    /// The relay's URL, without a path.
    relay: String,
    question: &'a Question,
    until: Instant,
}

/// Why a request has no usable answer.
enum End {
    Busy,
    /// The time of the look is over.
    Late,
    /// The relay does not know the path.
    UnknownPath,
    Trouble(Trouble),
}

impl End {
    fn of(error: &RequestErrorKind) -> Self {
        Trouble::of(error).map_or(Self::Busy, Self::Trouble)
    }
}

impl From<Trouble> for End {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

impl Look<'_> {
    async fn find(&self) -> Result<Finding, End> {
        if let Some(answers) = self.state().await? {
            return Ok(Finding::Answers(answers));
        }
        if let Some(answers) = self.statuses().await? {
            return Ok(Finding::Answers(answers));
        }
        self.domain().await?;
        let probe = |hostname: String| async move { self.probe(&hostname).await };
        let (mut answers, mut end) = (BTreeMap::new(), None);
        for (hostname, probed) in self.each(&self.question.due, probe).await {
            match probed {
                Ok(answer) => drop(answers.insert(hostname, answer)),
                Err(End::Trouble(trouble)) => {
                    answers.insert(hostname, Answer::Unusable(trouble));
                }
                Err(other) => end = Some(other),
            }
        }
        match end {
            Some(end) if answers.is_empty() => Err(end),
            _ => Ok(Finding::Answers(answers)),
        }
    }

    /// Asks for all leases; none if the relay does not know this path, or has more leases than are read.
    async fn state(&self) -> Result<Option<BTreeMap<String, Answer>>, End> {
        let Some(response) = self.get("state", "/api/state").await? else {
            return Ok(None);
        };
        Ok(state(&response, &self.question.hostnames)?)
    }

    /// Asks about each hostname; none if the relay does not know this path, or there is no hostname to ask about.
    ///
    /// A relay may ask a tunnel before it answers about it, so one tunnel can make the answer about its own hostname unusable, or slow.
    /// That is no trouble with the relay. It is only if all were asked, and no answer was usable.
    async fn statuses(&self) -> Result<Option<BTreeMap<String, Answer>>, End> {
        let Some((first, others)) = self.question.due.split_first() else {
            return Ok(None);
        };
        // Alone, since most relays without `/api/state` do not know this path either.
        let opening = match self.status(first).await {
            Ok(None) => return Ok(None),
            Ok(Some(answer)) => answer,
            Err(End::Trouble(trouble)) => Answer::Unusable(trouble),
            Err(other) => return Err(other),
        };
        let ask = |hostname: String| async move {
            let answer = self.status(&hostname).await?;
            answer.ok_or(End::UnknownPath)
        };
        let asked = self.each(others, ask).await;
        let is_unknown = asked.values().any(|it| matches!(it, Err(End::UnknownPath)));
        let answers = asked.into_iter().filter_map(|(hostname, asked)| {
            let answer = match asked {
                Ok(answer) => answer,
                Err(End::Trouble(trouble)) => Answer::Unusable(trouble),
                Err(End::UnknownPath) => Answer::Unusable(Trouble::bad_response(NO_STATUS)),
                Err(End::Busy | End::Late) => return None,
            };
            Some((hostname, answer))
        });
        let answers: BTreeMap<_, _> = answers.chain([(first.clone(), opening.clone())]).collect();
        let is_usable = |answer: &Answer| !matches!(answer, Answer::Unusable(_));
        let are_all_asked = answers.len() == self.question.due.len();
        match opening {
            _ if answers.values().any(is_usable) => Ok(Some(answers)),
            _ if is_unknown => Ok(None),
            Answer::Unusable(trouble) if are_all_asked => Err(End::Trouble(trouble)),
            _ => Ok(Some(answers)),
        }
    }

    async fn status(&self, hostname: &str) -> Result<Option<Answer>, End> {
        // A hostname has no character that a query must escape.
        let path = format!("/tunnel/status?hostname={hostname}");
        let response = self.get("status", &path).await?;
        let response = response.ok_or_else(too_large)?;
        Ok(tunnel(&response, hostname)?)
    }

    /// Checks that this is a relay.
    async fn domain(&self) -> Result<(), End> {
        let response = self.get("domain", "/sdk/domain").await?;
        let response = response.ok_or_else(too_large)?;
        domain(&response)?.ok_or(End::UnknownPath)
    }

    /// Sends a request to a hostname, at the relay's address. Whatever answers is the tunnel.
    async fn probe(&self, hostname: &str) -> Result<Answer, End> {
        let relay = url(&self.relay)?;
        let port = relay.origin().port();
        let public = url(&format!("https://{hostname}:{port}/"))?;
        let request = Request {
            via: Some(&relay),
            ..self.request("probe", Method::HEAD, &public)
        };
        match self.send(request).await? {
            Ok(_) => Ok(Answer::Ready),
            Err(error) if error.has_response() => Ok(Answer::Ready),
            Err(error) => Err(End::of(&error)),
        }
    }

    /// Returns the answer to a request; none if its body is too large.
    async fn get(&self, operation: &'static str, path: &str) -> Result<Option<Response>, End> {
        let url = url(&format!("{}{path}", self.relay))?;
        let request = self.request(operation, Method::GET, &url);
        match self.send(request).await? {
            Ok(response) => Ok(Some(response)),
            Err(RequestErrorKind::TooLarge {
                part: Part::ResponseBody,
                ..
            }) => Ok(None),
            Err(error) => Err(End::of(&error)),
        }
    }

    /// Sends a request, unless the time of the look is over by then.
    async fn send(&self, request: Request<'_>) -> Result<Result<Response, RequestErrorKind>, End> {
        let sent = timeout_at(self.until, self.asker.client.send(request)).await;
        let sent = sent.map_err(|_| End::Late)?;
        Ok(sent.map_err(|error| error.kind))
    }

    fn request<'a>(&'a self, operation: &'static str, method: Method, url: &'a Url) -> Request<'a> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        Request {
            operation,
            method,
            url,
            via: None,
            headers,
            body: Bytes::new(),
            tenant: &self.question.tenant,
            tls: &self.asker.tls,
            total_timeout: None,
        }
    }

    /// Asks about hostnames until the time of the look is over. Those that it was too short for are not in the result.
    async fn each<Asked>(
        &self,
        hostnames: &[String],
        ask: impl Fn(String) -> Asked,
    ) -> BTreeMap<String, Result<Answer, End>>
    where
        Asked: Future<Output = Result<Answer, End>>,
    {
        let mut asked = stream::iter(hostnames.to_vec())
            .map(|hostname| ask(hostname.clone()).map(|answer| (hostname, answer)))
            .buffer_unordered(REQUESTS_PER_RELAY.into());
        let mut ends = BTreeMap::new();
        while let Some((hostname, answer)) = asked.next().await {
            ends.insert(hostname, answer);
            if Instant::now() >= self.until {
                break;
            }
        }
        ends
    }
}

const NO_STATUS: &str = "it answers /tunnel/status for other hostnames only";
const NO_RELAY: &str = "it knows no path that relays have";

fn too_large() -> End {
    End::Trouble(Trouble::bad_response("its answer is too large"))
}

/// Parses a URL. What Kubernetes accepts as a relay's host may be no DNS name, since its labels may be too long.
fn url(text: &str) -> Result<Url, End> {
    text.parse().map_err(|_| End::Trouble(Trouble::no_host()))
}

// Reads what relays answer.
//
// All paths answer with an envelope, `{"ok": true, "data": ...}`. Relays of gosuda/portal serve their website under unknown paths, with
// status 200, so only JSON counts. A body is whatever the relay likes, up to the limit of the client: it is read in one pass, which
// keeps nothing but what was looked for.

/// What a relay answered to a request for one of its paths; none if it has no such path.
pub(super) type Reply<T> = Result<Option<T>, Trouble>;

/// Reads the answer of `/api/state`: which of these hostnames have a lease. The result has each of them.
pub(super) fn state(
    response: &Response,
    hostnames: &BTreeSet<String>,
) -> Reply<BTreeMap<String, Answer>> {
    read(response, State(hostnames))
}

/// Reads the answer of `/tunnel/status` about a hostname.
pub(super) fn tunnel(response: &Response, hostname: &str) -> Reply<Answer> {
    let Some(tunnel) = read(response, PhantomData::<Tunnel>)? else {
        return Ok(None);
    };
    if tunnel.hostname.is_some_and(|found| found != hostname) {
        return Err(Trouble::bad_response("it answered for another hostname"));
    }
    Ok(Some(match (tunnel.registered, tunnel.service_alive) {
        (false, _) => Answer::NoLease,
        (true, false) => Answer::LeaseNotReady,
        (true, true) => Answer::Ready,
    }))
}

/// Reads the answer of `/sdk/domain`: whether this is a relay at all.
pub(super) fn domain(response: &Response) -> Reply<()> {
    let known = read(response, PhantomData::<Domain>)?;
    Ok(known.map(|Domain {}| ()))
}

/// Reads an envelope; the seed reads its data.
fn read<'de, S: DeserializeSeed<'de>>(response: &'de Response, seed: S) -> Reply<S::Value> {
    let status = response.status;
    let is_broken = status.is_server_error();
    if status == StatusCode::NOT_FOUND || !is_broken && !is_json(&response.headers) {
        return Ok(None);
    }
    if !status.is_success() {
        let text = format!("it answered {}", status.as_u16());
        return Err(Trouble::bad_response(text));
    }
    let mut json = serde_json::Deserializer::from_slice(&response.body);
    let envelope = json.deserialize_map(Envelope(seed));
    match envelope.and_then(|read| json.end().map(|()| read)) {
        Ok((true, Some(data))) => Ok(Some(data)),
        Ok(_) => Err(Trouble::bad_response("it answered that the request failed")),
        Err(_) => Err(Trouble::bad_response("its answer is not that of a relay")),
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

impl<'de, S: DeserializeSeed<'de>> Visitor<'de> for Envelope<S> {
    type Value = (bool, Option<S::Value>);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an envelope")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let (mut is_ok, mut data, mut seed) = (false, None, Some(self.0));
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "ok" => is_ok = matches!(map.next_value()?, Scalar::Flag(true)),
                "data" => {
                    let seed = seed
                        .take()
                        .ok_or_else(|| M::Error::duplicate_field("data"))?;
                    data = Some(map.next_value_seed(seed)?);
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok((is_ok, data))
    }
}

/// Reads the data of `/api/state`.
struct State<'a>(&'a BTreeSet<String>);

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
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "leases" => map.next_value_seed(Leases(&mut answers))?,
                _ => drop(map.next_value::<IgnoredAny>()?),
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
    match is_positive {
        true => Scalar::Positive,
        false => Scalar::Other,
    }
}

#[cfg(test)]
mod tests;
