mod changes;
mod laws;
mod machines;
mod name;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Comparison, Problem, TEMPLATE_BYTES_MAX, canonical, check, compare, size_of, to_send};

fn pool(workers: u32) -> Value {
    json!({
        "node_types": {
            "example.Pool": { "derived_from": "example.Machine" },
            "example.Machine": { "derived_from": "tosca.nodes.indigo.Compute" },
            "example.Loop": { "derived_from": "example.Loop" },
        },
        "topology_template": {
            "inputs": { "size": { "type": "integer", "default": 1 } },
            "node_templates": {
                "front": {
                    "type": "tosca.nodes.Compute",
                    "capabilities": { "host": { "properties": { "num_cpus": 2 } } },
                },
                "workers": {
                    "type": "example.Pool",
                    "capabilities": { "scalable": { "properties": {
                        "count": workers,
                        "removal_list": ["1"],
                    } } },
                },
                "software": { "type": "tosca.nodes.SoftwareComponent" },
            },
            "outputs": {
                "kubeconfig": { "value": "x" },
                "other": { "value": "y" },
            },
        },
    })
}

fn with(pointer: &str, value: Option<Value>) -> Value {
    let mut template = pool(1);
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = template
        .pointer_mut(parent)
        .unwrap()
        .as_object_mut()
        .unwrap();
    match value {
        Some(value) => parent.insert(key.to_owned(), value),
        None => parent.remove(key),
    };
    template
}

#[test]
fn null_members_are_left_out_and_null_items_stay() {
    let template = json!({ "a": null, "b": { "c": null, "d": [null, { "e": null }] } });
    assert_eq!(canonical(&template), json!({ "b": { "d": [null, {}] } }));
}

/// As deep as a parser of JSON goes, and much deeper than IM does.
#[test]
fn deep_templates_are_refused_and_nothing_ends_the_stack() {
    let deep = |levels: usize| -> Value {
        let text = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        json!({ "a": serde_json::from_str::<Value>(&text).unwrap() })
    };
    assert_eq!(check(&deep(63), false), Ok(()));
    let problems = check(&deep(64), true).unwrap_err();
    assert_eq!(problems.len(), 1);
    assert!(problems[0].message.contains("64 levels"), "{}", problems[0]);
    assert_eq!(canonical(&deep(126)), deep(126));
    assert_eq!(
        compare(&deep(126), &deep(126), &BTreeSet::new()),
        Comparison::Same
    );
    // Nobody parses this.
    let mut tower = json!(1);
    for _ in 0..1_000 {
        tower = json!([tower]);
    }
    let other = json!([tower.clone(), 1]);
    assert!(check(&tower, false).is_err());
    assert!(matches!(
        compare(&tower, &tower, &BTreeSet::new()),
        Comparison::Unsupported(_)
    ));
    assert!(matches!(
        compare(&tower, &other, &BTreeSet::new()),
        Comparison::Update { .. } | Comparison::Unsupported(_)
    ));
}

#[test]
fn the_name_is_written_into_a_copy() {
    let named =
        |template: &Value| -> Value { serde_json::from_str(&to_send(template, "n")).unwrap() };
    assert_eq!(named(&json!({}))["metadata"], json!({ "infra_name": "n" }));
    let given = json!({ "metadata": { "infra_name": "mine", "a": 1 } });
    assert_eq!(
        named(&given)["metadata"],
        json!({ "infra_name": "n", "a": 1 })
    );
    assert_eq!(
        named(&json!({ "metadata": 7 }))["metadata"]["infra_name"],
        "n"
    );
}

#[test]
fn files_are_refused_wherever_the_im_would_open_them() {
    let bad = [
        json!({ "a": { "b": ["file:///etc/passwd"] } }),
        json!({ "a": " FILE:x" }),
        json!({ "a": "\u{1}file:x" }),
        json!({ "a": "fi\tle\n:x" }),
        json!({ "imports": ["/etc/im/im.cfg"] }),
        json!({ "imports": [{ "types": { "file": "../x.yaml" } }] }),
        json!({ "interfaces": { "Standard": { "configure": { "implementation": "/x.yml" } } } }),
        json!({ "configure": { "implementation": { "primary": "a/../../b.yml" } } }),
        json!({ "imports": ["a\\..\\b"] }),
        json!({ "interfaces": { "Standard": { "configure": "/x.yml" } } }),
        json!({ "interfaces": { "Standard": { "configure": { "implementation": { "get_input": "x" } } } } }),
        json!({ "artifacts": { "script": { "file": { "concat": [".", "./x"] } } } }),
        json!({ "repositories": { "mine": "/etc" } }),
        json!({ "repositories": { "mine": { "url": "/etc" } } }),
        json!({ "artifacts": { "script": "/x.sh" } }),
        json!({ "artifacts": { "script": { "file": "/x.sh", "type": "y" } } }),
    ];
    for template in bad {
        let problems = check(&template, false).unwrap_err();
        assert_eq!(problems.len(), 1, "{template}");
        assert!(problems[0].to_string().contains("allowFileReferences"));
        assert_eq!(check(&template, true), Ok(()));
    }
    let good = json!({
        "imports": ["https://example.com/types.yaml"],
        "implementation": "https://example.com/play.yml",
        "artifacts": { "script": { "file": "https://example.com/x.sh" } },
        "path": "/etc/kubernetes/admin.conf",
        "profile": "filed",
        "node_templates": { "front": {
            "artifacts": { "image": { "file": "x.img", "deploy_path": "/opt/x", "properties": { "a": "/b" } } },
            "interfaces": { "Standard": {
                "type": "tosca.interfaces.node.lifecycle.Standard",
                "inputs": { "directory": "/var/lib" },
                "configure": { "implementation": "x.yml", "inputs": { "directory": "/var/lib", "x": { "get_input": "x" } } },
            } },
        } },
    });
    assert_eq!(check(&good, false), Ok(()));
}

/// YAML reads numbers with exponents, ends of lines, and characters that are not printed, in other ways than JSON.
#[test]
fn what_is_sent_is_yaml_too() {
    let value = json!([
        1e20,
        1.5e-9,
        -2.5e30,
        1.0,
        7,
        "a\u{7f}\u{85}\u{2028}ü\u{fffe}\n\"",
        "😀"
    ]);
    let text = r#"[1.0e+20,1.5e-9,-2.5e+30,1.0,7,"a\u007f\u0085\u2028\u00fc\ufffe\n\"","😀"]"#;
    assert_eq!(super::of(&value), text);
}

#[test]
fn metadata_must_be_an_object() {
    let problems = check(&json!({ "metadata": [] }), true).unwrap_err();
    assert_eq!(problems[0].to_string(), "metadata: it must be an object");
}

#[test]
fn the_size_is_that_of_the_json() {
    assert_eq!(size_of(&json!({ "a": "ü" })), 10);
    assert_eq!(TEMPLATE_BYTES_MAX, 262_144);
}

/// IM would replace it by the token of the account, which the template could then send anywhere.
#[test]
fn the_token_of_the_account_is_never_asked_for() {
    for text in ["access_token()", " access_token( ) "] {
        let input = json!({ "type": "string", "default": text });
        let template = with("/topology_template/inputs/size", Some(input));
        let problems = check(&template, true).unwrap_err();
        let expected = "topology_template.inputs.size.default: ";
        assert!(problems[0].to_string().starts_with(expected));
        assert!(problems[0].message.contains("token"));
    }
}

/// A small template can have many problems, each with a path that is as long as the template.
#[test]
fn only_some_problems_are_named() {
    let mut deep = json!(vec!["/"; 20_000]);
    for _ in 0..60 {
        deep = json!({ "k".repeat(64): deep });
    }
    let problems = check(&json!({ "imports": deep }), false).unwrap_err();
    assert_eq!(problems.len(), 12);
    let shorter = json!({ "imports": [] });
    let longer = json!({ "a": vec![json!([1, 2]); 50], "imports": [] });
    let longer_now = json!({ "a": vec![json!([1]); 50], "imports": [] });
    let Comparison::Unsupported(paths) = compare(&longer, &longer_now, &BTreeSet::new()) else {
        panic!("a list cannot become shorter");
    };
    assert_eq!(paths.len(), 12);
    assert_eq!(
        compare(&shorter, &shorter, &BTreeSet::new()),
        Comparison::Same
    );
}
