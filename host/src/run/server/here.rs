//! Who is here: endpoints for localhost alone.
//!
//! A request over kubectl port-forward comes from localhost, and so does one of a browser that a page of somebody else sends. So the
//! peer is not enough.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use axum::extract::ConnectInfo;
use axum::http::header::HOST;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};

/// Says where a request of a browser comes from: `same-origin`, `none` if a person typed the address, or another site's.
const FETCH_SITE: &str = "sec-fetch-site";

/// Only localhost may see and change what everybody in the cluster should not know: verbose logs, which also cost time, and names of
/// pods.
#[expect(
    clippy::result_large_err,
    reason = "the error is the answer, and is passed on at once"
)]
pub(super) fn from_here(
    uri: &Uri,
    peer: &ConnectInfo<SocketAddr>,
    headers: &HeaderMap,
) -> Result<(), Response> {
    let path = uri.path();
    let advice = if !is_here(peer.0.ip().to_canonical()) {
        format!("{path} answers only requests from localhost: use kubectl port-forward\n")
    } else if !is_by_own_name(headers) {
        format!(
            "{path} is at http://localhost, with the port of kubectl port-forward: other names are refused\n"
        )
    } else if !is_of_own_page(headers) {
        format!("{path} answers no pages of other sites\n")
    } else {
        return Ok(());
    };
    Err((StatusCode::FORBIDDEN, advice).into_response())
}

/// Other loopback addresses belong to proxies in the pod, which pass on what comes from the cluster.
fn is_here(peer: IpAddr) -> bool {
    peer == Ipv4Addr::LOCALHOST || peer == Ipv6Addr::LOCALHOST
}

/// Whether a browser got here by a name of ours. The owner of another name can make it lead here, and then his pages are of the same
/// origin as ours.
fn is_by_own_name(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(HOST) else {
        // Every browser sends it.
        return true;
    };
    let authority = host.to_str().ok().and_then(|host| host.parse().ok());
    authority.is_some_and(|authority: Authority| is_own(authority.host()))
}

/// Names that nobody else can make lead here.
fn is_own(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok()
}

/// Whether no page of another site sent it. What is not a browser says nothing.
fn is_of_own_page(headers: &HeaderMap) -> bool {
    let site = headers.get(FETCH_SITE);
    site.is_none_or(|site| site == "same-origin" || site == "none")
}
