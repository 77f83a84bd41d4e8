//! Reads JSON into the types of the view.
//!
//! The types say where the value of each field goes, and one reader puts it there. Code that serde derives for each type would
//! make the plugin a quarter larger.

use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

/// Where a value goes; its kind says what the value must be. `null` leaves everything as it is.
pub(crate) enum Target<'t> {
    /// A boolean.
    Flag(&'t mut Option<bool>),
    /// An integer.
    Integer(&'t mut Option<i64>),
    /// A string.
    Text(&'t mut Option<String>),
    /// Anything: only whether it is there counts.
    Presence(&'t mut bool),
    /// An object.
    Object(&'t mut dyn Fields),
    /// A list.
    List(&'t mut dyn Elements),
    /// Nowhere.
    Nothing,
}

/// An object of which some fields are of interest.
pub(crate) trait Fields {
    /// Hears that the object is there.
    fn found(&mut self) {}

    /// Returns where the value of a field goes.
    fn field(&mut self, key: &str) -> Target<'_>;
}

/// A list.
pub(crate) trait Elements {
    /// Adds an element, and returns where its value goes.
    fn element(&mut self) -> Target<'_>;
}

impl<F: Fields + Default> Elements for Vec<F> {
    fn element(&mut self) -> Target<'_> {
        self.push(F::default());
        self.last_mut()
            .map_or(Target::Nothing, |element| Target::Object(element))
    }
}

impl Elements for Vec<Option<String>> {
    fn element(&mut self) -> Target<'_> {
        self.push(None);
        self.last_mut().map_or(Target::Nothing, Target::Text)
    }
}

impl<'de> DeserializeSeed<'de> for Target<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self {
            Target::Flag(flag) => *flag = Option::deserialize(deserializer)?,
            Target::Integer(integer) => *integer = Option::deserialize(deserializer)?,
            Target::Text(text) => *text = Option::deserialize(deserializer)?,
            Target::Presence(present) => {
                *present = Option::<IgnoredAny>::deserialize(deserializer)?.is_some()
            }
            Target::Object(_) | Target::List(_) => {
                deserializer.deserialize_option(Compound(self))?
            }
            Target::Nothing => drop(IgnoredAny::deserialize(deserializer)?),
        }
        Ok(())
    }
}

/// Reads an object or a list.
struct Compound<'t>(Target<'t>);

impl<'de> Visitor<'de> for Compound<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Target::List(_) => "a list",
            _ => "an object",
        })
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.0 {
            Target::List(_) => deserializer.deserialize_seq(self),
            _ => deserializer.deserialize_map(self),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        if let Target::Object(object) = self.0 {
            object.found();
            while let Some(target) = map.next_key_seed(Key(object))? {
                map.next_value_seed(target)?;
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        if let Target::List(list) = self.0 {
            while elements.next_element_seed(Element(list))?.is_some() {}
        }
        Ok(())
    }
}

/// The key of an object's field.
struct Key<'t>(&'t mut dyn Fields);

impl<'de, 't> DeserializeSeed<'de> for Key<'t> {
    type Value = Target<'t>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Target<'t>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'t> Visitor<'_> for Key<'t> {
    type Value = Target<'t>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field")
    }

    fn visit_str<E>(self, key: &str) -> Result<Target<'t>, E> {
        Ok(self.0.field(key))
    }
}

/// An element of a list.
struct Element<'t>(&'t mut dyn Elements);

impl<'de> DeserializeSeed<'de> for Element<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.0.element().deserialize(deserializer)
    }
}
