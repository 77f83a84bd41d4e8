//! Requests to servers that answer, hang, lie, redirect, drip and vanish.

mod addresses;
mod floods;
mod limits;
mod phases;
mod privacy;
mod proxied;
mod responses;
mod secure;
mod server;

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{HeaderMap, Method};
use hyper::body::Bytes;
use prometheus_client::registry::Registry;

use super::{
    Client, OutboundMetrics, Policy, Request, RequestErrorKind, RequestLimits, Resolve, Response,
    Roots, Rules, Settings, Tls, Url,
};

/// The limits of most tests: so generous that nothing exceeds them by chance.
fn limits() -> RequestLimits {
    RequestLimits {
        permit_timeout: Duration::from_secs(20),
        connect_timeout: Duration::from_secs(20),
        total_timeout: Duration::from_secs(30),
        request_bytes: 1024,
        head_bytes: 16 * 1024,
        response_bytes: 4096,
        concurrency: 4,
        concurrency_per_host: 2,
    }
}

/// Loopback is allowed from 127.0.0.1 to 127.0.0.7, and nothing else.
fn rules() -> Rules {
    Rules {
        policy: Policy::PublicOnly,
        allow: vec!["127.0.0.0/29".parse().unwrap()],
        deny: Vec::new(),
        flag: "--allow-cidr",
    }
}

/// Names with the results of their lookups, in order; the last one is repeated.
#[derive(Default)]
struct Names {
    answers: Mutex<HashMap<String, Vec<Vec<IpAddr>>>>,
    lookups: AtomicUsize,
    asked: Mutex<Vec<String>>,
}

impl Names {
    fn of(names: &[(&str, &[&[&str]])]) -> Arc<Self> {
        let read =
            |addresses: &&[&str]| addresses.iter().map(|text| text.parse().unwrap()).collect();
        let answers = names
            .iter()
            .map(|(name, answers)| ((*name).to_owned(), answers.iter().map(read).collect()));
        Arc::new(Self {
            answers: Mutex::new(answers.collect()),
            ..Self::default()
        })
    }

    fn lookups(&self) -> usize {
        self.lookups.load(Ordering::SeqCst)
    }
}

impl Resolve for Names {
    fn resolve(&self, name: &str, _tenant: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        self.lookups.fetch_add(1, Ordering::SeqCst);
        self.asked.lock().unwrap().push(name.to_owned());
        let mut names = self.answers.lock().unwrap();
        let found = match names.get_mut(name.strip_suffix('.').unwrap_or(name)) {
            None => Err(io::Error::other("no such name")),
            Some(answers) if answers.len() > 1 => Ok(answers.remove(0)),
            Some(answers) => Ok(answers.concat()),
        };
        async move { found }.boxed()
    }
}

fn client_of(names: &Arc<Names>, rules: Rules, limits: RequestLimits) -> Client {
    let settings = Settings {
        system: "test",
        rules,
        limits,
    };
    let metrics = OutboundMetrics::register(&mut Registry::default());
    Client::new(settings, names.clone(), metrics)
}

/// A client that knows no name.
fn client(limits: RequestLimits) -> Client {
    client_of(&Arc::default(), rules(), limits)
}

/// Accepts every certificate: for tests that are not about TLS.
fn unchecked() -> Tls {
    Tls::new(&Roots::Unchecked, None).unwrap()
}

fn url(text: &str) -> Url {
    text.parse().expect(text)
}

fn at(address: SocketAddr) -> Url {
    url(&format!("http://{address}/"))
}

fn get<'a>(url: &'a Url, tls: &'a Tls) -> Request<'a> {
    Request {
        operation: "look",
        method: Method::GET,
        url,
        via: None,
        headers: HeaderMap::new(),
        body: Bytes::new(),
        tenant: "",
        tls,
        total_timeout: None,
    }
}

/// Sends a plain GET. Panics if it takes longer than all limits.
async fn ask(client: &Client, url: &Url) -> Result<Response, RequestErrorKind> {
    send(client, get(url, &unchecked())).await
}

async fn send(client: &Client, request: Request<'_>) -> Result<Response, RequestErrorKind> {
    let sent = tokio::time::timeout(Duration::from_secs(60), client.send(request)).await;
    sent.expect("the request hangs").map_err(|error| error.kind)
}
