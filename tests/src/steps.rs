//! The steps of a benchmark: what each of them took of the operator, and which requests it sent.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::operator::Operator;
use crate::usage::{Usage, usage};

/// The name of the API server among the servers that are asked.
pub const API_SERVER: &str = "the API server";

/// The number of requests, by server, and then by kind.
pub type Requests = BTreeMap<&'static str, BTreeMap<String, u64>>;

/// Everything that is counted.
pub struct Counters<'a> {
    /// Who sends the requests.
    pub operator: &'a Operator,
    /// Counts the requests to all servers so far; those to the API server by verb and resource.
    pub requests: &'a dyn Fn() -> Requests,
}

/// The counters at one moment.
pub struct Moment {
    at: Instant,
    usage: Usage,
    requests: Requests,
}

/// What one step took.
pub struct Step {
    /// Its name, a word.
    pub name: &'static str,
    /// How long it took.
    pub time: Duration,
    /// The processor time of the operator.
    pub cpu: Duration,
    /// The resident memory of the operator at its end, in bytes.
    pub resident: u64,
    /// The most resident memory of the operator until then, in bytes.
    pub peak: u64,
    /// The requests of the operator; those to the API server by verb and resource.
    pub requests: Requests,
}

impl Counters<'_> {
    /// The counters now.
    #[must_use]
    pub fn now(&self) -> Moment {
        Moment {
            at: Instant::now(),
            usage: usage(self.operator.id()).unwrap(),
            requests: (self.requests)(),
        }
    }

    /// The step that began at a moment, and ends now.
    #[must_use]
    pub fn since(&self, name: &'static str, before: &Moment) -> Step {
        let mut now = self.now();
        for (server, requests) in &mut now.requests {
            let before = before.requests.get(server);
            for (request, count) in requests.iter_mut() {
                *count -= before.and_then(|it| it.get(request)).unwrap_or(&0);
            }
            requests.retain(|_, count| *count > 0);
        }
        Step {
            name,
            time: now.at - before.at,
            cpu: now.usage.cpu.saturating_sub(before.usage.cpu),
            resident: now.usage.resident,
            peak: now.usage.peak,
            requests: now.requests,
        }
    }
}

impl Step {
    /// The number of requests of this kind to a server.
    #[must_use]
    pub fn count(&self, server: &str, request: &str) -> u64 {
        let requests = self.requests.get(server);
        let count = requests.and_then(|requests| requests.get(request));
        count.copied().unwrap_or_default()
    }

    /// The requests to the API server that may change something there.
    #[must_use]
    pub fn writes(&self) -> BTreeMap<&str, u64> {
        let requests = self.requests.get(API_SERVER).into_iter().flatten();
        let is_write = |request: &str| {
            let verb = request.split(' ').next();
            !verb.is_some_and(is_read)
        };
        let writes = requests.filter(|(request, _)| is_write(request));
        writes
            .map(|(request, count)| (request.as_str(), *count))
            .collect()
    }

    /// Prints it, with what it took for each of so many objects of a kind.
    pub fn print(&self, objects: usize, kind: &str) {
        let each = |amount: f64| amount / objects as f64;
        let sums = self.requests.iter().map(|(server, requests)| {
            let sum: u64 = requests.values().sum();
            format!("{:.2} to {server}", each(sum as f64))
        });
        eprintln!(
            "{:8} {:6.1} s, {:.0} MiB (at most {:.0}); for each {kind} {:.2} ms CPU and requests: {}",
            self.name,
            self.time.as_secs_f64(),
            mebibytes(self.resident),
            mebibytes(self.peak),
            each(self.cpu.as_secs_f64() * 1000.0),
            sums.collect::<Vec<_>>().join(", "),
        );
        for (server, requests) in &self.requests {
            for (request, count) in requests {
                let each = each(*count as f64);
                eprintln!("         {count:6} {each:8.2}  {request} ({server})");
            }
        }
    }

    /// The figures.
    #[must_use]
    pub fn figures(&self) -> Value {
        json!({
            "seconds": self.time.as_secs_f64(),
            "cpu_ms": self.cpu.as_secs_f64() * 1000.0,
            "resident_bytes": self.resident,
            "peak_bytes": self.peak,
            "requests": self.requests,
        })
    }
}

/// Whether a request with this verb changes nothing.
fn is_read(verb: &str) -> bool {
    ["get", "list", "watch"].contains(&verb)
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / 1_048_576.0
}
