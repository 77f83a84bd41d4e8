//! The names on and around ChainExceptions.

/// The field manager of their status.
pub const FIELD_MANAGER: &str = "podloom-exception";

// Reasons of the condition Ready.

/// It holds for all of its plugins.
pub const HOLDS: &str = "Holds";
/// Its time is over.
pub const ENDED: &str = "Ended";
/// The author of the chain allows none for a plugin, or none that lasts as long.
pub const NOT_ALLOWED: &str = "NotAllowed";
/// The chain has no plugin of that name.
pub const NO_PLUGIN: &str = "NoPlugin";
/// Its spec cannot be used.
pub const INVALID: &str = "Invalid";
