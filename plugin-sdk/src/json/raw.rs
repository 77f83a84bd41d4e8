//! JSON that passes through a plugin as it was written.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};

/// By this name of a newtype the reader knows that the text itself is asked for.
pub(super) const NAME: &str = "$podloom::json::Raw";

/// The text of a JSON value, whatever it is.
///
/// For parts of a configuration or a pod that a plugin passes on without reading: fields that it does not know survive, and the
/// text is neither taken apart nor put together.
///
/// ```
/// use podloom_plugin_sdk::json::{self, Raw};
///
/// let volumes: Vec<Raw> = json::from_str(r#"[{"name": "tmp", "emptyDir": {}}]"#)?;
/// assert_eq!(volumes[0].text(), r#"{"name": "tmp", "emptyDir": {}}"#);
/// # Ok::<(), podloom_plugin_sdk::json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raw {
    text: Box<str>,
}

impl Raw {
    /// Returns the text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the text, owned.
    #[must_use]
    pub fn into_text(self) -> Box<str> {
        self.text
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl<'de> Visitor<'de> for Text {
            type Value = Raw;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("JSON")
            }

            /// Our own reader gives the text.
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Raw, E> {
                Ok(Raw { text: text.into() })
            }

            /// Another one, in tests, gives the value.
            #[cfg(not(target_family = "wasm"))]
            fn visit_newtype_struct<D: Deserializer<'de>>(
                self,
                deserializer: D,
            ) -> Result<Raw, D::Error> {
                let value = serde_json::Value::deserialize(deserializer)?;
                Ok(Raw {
                    text: value.to_string().into(),
                })
            }
        }

        deserializer.deserialize_newtype_struct(NAME, Text)
    }
}
