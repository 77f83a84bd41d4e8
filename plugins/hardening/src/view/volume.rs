//! Volumes.

use std::borrow::Cow;

use super::read::{Fields, List, Object, Target};

/// A volume.
#[derive(Default)]
pub(crate) struct Volume<'p> {
    pub(crate) name: Option<Cow<'p, str>>,
    pub(crate) projected: Projected,
    /// Its other sources; one alone in a valid pod. A volume without any becomes an emptyDir.
    pub(crate) sources: Vec<Source<'p>>,
}

/// A kind of volume, named by its field.
pub(crate) struct Source<'p> {
    pub(crate) field: Cow<'p, str>,
    pub(crate) present: bool,
}

impl<'p> Fields<'p> for Volume<'p> {
    fn field(&mut self, key: Cow<'p, str>) -> Target<'_, 'p> {
        match &*key {
            "name" => Target::Text(&mut self.name),
            "projected" => Target::Object(Object::Projected(&mut self.projected)),
            _ => {
                let source = Source {
                    field: key,
                    present: false,
                };
                self.sources.push(source);
                match self.sources.last_mut() {
                    Some(source) => Target::Presence(&mut source.present),
                    None => Target::Nothing,
                }
            }
        }
    }
}

#[derive(Default)]
pub(crate) struct Projected {
    pub(crate) present: bool,
    pub(crate) sources: Vec<Projection>,
}

impl<'p> Fields<'p> for Projected {
    fn field(&mut self, key: Cow<'p, str>) -> Target<'_, 'p> {
        match &*key {
            "sources" => Target::List(List::Projections(&mut self.sources)),
            _ => Target::Nothing,
        }
    }
}

#[derive(Default)]
pub(crate) struct Projection {
    pub(crate) service_account_token: bool,
}

impl<'p> Fields<'p> for Projection {
    fn field(&mut self, key: Cow<'p, str>) -> Target<'_, 'p> {
        match &*key {
            "serviceAccountToken" => Target::Presence(&mut self.service_account_token),
            _ => Target::Nothing,
        }
    }
}
