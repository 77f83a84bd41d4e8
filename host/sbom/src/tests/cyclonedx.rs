use serde_json::json;

use crate::{VersionInfo, cyclonedx, parse};

const TREE: &str = "\
0mine v0.1.0 (/home/me)
1serde v1.0.228
2zstd-sys v2.0.16+zstd.1.5.7
1theirs v0.2.0 (https://example.com/x#0123)
";

#[test]
fn crates_have_their_versions_and_edges() {
    let document = cyclonedx(&parse(TREE).unwrap());
    assert_eq!(
        document["metadata"]["component"],
        json!({ "type": "application", "bom-ref": "mine@0.1.0", "name": "mine", "version": "0.1.0" })
    );
    assert_eq!(
        document["components"][1]["purl"],
        "pkg:cargo/zstd-sys@2.0.16%2Bzstd.1.5.7"
    );
    assert_eq!(document["components"][2].get("purl"), None);
    assert_eq!(
        document["dependencies"][0],
        json!({ "ref": "mine@0.1.0", "dependsOn": ["pkg:cargo/serde@1.0.228", "theirs@0.2.0"] })
    );
}

#[test]
fn an_edge_to_nowhere_is_left_out() {
    let text = r#"{"packages":[{"name":"a","version":"1.0.0","source":"local","dependencies":[9],"root":true}]}"#;
    let crates: VersionInfo = text.parse().unwrap();
    let document = cyclonedx(&crates);
    assert_eq!(document["dependencies"][0]["dependsOn"], json!([]));
}
