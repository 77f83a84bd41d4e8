//! The handle on the pod.

mod containers;
mod views;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{Error, backend, json, path};
pub use containers::ContainerKind;
pub use views::{Container, EnvVar, Map, Node};

/// A handle on the pod that is being mutated: not a copy, each access goes to the host, which checks it against the plugin's
/// grants and records every write.
///
/// Paths are JSON Pointers; on a list a segment is an index, `-` (past the end, [`set`](Self::set) only) or `[key=value]`,
/// which names the element whose field has that value: `/spec/containers/[name=app]/image`. The typed views
/// ([`labels`](Self::labels), [`container`](Self::container), ...) build them.
///
/// A rendered pod is not yet defaulted: absent does not mean "default".
/// Fields that this SDK does not know, of newer Kubernetes versions, stay as they are.
#[derive(Debug)]
pub struct Pod {
    pub(crate) handle: backend::Handle,
}

impl Pod {
    /// Returns the JSON text at a path, `None` if nothing is there.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidPath`] or [`Error::Forbidden`].
    pub fn get_json(&self, path: &str) -> Result<Option<String>, Error> {
        self.handle.get(path)
    }

    /// Returns what is at a path, `None` if nothing (or `null`) is there.
    ///
    /// To read several fields at once, see [`view`](Self::view).
    ///
    /// # Errors
    ///
    /// [`Error::Decode`] if it does not fit the type, [`Error::InvalidPath`] or [`Error::Forbidden`].
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, Error> {
        decode(path, self.get_json(path)?)
    }

    /// Returns the JSON text at a path with only the parts of it that `fields` name, `None` if nothing is there.
    ///
    /// One call for all that a plugin looks at: much cheaper than one call for each, or than the whole.
    /// Each field is a path below `path`; on a list its segment is `*`, every element. Objects on the way keep just what leads
    /// to a field, lists keep all their elements in order. What is not there is left out.
    ///
    /// ```
    /// # use podloom_plugin_sdk::prelude::*;
    /// # fn names(pod: &Pod) -> Result<(), Error> {
    /// let text = pod.view_json("/spec", &["/hostNetwork", "/containers/*/name", "/containers/*/ports/*/hostPort"])?;
    /// // {"containers":[{"name":"app","ports":[{},{"hostPort":80}]},{"name":"proxy"}]}
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InvalidPath`] or [`Error::Forbidden`].
    pub fn view_json(&self, path: &str, fields: &[&str]) -> Result<Option<String>, Error> {
        self.handle.view(path, fields)
    }

    /// Returns the parts of what is at a path that `fields` name, as [`view_json`](Self::view_json) does, read into a type.
    ///
    /// # Errors
    ///
    /// [`Error::Decode`] if it does not fit the type, [`Error::InvalidPath`] or [`Error::Forbidden`].
    pub fn view<T: DeserializeOwned>(
        &self,
        path: &str,
        fields: &[&str],
    ) -> Result<Option<T>, Error> {
        decode(path, self.view_json(path, fields)?)
    }

    /// Returns the keys of an object, or `0`, `1`, ... of a list; empty if nothing is there.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidPath`] on a scalar, or [`Error::Forbidden`].
    pub fn keys(&self, path: &str) -> Result<Vec<String>, Error> {
        self.handle.keys(path)
    }

    /// Writes JSON text at a path, creating missing parents that are objects or lists in a Pod's schema, never list elements.
    ///
    /// A selector in the last segment that matches nothing appends the value, an object whose key field is filled in.
    /// Writing what is already there is no write.
    ///
    /// # Errors
    ///
    /// Any [`Error`] but `Decode`.
    pub fn set_json(&self, path: &str, value: &str) -> Result<(), Error> {
        self.handle.set(path, value)
    }

    /// Writes a value at a path, as [`set_json`](Self::set_json) does.
    ///
    /// # Errors
    ///
    /// Any [`Error`]; [`Error::InvalidValue`] also if the value cannot be JSON.
    pub fn set<T: Serialize + ?Sized>(&self, path: &str, value: &T) -> Result<(), Error> {
        self.set_json(path, &encode(path, value)?)
    }

    /// Writes a string at a path, as [`set_json`](Self::set_json) does.
    ///
    /// # Errors
    ///
    /// Any [`Error`] but `Decode`.
    pub fn set_text(&self, path: &str, text: &str) -> Result<(), Error> {
        self.set_json(path, &json::quote(text))
    }

    /// Inserts a value before the list element that the path names, as `add` of RFC 6902 does.
    ///
    /// # Errors
    ///
    /// Any [`Error`]; [`Error::NotFound`] if there is no such element.
    pub fn insert<T: Serialize + ?Sized>(&self, path: &str, value: &T) -> Result<(), Error> {
        self.insert_json(path, &encode(path, value)?)
    }

    /// Inserts JSON text before the list element that the path names, as [`insert`](Self::insert) does.
    ///
    /// # Errors
    ///
    /// Any [`Error`] but `Decode`; [`Error::NotFound`] if there is no such element.
    pub fn insert_json(&self, path: &str, value: &str) -> Result<(), Error> {
        self.handle.insert(path, value)
    }

    /// Removes what is at a path. Returns whether something was there.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidPath`] or [`Error::Forbidden`].
    pub fn remove(&self, path: &str) -> Result<bool, Error> {
        self.handle.remove(path)
    }

    /// Returns the place at a path.
    #[must_use]
    pub fn at(&self, path: impl Into<String>) -> Node<'_> {
        Node {
            pod: self,
            path: path.into(),
        }
    }

    /// Returns the pod's labels.
    #[must_use]
    pub fn labels(&self) -> Map<'_> {
        Map {
            node: self.at("/metadata/labels"),
        }
    }

    /// Returns the pod's annotations.
    #[must_use]
    pub fn annotations(&self) -> Map<'_> {
        Map {
            node: self.at("/metadata/annotations"),
        }
    }

    /// Returns the pod's own security context, which its containers inherit.
    #[must_use]
    pub fn security_context(&self) -> Node<'_> {
        self.at("/spec/securityContext")
    }

    /// Returns the container of this name, whether it exists or not.
    #[must_use]
    pub fn container(&self, name: &str) -> Container<'_> {
        self.container_in("/spec/containers", name)
    }

    /// Returns the init container of this name, whether it exists or not.
    #[must_use]
    pub fn init_container(&self, name: &str) -> Container<'_> {
        self.container_in("/spec/initContainers", name)
    }

    /// Returns the containers, in order.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub fn containers(&self) -> Result<Vec<Container<'_>>, Error> {
        self.containers_in("/spec/containers")
    }

    /// Returns the init containers, in order; native sidecars are among them.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub fn init_containers(&self) -> Result<Vec<Container<'_>>, Error> {
        self.containers_in("/spec/initContainers")
    }

    /// Returns the volume of this name, whether it exists or not.
    #[must_use]
    pub fn volume(&self, name: &str) -> Node<'_> {
        self.at(path::element("/spec/volumes", "name", name))
    }

    fn container_in(&self, list: &str, name: &str) -> Container<'_> {
        Container {
            name: name.to_owned(),
            node: self.at(path::element(list, "name", name)),
        }
    }

    fn containers_in(&self, list: &str) -> Result<Vec<Container<'_>>, Error> {
        #[derive(Deserialize)]
        struct Named {
            #[serde(default)]
            name: String,
        }
        let containers: Vec<Named> = self.view(list, &["/*/name"])?.unwrap_or_default();
        let names = containers.iter().map(|container| &container.name);
        Ok(names.map(|name| self.container_in(list, name)).collect())
    }
}

fn decode<T: DeserializeOwned>(path: &str, text: Option<String>) -> Result<Option<T>, Error> {
    let Some(text) = text else {
        return Ok(None);
    };
    json::from_str(&text).map_err(|error| undecoded(path, &error))
}

#[cold]
fn undecoded(path: &str, error: &json::Error) -> Error {
    let path = match error.path() {
        "" => path.to_owned(),
        inner => format!("{path}/{inner}"),
    };
    Error::Decode {
        path,
        message: error.message().to_owned(),
    }
}

fn encode<T: Serialize + ?Sized>(path: &str, value: &T) -> Result<String, Error> {
    serde_json::to_string(value)
        .map_err(|error| Error::InvalidValue(format!("{path}: cannot be written as JSON: {error}")))
}
