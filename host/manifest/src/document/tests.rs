use serde_json::json;

use super::{expand, name, steps};

#[test]
fn a_star_is_every_element() {
    let value = json!({"a/b": [{"t": {}}, {"t": null}, {"u": 1}, {"t": {"c": 1}}]});
    let found = |pointer: &str| -> Vec<String> {
        let paths = expand(&value, pointer);
        paths.iter().map(|path| name(path)).collect()
    };
    assert_eq!(found("/a~1b/*/t"), [r#"["a/b"][0].t"#, r#"["a/b"][3].t"#]);
    assert_eq!(found("/a~1b/3/t"), [r#"["a/b"][3].t"#]);
    assert_eq!(found("/a~1b/t"), [""; 0]);
    assert_eq!(found("/x/*/t"), [""; 0]);
}

#[test]
fn a_pointer_leads_to_one_value() {
    let value = json!({"a/b": [{"0": null}]});
    let found = |pointer: &str| name(&steps(&value, pointer));
    assert_eq!(found(""), "");
    assert_eq!(found("/a~1b/0/0"), r#"["a/b"][0].0"#);
    assert_eq!(found("/*/x"), r#"["*"].x"#);
}
