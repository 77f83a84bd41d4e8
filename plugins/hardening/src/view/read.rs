//! Reads JSON into the types of the view.
//!
//! The types say where the value of each field goes, and one reader puts it there. Code that serde derives for each type would
//! make the plugin a quarter larger.

use std::borrow::Cow;
use std::fmt;

use super::security_context::Capabilities;
use super::volume::{Projected, Projection};
use super::{
    Address, Container, Containers, Handler, Keys, Lifecycle, Metadata, Mount, Named, NodeSelector,
    Options, Port, Resources, SecurityContext, Spec, View, Volume,
};
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

/// Where a value goes; its kind says what the value must be. `null` leaves everything as it is.
pub(crate) enum Target<'t, 'p> {
    /// A boolean.
    Flag(&'t mut Option<bool>),
    /// An integer.
    Integer(&'t mut Option<i64>),
    /// A string.
    Text(&'t mut Option<Cow<'p, str>>),
    /// Anything: only whether it is there counts.
    Presence(&'t mut bool),
    /// An object.
    Object(Object<'t, 'p>),
    /// A list.
    List(List<'t, 'p>),
    /// Nowhere.
    Nothing,
}

/// An object of which some fields are of interest.
pub(crate) trait Fields<'p> {
    /// Returns where the value of a field goes.
    fn field(&mut self, key: Cow<'p, str>) -> Target<'_, 'p>;
}

/// Any object. A `dyn Fields` would do, but each sandbox looks up a function that is called by pointer when it first is.
pub(crate) enum Object<'t, 'p> {
    View(&'t mut View<'p>),
    Metadata(&'t mut Metadata<'p>),
    Keys(&'t mut Keys<'p>),
    Spec(&'t mut Spec<'p>),
    Named(&'t mut Named<'p>),
    NodeSelector(&'t mut NodeSelector<'p>),
    Container(&'t mut Container<'p>),
    SecurityContext(&'t mut SecurityContext<'p>),
    Options(&'t mut Options<'p>),
    Capabilities(&'t mut Capabilities<'p>),
    Resources(&'t mut Resources),
    Port(&'t mut Port),
    Mount(&'t mut Mount<'p>),
    Handler(&'t mut Handler<'p>),
    Address(&'t mut Address<'p>),
    Lifecycle(&'t mut Lifecycle<'p>),
    Volume(&'t mut Volume<'p>),
    Projected(&'t mut Projected),
    Projection(&'t mut Projection),
}

impl<'p> Object<'_, 'p> {
    fn found(&mut self) {
        match self {
            Self::SecurityContext(object) => object.present = true,
            Self::Options(object) => object.present = true,
            Self::Capabilities(object) => object.present = true,
            Self::Projected(object) => object.present = true,
            _ => {}
        }
    }

    fn field(&mut self, key: Cow<'p, str>) -> Target<'_, 'p> {
        match self {
            Self::View(object) => object.field(key),
            Self::Metadata(object) => object.field(key),
            Self::Keys(object) => object.field(key),
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
pub(crate) enum List<'t, 'p> {
    Containers(&'t mut Containers<'p>),
    Volumes(&'t mut Vec<Volume<'p>>),
    Ports(&'t mut Vec<Port>),
    Mounts(&'t mut Vec<Mount<'p>>),
    Projections(&'t mut Vec<Projection>),
    Sysctls(&'t mut Vec<Named<'p>>),
    Texts(&'t mut Vec<Option<Cow<'p, str>>>),
}

impl<'p> List<'_, 'p> {
    fn element(&mut self) -> Target<'_, 'p> {
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

impl<'p> DeserializeSeed<'p> for Target<'_, 'p> {
    type Value = ();

    fn deserialize<D: Deserializer<'p>>(self, deserializer: D) -> Result<(), D::Error> {
        match self {
            Target::Flag(flag) => *flag = Option::deserialize(deserializer)?,
            Target::Integer(integer) => *integer = Option::deserialize(deserializer)?,
            Target::Presence(present) => {
                *present = Option::<IgnoredAny>::deserialize(deserializer)?.is_some()
            }
            Target::Text(_) | Target::Object(_) | Target::List(_) => {
                deserializer.deserialize_option(Present(self))?
            }
            Target::Nothing => drop(IgnoredAny::deserialize(deserializer)?),
        }
        Ok(())
    }
}

/// Reads a string, an object or a list, unless it is `null`.
struct Present<'t, 'p>(Target<'t, 'p>);

impl<'p> Visitor<'p> for Present<'_, 'p> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Target::Text(_) => "a string",
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

    fn visit_some<D: Deserializer<'p>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.0 {
            Target::Text(_) => deserializer.deserialize_str(self),
            Target::List(_) => deserializer.deserialize_seq(self),
            _ => deserializer.deserialize_map(self),
        }
    }

    fn visit_borrowed_str<E>(self, text: &'p str) -> Result<(), E> {
        if let Target::Text(target) = self.0 {
            *target = Some(Cow::Borrowed(text));
        }
        Ok(())
    }

    /// The text has escapes, so it is not in the view as it is.
    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        if let Target::Text(target) = self.0 {
            *target = Some(Cow::Owned(text.to_owned()));
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'p>>(self, mut map: A) -> Result<(), A::Error> {
        if let Target::Object(mut object) = self.0 {
            object.found();
            while let Some(target) = map.next_key_seed(Key(&mut object))? {
                map.next_value_seed(target)?;
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'p>>(self, mut elements: A) -> Result<(), A::Error> {
        if let Target::List(mut list) = self.0 {
            while elements.next_element_seed(Element(&mut list))?.is_some() {}
        }
        Ok(())
    }
}

/// The key of an object's field.
struct Key<'t, 'o, 'p>(&'t mut Object<'o, 'p>);

impl<'t, 'p> DeserializeSeed<'p> for Key<'t, '_, 'p> {
    type Value = Target<'t, 'p>;

    fn deserialize<D: Deserializer<'p>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'t, 'p> Visitor<'p> for Key<'t, '_, 'p> {
    type Value = Target<'t, 'p>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field")
    }

    fn visit_borrowed_str<E>(self, key: &'p str) -> Result<Self::Value, E> {
        Ok(self.0.field(Cow::Borrowed(key)))
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.0.field(Cow::Owned(key.to_owned())))
    }
}

/// An element of a list.
struct Element<'t, 'l, 'p>(&'t mut List<'l, 'p>);

impl<'p> DeserializeSeed<'p> for Element<'_, '_, 'p> {
    type Value = ();

    fn deserialize<D: Deserializer<'p>>(self, deserializer: D) -> Result<(), D::Error> {
        self.0.element().deserialize(deserializer)
    }
}
