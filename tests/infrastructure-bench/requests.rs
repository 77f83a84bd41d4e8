//! Which requests the operator sent to others than its API server.

use std::collections::BTreeMap;

use podloom_tests::Operator;
use podloom_tests::faults::Proxy;
use podloom_tests::steps::Requests;

/// The name of the Infrastructure Manager among the servers that are asked.
pub(crate) const IM: &str = "IM";
/// That of the API servers of Clusters.
const CLUSTERS: &str = "the clusters";
/// Counts the requests to IM that the operator held back, since too many others were on their way.
const HELD_BACK: &str = "nobody, for the limit of each provider";

/// The metric with the requests to IM, by operation and outcome.
const METRIC: &str = "podloom_im_requests_total{";
/// The operations that change something at IM.
const CHANGES: [&str; 6] = [
    "add_owner",
    "create",
    "delete",
    "reconfigure",
    "start",
    "update",
];

/// Counts all of them, from the operator's own metrics and from the proxy that stands for the API servers of all Clusters.
pub(crate) fn sent(operator: &Operator, probed: &Proxy) -> Requests {
    let mut requests = Requests::from([(CLUSTERS, probed.totals())]);
    let (_, metrics) = operator.get("/metrics").unwrap();
    for line in metrics.lines() {
        let Some(labels) = line.strip_prefix(METRIC) else {
            continue;
        };
        let (operation, outcome) = (
            label(labels, "operation").unwrap(),
            label(labels, "outcome").unwrap(),
        );
        let count: u64 = labels.rsplit(' ').next().unwrap().parse().unwrap();
        let (server, request) = match outcome {
            "success" => (IM, operation.to_owned()),
            "limited" => (HELD_BACK, operation.to_owned()),
            outcome => (IM, format!("{operation}: {outcome}")),
        };
        let of_server: &mut BTreeMap<String, u64> = requests.entry(server).or_default();
        of_server.insert(request, count);
    }
    requests
}

/// Whether a request changes something at IM, or would have.
pub(crate) fn is_change(request: &str) -> bool {
    let operation = request.split(':').next();
    operation.is_some_and(|it| CHANGES.contains(&it))
}

/// The value of a label: `operation="state"`.
fn label<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    let (_, value) = labels.split_once(&format!("{name}=\""))?;
    value.split('"').next()
}
