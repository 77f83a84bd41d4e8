//! Follows a system that can only be polled, over HTTP. The system is in this file too, so the example runs anywhere. Ctrl-C ends it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use axum::routing::get;
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use podloom_control_loop::{BoxError, ControlLoop, Ctx, Next, Source, Storage, handler_fn};
use tokio::net::TcpListener;
use tokio::time::interval;
use tokio_util::sync::CancellationToken;
use tracing::info;

/// A client of the outside system.
#[derive(Clone)]
struct Machines {
    address: SocketAddr,
    client: Client<HttpConnector, Empty<&'static [u8]>>,
}

impl Machines {
    /// The body; none if the system answers 404.
    async fn get(&self, path: &str) -> Result<Option<String>, BoxError> {
        let uri: Uri = format!("http://{}{path}", self.address).parse()?;
        let response = self.client.get(uri).await?;
        match response.status() {
            StatusCode::NOT_FOUND => Ok(None),
            StatusCode::OK => {
                let body = response.into_body().collect().await?.to_bytes();
                Ok(Some(String::from_utf8(body.into())?))
            }
            // Any other status does not mean that the machine is gone.
            status => Err(format!("{path} answers {status}").into()),
        }
    }
}

/// There is nothing to watch, so `list` is enough. The loop's own timeouts drop a request that hangs.
impl Source<String> for Machines {
    async fn list(&self, _: &Ctx) -> Result<Vec<String>, BoxError> {
        let names = self.get("/machines").await?.ok_or("there is no list")?;
        Ok(names.lines().map(str::to_owned).collect())
    }
}

impl Storage<String> for Machines {
    type Object = String;

    async fn get(&self, _: &Ctx, id: &String) -> Result<Option<String>, BoxError> {
        self.get(&format!("/machines/{id}")).await
    }
}

/// The system itself: machines come and go, without any notification.
type Park = Arc<Mutex<BTreeMap<String, u32>>>;

fn change<T>(park: &Park, change: impl FnOnce(&mut BTreeMap<String, u32>) -> T) -> T {
    change(&mut park.lock().unwrap_or_else(PoisonError::into_inner))
}

async fn list(State(park): State<Park>) -> String {
    change(&park, |park| {
        park.keys().map(|name| format!("{name}\n")).collect()
    })
}

async fn read(State(park): State<Park>, Path(name): Path<String>) -> Result<String, StatusCode> {
    let load = change(&park, |park| park.get(&name).copied());
    load.map(|load| format!("load {load}"))
        .ok_or(StatusCode::NOT_FOUND)
}

/// Every second, starts one machine and ends the one that was started three seconds ago.
async fn come_and_go(park: Park) {
    let mut seconds = interval(Duration::from_secs(1));
    for second in 0_u32.. {
        seconds.tick().await;
        change(&park, |park| {
            park.insert(format!("machine-{second}"), second % 7);
            park.remove(&format!("machine-{}", second.saturating_sub(3)));
        });
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    tracing_subscriber::fmt().init();
    let park = Park::default();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let machines = Machines {
        address: listener.local_addr()?,
        client: Client::builder(TokioExecutor::new()).build_http(),
    };
    let routes = Router::new()
        .route("/machines", get(list))
        .route("/machines/{name}", get(read))
        .with_state(Arc::clone(&park));

    let mut control_loop = ControlLoop::new(
        "machines",
        machines.clone(),
        machines,
        handler_fn(async |_, id, load: Option<String>| {
            info!(
                id,
                load,
                "{}",
                if load.is_some() { "there" } else { "gone" }
            );
            Ok(Next::Settled)
        }),
    );
    control_loop.options.resync_interval = Some(Duration::from_secs(1));

    let stop = CancellationToken::new();
    let running = control_loop.run(stop.clone());
    let interrupted = async {
        let interrupted = tokio::signal::ctrl_c().await;
        stop.cancel();
        interrupted
    };
    tokio::select! {
        served = axum::serve(listener, routes) => served?,
        () = come_and_go(park) => {}
        (report, interrupted) = async { tokio::join!(running, interrupted) } => {
            interrupted?;
            info!(?report, "good bye");
        }
    }
    Ok(())
}
