#![expect(dead_code, reason = "only the schema of these types matters")]

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Exported, configure, schema_of};
use crate::{Mutator, Needs, NoConfig, Pod, Rejection, Request};

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    name: String,
    #[serde(flatten)]
    source: Source,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
enum Source {
    File(String),
    Secret(String),
}

#[test]
fn a_flattened_enum_leaves_no_keyword_that_the_host_refuses() {
    let schema = schema_of::<Config>();
    assert!(!schema.as_value().to_string().contains("unevaluated"));
    assert_eq!(schema.get("additionalProperties"), Some(&json!(false)));
    let names = schema.get("properties").and_then(|names| names.as_object());
    let names: Vec<&String> = names.expect("an object").keys().collect();
    assert_eq!(names, ["file", "name", "secret"]);
}

/// A plugin that checks nothing itself.
macro_rules! plugin {
    ($plugin:ident, $config:ty) => {
        struct $plugin;

        impl Mutator for $plugin {
            type Config = $config;
            const NAME: &str = "trusting";
            const VERSION: &str = "0.1.0";
            const SUMMARY: &str = "Checks nothing itself";

            fn needs(_: &$config) -> Needs {
                Needs::default()
            }

            fn mutate(_: &$config, _: &Request, _: &Pod) -> Result<(), Rejection> {
                Ok(())
            }
        }
    };
}

#[derive(Deserialize, JsonSchema)]
struct Small {
    #[schemars(range(min = 1, max = 9))]
    size: u8,
}

#[derive(Deserialize, JsonSchema)]
struct Large {
    #[schemars(range(min = 10))]
    size: u8,
}

/// A type that says nothing about its schema.
#[derive(Deserialize)]
struct Silent {
    size: u8,
}

plugin!(OfSmall, Small);
plugin!(OfLarge, Large);
plugin!(OfSilent, Silent);
plugin!(Undeclared, Large);
plugin!(OfNothing, NoConfig);

// As `mutator!(..., schema = "...")` does it; `mutator!` itself would also add the test of the file.
crate::__mutator!(OfSmall, "");
crate::__mutator!(OfLarge, "");
crate::mutator!(OfSilent);
crate::mutator!(Undeclared);
crate::mutator!(OfNothing);

#[track_caller]
fn check_configuration<M: Exported>(config: &Value, expected: &[&str]) {
    let errors = configure::<M>(config).err().unwrap_or_default();
    assert_eq!(errors, expected, "{config}");
}

#[test]
fn a_configuration_is_checked_against_the_schema_of_its_type() {
    let small = json!({ "size": 5 });
    check_configuration::<OfSmall>(&small, &[]);
    check_configuration::<OfSmall>(&small, &[]);
    // That one type accepts it does not matter to another one.
    let too_small = "config/size: value is less than the minimum of 10, found 5";
    check_configuration::<OfLarge>(&small, &[too_small]);
    check_configuration::<OfLarge>(&small, &[too_small]);
    check_configuration::<OfSmall>(&json!({}), &["config: the field size is missing"]);
}

#[test]
fn a_plugin_that_declares_no_schema_is_not_checked_against_one() {
    let small = json!({ "size": 5 });
    check_configuration::<OfSilent>(&small, &[]);
    check_configuration::<Undeclared>(&small, &[]);
    // Nor does that accept it for the plugin that declares one.
    check_configuration::<OfLarge>(
        &small,
        &["config/size: value is less than the minimum of 10, found 5"],
    );
    let errors = configure::<OfSilent>(&json!({})).err().unwrap_or_default();
    assert!(
        errors.len() == 1 && errors[0].contains("size is missing"),
        "{errors:?}"
    );
}

#[test]
fn no_config_takes_no_field() {
    check_configuration::<OfNothing>(&json!({}), &[]);
    let errors = configure::<OfNothing>(&json!({ "size": 5 })).expect_err("it takes none");
    assert!(
        errors.len() == 1 && errors[0].starts_with("unknown field size"),
        "{errors:?}"
    );
}
