//! Asks a relay which hostnames it serves.
//!
//! Relays of gosuda/portal differ, so this tries, in this order:
//!
//! 1. `/api/state` lists all leases. If there are too many to read, the next path is tried.
//! 2. `/tunnel/status` tells of one hostname, so it is asked about each.
//! 3. If `/sdk/domain` shows that this is a relay, a request to the hostname itself, sent to the relay's address, shows whether
//!    somebody answers. TLS ends in the tunnel, so the relay cannot answer instead.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt, stream};
use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue, Method};
use hyper::body::Bytes;
use podloom_engine::outbound::{
    Client, Part, Policy, Request, RequestErrorKind, RequestLimits, Resolve, Response, Rules,
    Settings, Tls, Url,
};
use tokio::time::{Instant, timeout_at};

use super::RelaySettings;
use super::answer::{Answer, Trouble};
use super::board::{Finding, Question};
use super::metrics::RelayMetrics;
use super::reply::{self, Reply};
use crate::authority::Authority;

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

/// What a request was for: the label `operation` of the metrics.
#[derive(Clone, Copy)]
enum Operation {
    State,
    Status,
    Domain,
    Probe,
}

impl Operation {
    fn as_str(self) -> &'static str {
        match self {
            Self::State => "state",
            Self::Status => "status",
            Self::Domain => "domain",
            Self::Probe => "probe",
        }
    }
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
            End::UnknownPath => Finding::Trouble(no_relay()),
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
        let Some(response) = self.get(Operation::State, "/api/state").await? else {
            return Ok(None);
        };
        known(reply::state(&response, &self.question.hostnames))
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
                Err(End::UnknownPath) => Answer::Unusable(no_status()),
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
        let response = self.get(Operation::Status, &path).await?;
        let response = response.ok_or_else(too_large)?;
        known(reply::tunnel(&response, hostname))
    }

    /// Checks that this is a relay.
    async fn domain(&self) -> Result<(), End> {
        let response = self.get(Operation::Domain, "/sdk/domain").await?;
        let response = response.ok_or_else(too_large)?;
        known(reply::domain(&response))?.ok_or(End::UnknownPath)
    }

    /// Sends a request to a hostname, at the relay's address. Whatever answers is the tunnel.
    async fn probe(&self, hostname: &str) -> Result<Answer, End> {
        let relay = url(&self.relay)?;
        let port = relay.origin().port();
        let public = url(&format!("https://{hostname}:{port}/"))?;
        let request = Request {
            via: Some(&relay),
            ..self.request(Operation::Probe, Method::HEAD, &public)
        };
        match self.send(request).await? {
            Ok(_) => Ok(Answer::Ready),
            Err(error) if error.has_response() => Ok(Answer::Ready),
            Err(error) => Err(End::of(&error)),
        }
    }

    /// Returns the answer to a request; none if its body is too large.
    async fn get(&self, operation: Operation, path: &str) -> Result<Option<Response>, End> {
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

    fn request<'a>(&'a self, operation: Operation, method: Method, url: &'a Url) -> Request<'a> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        Request {
            operation: operation.as_str(),
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

/// Returns what the relay answered; none if it does not know the path.
fn known<T>(reply: Reply<T>) -> Result<Option<T>, End> {
    match reply {
        Reply::Known(answer) => Ok(Some(answer)),
        Reply::UnknownPath => Ok(None),
        Reply::Unusable(trouble) => Err(End::Trouble(trouble)),
    }
}

fn no_status() -> Trouble {
    Trouble::bad_response("it answers /tunnel/status for other hostnames only")
}

fn no_relay() -> Trouble {
    Trouble::bad_response("it knows no path that relays have")
}

fn too_large() -> End {
    End::Trouble(Trouble::bad_response("its answer is too large"))
}

/// Parses a URL. What Kubernetes accepts as a relay's host may be no DNS name, since its labels may be too long.
fn url(text: &str) -> Result<Url, End> {
    text.parse().map_err(|_| End::Trouble(Trouble::no_host()))
}
