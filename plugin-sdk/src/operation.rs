//! What is done to a pod when a plugin is called.

/// What is done to a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Operation {
    /// It is created.
    #[default]
    Create,
    /// Its images change, or one of the few other fields that may.
    Update,
    /// Its resources change.
    Resize,
    /// It gets further ephemeral containers, as with `kubectl debug`.
    EphemeralContainers,
}

impl Operation {
    /// Returns the word that the contract has for it.
    ///
    /// ```
    /// use podloom_plugin_sdk::Operation;
    ///
    /// assert_eq!(Operation::EphemeralContainers.as_str(), "ephemeral-containers");
    /// ```
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Resize => "resize",
            Self::EphemeralContainers => "ephemeral-containers",
        }
    }
}
