//! The help text of every command, as snapshots.

use super::podloom;

#[test]
fn help_of_every_command() {
    for (name, command) in [
        ("podloom", &[][..]),
        ("run", &["run"]),
        ("render", &["render"]),
        ("blame", &["blame"]),
        ("plugin", &["plugin"]),
        ("plugin_new", &["plugin", "new"]),
        ("plugin_build", &["plugin", "build"]),
        ("plugin_inspect", &["plugin", "inspect"]),
        ("plugin_test", &["plugin", "test"]),
        ("plugin_pack", &["plugin", "pack"]),
        ("chain", &["chain"]),
        ("chain_check", &["chain", "check"]),
        ("chain_diff", &["chain", "diff"]),
        ("chain_tighten", &["chain", "tighten"]),
        ("chain_export", &["chain", "export"]),
        ("chain_verify", &["chain", "verify"]),
        ("chain_schema", &["chain", "schema"]),
        ("corpus", &["corpus"]),
        ("corpus_record", &["corpus", "record"]),
        ("admission", &["admission"]),
        ("admission_diff", &["admission", "diff"]),
        ("admission_record", &["admission", "record"]),
        ("drift", &["drift"]),
        ("infra", &["infra"]),
        ("infra_check", &["infra", "check"]),
        ("cleaner", &["cleaner"]),
        ("cleaner_check", &["cleaner", "check"]),
        ("bundle", &["bundle"]),
        ("sbom", &["sbom"]),
        ("crds", &["crds"]),
        ("rbac", &["rbac"]),
        ("completion", &["completion"]),
    ] {
        let ran = podloom(&[command, &["--help"]].concat());
        assert_eq!(ran.code, 0);
        insta::assert_snapshot!(name, ran.stdout);
    }
}
