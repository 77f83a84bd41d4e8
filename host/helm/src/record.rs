//! The Secrets that hold the revisions of a release, and what Helm writes on the objects of a release.

use std::collections::BTreeMap;

/// The type of the Secrets.
pub const SECRET_TYPE: &str = "helm.sh/release.v1";

/// The key of the payload in such a Secret.
pub const SECRET_KEY: &str = "release";

/// Labels of the Secrets.
pub mod label {
    /// Who owns it, and the value of this label.
    pub const OWNER: (&str, &str) = ("owner", "helm");
    /// The name of the release.
    pub const NAME: &str = "name";
    /// The revision, as a number.
    pub const VERSION: &str = "version";
    /// The status of the release.
    pub const STATUS: &str = "status";
}

/// Annotations on the objects of a release.
pub mod annotation {
    /// The name of the release.
    pub const RELEASE_NAME: &str = "meta.helm.sh/release-name";
    /// The namespace of the release.
    pub const RELEASE_NAMESPACE: &str = "meta.helm.sh/release-namespace";
}

/// Which revision of which release a Secret holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Record<'a> {
    /// The name of the release.
    pub release: &'a str,
    /// Its namespace, which is that of the Secret.
    pub namespace: &'a str,
    /// The revision: 1 is the first.
    pub revision: i64,
}

impl Record<'_> {
    /// Returns the name of the Secret.
    pub fn secret_name(&self) -> String {
        format!("sh.helm.release.v1.{}.v{}", self.release, self.revision)
    }

    /// Returns whether these annotations of an object say that it belongs to the release.
    ///
    /// Ask this of objects outside the namespace of the release, as they are in the cluster: whoever writes records could name
    /// any object in a manifest.
    ///
    /// ```
    /// use std::collections::BTreeMap;
    ///
    /// use podloom_helm::Record;
    ///
    /// let record = Record { release: "shop", namespace: "demo", revision: 3 };
    /// let annotations = [("meta.helm.sh/release-name", "shop"), ("meta.helm.sh/release-namespace", "demo")];
    /// let mut annotations = BTreeMap::from(annotations.map(|(key, value)| (key.to_owned(), value.to_owned())));
    /// assert!(record.owns(&annotations));
    /// annotations.remove("meta.helm.sh/release-namespace");
    /// assert!(!record.owns(&annotations));
    /// ```
    pub fn owns(&self, annotations: &BTreeMap<String, String>) -> bool {
        let is = |key: &str, value: &str| annotations.get(key).is_some_and(|own| own == value);
        is(annotation::RELEASE_NAME, self.release)
            && is(annotation::RELEASE_NAMESPACE, self.namespace)
    }

    /// Returns whether these annotations of an object say that it belongs to another release, which has taken it over. Objects that were
    /// installed by an old Helm say nothing.
    pub fn is_of_another(&self, annotations: &BTreeMap<String, String>) -> bool {
        let is_other =
            |key: &str, value: &str| annotations.get(key).is_some_and(|own| own != value);
        is_other(annotation::RELEASE_NAME, self.release)
            || is_other(annotation::RELEASE_NAMESPACE, self.namespace)
    }
}
