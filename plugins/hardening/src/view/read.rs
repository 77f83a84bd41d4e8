//! Reads JSON into the types of the view.
//!
//! The types say where the value of each field goes, and one reader puts it there. Code that serde derives for each type would
//! make the plugin a quarter larger.

use std::fmt;

use super::security_context::Capabilities;
use super::{
    Address, Container, Containers, Handler, Lifecycle, Mount, Named, NodeSelector, Options, Port,
    Projected, Projection, Resources, SecurityContext, Spec, Volume,
};
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
    Object(Object<'t>),
    /// A list.
    List(List<'t>),
    /// Nowhere.
    Nothing,
}

/// An object of which some fields are of interest.
pub(crate) trait Fields {
    /// Returns where the value of a field goes.
    fn field(&mut self, key: &str) -> Target<'_>;
}

/// Any object. A `dyn Fields` would do, but each sandbox looks up a function that is called by pointer when it first is.
pub(crate) enum Object<'t> {
    Spec(&'t mut Spec),
    Named(&'t mut Named),
    NodeSelector(&'t mut NodeSelector),
    Container(&'t mut Container),
    SecurityContext(&'t mut SecurityContext),
    Options(&'t mut Options),
    Capabilities(&'t mut Capabilities),
    Resources(&'t mut Resources),
    Port(&'t mut Port),
    Mount(&'t mut Mount),
    Handler(&'t mut Handler),
    Address(&'t mut Address),
    Lifecycle(&'t mut Lifecycle),
    Volume(&'t mut Volume),
    Projected(&'t mut Projected),
    Projection(&'t mut Projection),
}

impl Object<'_> {
    fn found(&mut self) {
        match self {
            Self::SecurityContext(object) => object.present = true,
            Self::Options(object) => object.present = true,
            Self::Capabilities(object) => object.present = true,
            Self::Projected(object) => object.present = true,
            _ => {}
        }
    }

    fn field(&mut self, key: &str) -> Target<'_> {
        match self {
            Self::Spec(object) => object.field(key),
            Self::Named(object) => object.field(key),
            Self::NodeSelector(object) => object.field(key),
            Self::Container(object) => object.field(key),
            Self::SecurityContext(object) => object.field(key),
            Self::Options(object) => object.field(key),
            Self::Capabilities(object) => object.field(key),
            Self::Resources(object) => object.field(key),
            Self::Port(object) => object.field(key),
            Self::Mount(object) => object.field(key),
            Self::Handler(object) => object.field(key),
            Self::Address(object) => object.field(key),
            Self::Lifecycle(object) => object.field(key),
            Self::Volume(object) => object.field(key),
            Self::Projected(object) => object.field(key),
            Self::Projection(object) => object.field(key),
        }
    }
}

/// Any list.
pub(crate) enum List<'t> {
    Containers(&'t mut Containers),
    Volumes(&'t mut Vec<Volume>),
    Ports(&'t mut Vec<Port>),
    Mounts(&'t mut Vec<Mount>),
    Projections(&'t mut Vec<Projection>),
    Sysctls(&'t mut Vec<Named>),
    Texts(&'t mut Vec<Option<String>>),
}

impl List<'_> {
    fn element(&mut self) -> Target<'_> {
        match self {
            Self::Containers(list) => Target::Object(Object::Container(list.add())),
            Self::Volumes(list) => Target::Object(Object::Volume(add(list))),
            Self::Ports(list) => Target::Object(Object::Port(add(list))),
            Self::Mounts(list) => Target::Object(Object::Mount(add(list))),
            Self::Projections(list) => Target::Object(Object::Projection(add(list))),
            Self::Sysctls(list) => Target::Object(Object::Named(add(list))),
            Self::Texts(list) => Target::Text(add(list)),
        }
    }
}

fn add<T: Default>(list: &mut Vec<T>) -> &mut T {
    list.push_mut(T::default())
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
        if let Target::Object(mut object) = self.0 {
            object.found();
            while let Some(target) = map.next_key_seed(Key(&mut object))? {
                map.next_value_seed(target)?;
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        if let Target::List(mut list) = self.0 {
            while elements.next_element_seed(Element(&mut list))?.is_some() {}
        }
        Ok(())
    }
}

/// The key of an object's field.
struct Key<'t, 'o>(&'t mut Object<'o>);

impl<'de, 't> DeserializeSeed<'de> for Key<'t, '_> {
    type Value = Target<'t>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Target<'t>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'t> Visitor<'_> for Key<'t, '_> {
    type Value = Target<'t>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field")
    }

    fn visit_str<E>(self, key: &str) -> Result<Target<'t>, E> {
        Ok(self.0.field(key))
    }
}

/// An element of a list.
struct Element<'t, 'l>(&'t mut List<'l>);

impl<'de> DeserializeSeed<'de> for Element<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.0.element().deserialize(deserializer)
    }
}
