use serde_json::json;

use super::{expand, name};

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
