//! Quantities in JSON and YAML: a string, or a number.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

use super::Quantity;

/// By this name of a newtype a reader knows that it should give a number as it is written, with `visit_bytes`: read as a
/// floating-point number it would not be exact. The SDK's reader does; others read the number as one of their own.
#[doc(hidden)]
pub const NUMBER_AS_WRITTEN: &str = "$podloom::json::Value";

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(NUMBER_AS_WRITTEN, QuantityVisitor)
    }
}

struct QuantityVisitor;

impl<'de> Visitor<'de> for QuantityVisitor {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity, as in 500m, 1.5 or 2Gi")
    }

    /// Nothing is 0, as in Kubernetes.
    fn visit_unit<E>(self) -> Result<Quantity, E> {
        Ok(Quantity::default())
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
        let quantity = text.trim_ascii().parse();
        quantity.map_err(|error| E::custom(format_args!("{text} {error}")))
    }

    fn visit_bytes<E: de::Error>(self, digits: &[u8]) -> Result<Quantity, E> {
        self.visit_str(str::from_utf8(digits).unwrap_or_default())
    }

    /// Another reader than the SDK's.
    #[cfg(not(target_family = "wasm"))]
    fn visit_newtype_struct<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<Quantity, D::Error> {
        deserializer.deserialize_any(self)
    }

    #[cfg(not(target_family = "wasm"))]
    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Quantity, E> {
        Ok(number.into())
    }

    #[cfg(not(target_family = "wasm"))]
    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Quantity, E> {
        self.visit_str(&number.to_string())
    }

    #[cfg(not(target_family = "wasm"))]
    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Quantity, E> {
        self.visit_str(&number.to_string())
    }
}

/// As a string, in canonical form.
impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_string())
    }
}

#[cfg(feature = "schemars")]
impl schemars::JsonSchema for Quantity {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Quantity".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": ["string", "number"] })
    }
}
