//! The handle on the pod.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{Error, backend, json, path};

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
        Ok(self.handle.get(path)?)
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
        Ok(self.handle.view(path, fields)?)
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
        Ok(self.handle.keys(path)?)
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
        Ok(self.handle.set(path, value)?)
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
        Ok(self.handle.insert(path, value)?)
    }

    /// Removes what is at a path. Returns whether something was there.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidPath`] or [`Error::Forbidden`].
    pub fn remove(&self, path: &str) -> Result<bool, Error> {
        Ok(self.handle.remove(path)?)
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
        let containers: Vec<Listed> = self.view(list, &["/*/name"])?.unwrap_or_default();
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

/// What is read of the containers in a list.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Listed {
    name: String,
    restart_policy: String,
}

/// How a container runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerKind {
    /// In `initContainers`: it runs and ends before the next one starts.
    Init,
    /// In `initContainers` with `restartPolicy: Always`, a native sidecar: it is started before the next one, and runs until
    /// the pod's regular containers have ended.
    Sidecar,
    /// In `containers`.
    Regular,
}

impl Pod {
    /// Returns all containers of the pod with their kinds, in the order in which they start: init containers and sidecars, then
    /// regular ones. The path of each is `container.node().path()`.
    ///
    /// Ephemeral containers are not among them: the API server creates no pod that has one, and a plugin sees pods as they
    /// are created.
    ///
    /// ```
    /// # use podloom_plugin_sdk::prelude::*;
    /// # fn pin(pod: &Pod) -> Result<(), Error> {
    /// for (kind, container) in pod.all_containers()? {
    ///     if kind != ContainerKind::Init {
    ///         container.field("resources").field("limits").field("memory").set_if_absent("1Gi")?;
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It reads what [`Needs::read_all_containers`](crate::Needs::read_all_containers) asks for, in one call.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub fn all_containers(&self) -> Result<Vec<(ContainerKind, Container<'_>)>, Error> {
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Spec {
            init_containers: Vec<Listed>,
            containers: Vec<Listed>,
        }
        let fields = [
            "/initContainers/*/name",
            "/initContainers/*/restartPolicy",
            "/containers/*/name",
        ];
        let spec: Spec = self.view("/spec", &fields)?.unwrap_or_default();
        let init = spec.init_containers.iter().map(|listed| {
            let kind = match listed.restart_policy.as_str() {
                "Always" => ContainerKind::Sidecar,
                _ => ContainerKind::Init,
            };
            (kind, self.init_container(&listed.name))
        });
        let regular = spec.containers.iter();
        let regular = regular.map(|listed| (ContainerKind::Regular, self.container(&listed.name)));
        Ok(init.chain(regular).collect())
    }
}

/// A place in the pod, whether something is there or not.
#[derive(Clone, Debug)]
pub struct Node<'p> {
    pod: &'p Pod,
    path: String,
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
    node: Node<'p>,
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
    name: String,
    node: Node<'p>,
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
        let literal = format!("{{\"value\":{}}}", json::quote(value));
        self.node.pod.set_json(&self.node.path, &literal)
    }

    /// Returns the place of the variable itself, to read or write `valueFrom`, or remove it.
    #[must_use]
    pub fn node(&self) -> &Node<'p> {
        &self.node
    }
}
