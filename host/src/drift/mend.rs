//! What to do about pods of an owner: new ones pass the chain.

use super::findings::Row;

/// How to replace the pods of an owner.
pub(super) fn mend(row: &Row) -> String {
    let Row {
        namespace,
        kind,
        name,
        ..
    } = row;
    match kind.as_str() {
        "Deployment" | "StatefulSet" | "DaemonSet" => {
            let kind = kind.to_lowercase();
            format!("kubectl rollout restart {kind}/{name} -n {namespace}")
        }
        "ReplicaSet" | "ReplicationController" => {
            let more = if row.unnamed() > 0 { ", and so on" } else { "" };
            let names = row.names.join(" ");
            format!("kubectl delete pod {names} -n {namespace}{more}")
        }
        "Pod" => {
            format!("kubectl get pod {name} -n {namespace} -o yaml | kubectl replace --force -f -")
        }
        "CronJob" => "wait for its next Job".to_owned(),
        "Job" => "let it end, or create it again".to_owned(),
        "Browser" => "let the session end; a new Browser gets a new pod".to_owned(),
        _ => format!("delete its pods, which {kind} {name} creates again"),
    }
}
