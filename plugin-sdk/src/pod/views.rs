//! Typed places in a pod: a node, a map of strings, a container, an environment variable.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Pod;
use crate::{Error, path};

/// A place in the pod, whether something is there or not.
#[derive(Clone, Debug)]
pub struct Node<'p> {
    pub(super) pod: &'p Pod,
    pub(super) path: String,
}

impl<'p> Node<'p> {
    /// Returns the place's path.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the place of a field of this object.
    #[must_use]
    pub fn field(&self, key: &str) -> Node<'p> {
        self.pod.at(path::field(&self.path, key))
    }

    /// Returns the place of the element of this list whose field `key` has this value.
    #[must_use]
    pub fn element(&self, key: &str, value: &str) -> Node<'p> {
        self.pod.at(path::element(&self.path, key, value))
    }

    /// Returns what is here, `None` if nothing is.
    ///
    /// # Errors
    ///
    /// As [`Pod::get`].
    pub fn get<T: DeserializeOwned>(&self) -> Result<Option<T>, Error> {
        self.pod.get(&self.path)
    }

    /// Returns whether something is here.
    ///
    /// # Errors
    ///
    /// As [`Pod::get_json`].
    pub fn exists(&self) -> Result<bool, Error> {
        Ok(self.pod.get_json(&self.path)?.is_some())
    }

    /// Returns the keys of the object here, or the indices of the list; empty if nothing is here.
    ///
    /// # Errors
    ///
    /// As [`Pod::keys`].
    pub fn keys(&self) -> Result<Vec<String>, Error> {
        self.pod.keys(&self.path)
    }

    /// Writes a value here.
    ///
    /// # Errors
    ///
    /// As [`Pod::set`].
    pub fn set<T: Serialize + ?Sized>(&self, value: &T) -> Result<(), Error> {
        self.pod.set(&self.path, value)
    }

    /// Writes a value here unless something is here already. Returns whether it wrote.
    ///
    /// # Errors
    ///
    /// As [`Pod::set`].
    pub fn set_if_absent<T: Serialize + ?Sized>(&self, value: &T) -> Result<bool, Error> {
        if self.exists()? {
            return Ok(false);
        }
        self.set(value)?;
        Ok(true)
    }

    /// Inserts a value before the list element here.
    ///
    /// # Errors
    ///
    /// As [`Pod::insert`].
    pub fn insert_before<T: Serialize + ?Sized>(&self, value: &T) -> Result<(), Error> {
        self.pod.insert(&self.path, value)
    }

    /// Appends a value to the list here, which is made if it is missing.
    ///
    /// # Errors
    ///
    /// As [`Pod::set`].
    pub fn append<T: Serialize + ?Sized>(&self, value: &T) -> Result<(), Error> {
        self.field("-").set(value)
    }

    /// Removes what is here. Returns whether something was.
    ///
    /// # Errors
    ///
    /// As [`Pod::remove`].
    pub fn remove(&self) -> Result<bool, Error> {
        self.pod.remove(&self.path)
    }
}

/// A map from string to string: labels, annotations.
#[derive(Clone, Debug)]
pub struct Map<'p> {
    pub(super) node: Node<'p>,
}

impl Map<'_> {
    /// Returns the value of a key, `None` if the map does not have it.
    ///
    /// # Errors
    ///
    /// As [`Pod::get`].
    pub fn get(&self, key: &str) -> Result<Option<String>, Error> {
        self.node.field(key).get()
    }

    /// Writes the value of a key, creating the map if it is missing.
    ///
    /// # Errors
    ///
    /// As [`Pod::set`].
    pub fn set(&self, key: &str, value: &str) -> Result<(), Error> {
        let path = path::field(&self.node.path, key);
        self.node.pod.set_text(&path, value)
    }

    /// Removes a key. Returns whether the map had it.
    ///
    /// # Errors
    ///
    /// As [`Pod::remove`].
    pub fn remove(&self, key: &str) -> Result<bool, Error> {
        self.node.field(key).remove()
    }

    /// Returns the keys in order.
    ///
    /// # Errors
    ///
    /// As [`Pod::keys`].
    pub fn keys(&self) -> Result<Vec<String>, Error> {
        self.node.keys()
    }

    /// Returns the place of the map itself.
    #[must_use]
    pub fn node(&self) -> &Node<'_> {
        &self.node
    }
}

/// A container of any of the pod's lists, named by its name, whether it exists or not.
#[derive(Clone, Debug)]
pub struct Container<'p> {
    pub(super) name: String,
    pub(super) node: Node<'p>,
}

impl<'p> Container<'p> {
    /// Returns the container's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the place of the container itself.
    #[must_use]
    pub fn node(&self) -> &Node<'p> {
        &self.node
    }

    /// Returns the place of one of its fields: `image`, `resources`, `livenessProbe`, ...
    #[must_use]
    pub fn field(&self, key: &str) -> Node<'p> {
        self.node.field(key)
    }

    /// Returns its image.
    ///
    /// # Errors
    ///
    /// As [`Pod::get`].
    pub fn image(&self) -> Result<Option<String>, Error> {
        self.field("image").get()
    }

    /// Returns an environment variable by name, whether it exists or not.
    #[must_use]
    pub fn env(&self, name: &str) -> EnvVar<'p> {
        EnvVar {
            node: self.field("env").element("name", name),
        }
    }

    /// Returns its security context, which overrides the pod's.
    #[must_use]
    pub fn security_context(&self) -> Node<'p> {
        self.field("securityContext")
    }

    /// Returns the mount at a path in the container's file system, whether it exists or not.
    #[must_use]
    pub fn volume_mount(&self, mount_path: &str) -> Node<'p> {
        self.field("volumeMounts").element("mountPath", mount_path)
    }
}

/// An environment variable of a container.
#[derive(Clone, Debug)]
pub struct EnvVar<'p> {
    node: Node<'p>,
}

impl<'p> EnvVar<'p> {
    /// Returns its literal value; `None` if there is no such variable or it comes from elsewhere (`valueFrom`).
    ///
    /// # Errors
    ///
    /// As [`Pod::get`].
    pub fn value(&self) -> Result<Option<String>, Error> {
        self.node.field("value").get()
    }

    /// Gives it a literal value, replacing whatever it had. A new variable is appended: `$(VAR)` in its value sees those before it.
    ///
    /// # Errors
    ///
    /// As [`Pod::set`].
    pub fn set(&self, value: &str) -> Result<(), Error> {
        #[derive(Serialize)]
        struct Literal<'v> {
            value: &'v str,
        }
        self.node.set(&Literal { value })
    }

    /// Returns the place of the variable itself, to read or write `valueFrom`, or remove it.
    #[must_use]
    pub fn node(&self) -> &Node<'p> {
        &self.node
    }
}
