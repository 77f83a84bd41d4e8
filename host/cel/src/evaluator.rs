//! Evaluating beside other tasks.

use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use podloom_turns::{Limits, Turns};
use tokio::sync::oneshot;

use crate::evaluate::next_true_here;
use crate::evaluate::{Budget, all_failed, evaluate_here};
use crate::outcome::{Evaluation, Failure};
use crate::program::{Program, compile_here, none_compiled};
use crate::stack::{self, Broken};
use crate::variables::Variables;

/// How many may wait for a place. Whoever uses this has a limit of its own, which is lower.
const WAITING: usize = 4096;

/// Compiles and evaluates conditions on threads of its own, of which there are never more than a fixed number.
///
/// The places are shared fairly among tenants: one has at most as many as it leaves free, and who had long turns waits behind the others.
/// So expensive conditions of one tenant do not keep another waiting, and one peer with many tenants does not keep another peer waiting.
///
/// A future that is dropped ends nothing: no thread can be stopped from outside. So the bound is the [`Budget`], which the
/// evaluation itself keeps, and the place of a dropped future stays taken until its thread has ended. Whoever finds no place
/// waits, and the time of its budget begins when it gets one.
///
/// The threads have larger stacks than those of tokio, which `cel` needs for nested conditions.
#[derive(Clone, Debug)]
pub struct Evaluator {
    places: Turns<Option<IpAddr>, Arc<str>>,
}

/// Whose conditions they are: who asks, which is none for the program itself, and for which namespace.
pub type Tenant<'a> = (Option<IpAddr>, &'a str);

impl Evaluator {
    /// So many evaluations of one tenant run at the same time, at least one, as many more for all other tenants, and one for another
    /// peer.
    pub fn new(threads: usize) -> Self {
        Self {
            places: Turns::new(Limits::for_each(threads.max(1), WAITING)),
        }
    }

    /// Does what [`crate::compile_all`] does.
    ///
    /// # Errors
    /// As there.
    pub async fn compile_all(
        &self,
        tenant: Tenant<'_>,
        conditions: Vec<String>,
        names: Vec<String>,
    ) -> Result<Vec<Program>, Vec<Failure>> {
        let work = move || {
            let conditions: Vec<&str> = conditions.iter().map(String::as_str).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            compile_here(&conditions, &names)
        };
        let compiled = self.run(tenant, work).await;
        compiled.unwrap_or_else(|broken| Err(vec![none_compiled(&broken)]))
    }

    /// Does what [`crate::evaluate_all`] does.
    pub async fn evaluate_all(
        &self,
        tenant: &str,
        programs: Arc<[Program]>,
        (variables, time): (Arc<Variables>, Timestamp),
        budget: Budget,
    ) -> Evaluation {
        let count = programs.len();
        let work = move || evaluate_here(&programs, &variables, time, budget);
        let evaluation = self.run((None, tenant), work).await;
        evaluation.unwrap_or_else(|broken| all_failed(count, &broken.to_string()))
    }

    /// Does what [`crate::next_true`] does.
    pub async fn next_true(
        &self,
        tenant: &str,
        programs: Arc<[Program]>,
        (variables, now): (Arc<Variables>, Timestamp),
        budget: Budget,
    ) -> Option<Timestamp> {
        let work = move || next_true_here(&programs, &variables, now, budget);
        self.run((None, tenant), work).await.ok()?
    }

    async fn run<T: Send + 'static>(
        &self,
        (peer, namespace): Tenant<'_>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Broken> {
        let place = self.places.take(peer, Arc::from(namespace)).await;
        let place = place.map_err(Broken::Full)?;
        let (done, result) = oneshot::channel();
        let started = stack::start(move || {
            let result = stack::caught(work);
            drop(place);
            // Nobody waits any more, which is no mistake.
            let _ = done.send(result);
        });
        started?;
        let ended = |_| Broken::Panic("the thread ended without a result".to_owned());
        result.await.map_err(ended)?
    }
}

#[cfg(test)]
mod tests;
