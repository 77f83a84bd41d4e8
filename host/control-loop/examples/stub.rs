//! A loop over fruit, some of which is rotten. Nothing outside is needed; Ctrl-C ends it.

use std::num::NonZeroUsize;
use std::time::Duration;

use futures::{StreamExt, stream};
use podloom_control_loop::{
    BoxError, ControlLoop, Ctx, Handler, HintStream, Next, Source, Storage,
};
use tokio::time::{interval, sleep};
use tokio_util::sync::CancellationToken;
use tracing::info;

/// The listed ids.
pub(crate) const FRUITS: [&str; 5] = ["apple", "banana", "cherry", "durian", "elderberry"];
/// The storage cannot read it.
pub(crate) const UNREADABLE: &str = "cherry";
/// It is listed, but does not exist.
pub(crate) const ABSENT: &str = "durian";
/// The handler fails for it.
pub(crate) const ROTTEN: &str = "elderberry";

/// All three parts in one type; they could also be three types.
#[derive(Clone, Copy)]
pub(crate) struct Basket;

impl Source<&'static str> for Basket {
    async fn list(&self, _: &Ctx) -> Result<Vec<&'static str>, BoxError> {
        Ok(FRUITS.to_vec())
    }

    /// A hint every ten milliseconds, for one fruit after another.
    async fn watch(&self, _: &Ctx) -> Result<HintStream<&'static str>, BoxError> {
        let state = (interval(Duration::from_millis(10)), FRUITS.iter().cycle());
        let hints = stream::unfold(state, async |(mut ticks, mut fruits)| {
            ticks.tick().await;
            let fruit = fruits.next()?;
            Some((Ok(*fruit), (ticks, fruits)))
        });
        Ok(hints.boxed())
    }
}

impl Storage<&'static str> for Basket {
    type Object = String;

    async fn get(&self, _: &Ctx, id: &&'static str) -> Result<Option<String>, BoxError> {
        match *id {
            UNREADABLE => Err("it is too dark to see".into()),
            ABSENT => Ok(None),
            fruit => Ok(Some(format!("a ripe {fruit}"))),
        }
    }
}

impl Handler<&'static str, String> for Basket {
    async fn handle(
        &self,
        _: &Ctx,
        id: &&'static str,
        object: Option<String>,
    ) -> Result<Next, BoxError> {
        match object {
            Some(_) if *id == ROTTEN => return Err("it is rotten".into()),
            Some(object) => {
                sleep(Duration::from_millis(50)).await;
                info!(id, object, "eaten");
            }
            None => info!(id, "there is none"),
        }
        Ok(Next::Settled)
    }
}

pub(crate) fn eat() -> ControlLoop<&'static str, Basket, Basket, Basket> {
    let mut control_loop = ControlLoop::new("fruit", Basket, Basket, Basket);
    control_loop.options.workers = NonZeroUsize::new(3).unwrap_or(NonZeroUsize::MIN);
    control_loop.options.resync_interval = Some(Duration::from_secs(5));
    control_loop
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    tracing_subscriber::fmt().init();
    let stop = CancellationToken::new();
    let running = tokio::spawn(eat().run(stop.clone()));
    tokio::signal::ctrl_c().await?;
    stop.cancel();
    let report = running.await?;
    info!(?report, "good bye");
    Ok(())
}
