//! The names of the contract: `podloom:mutator/pods@0.1.0` is one of its interfaces, with a version.

/// The package of the contract.
pub(crate) const PACKAGE: &str = "podloom:mutator";
/// The contract versions that this host supports, as messages show them.
pub const SERVED: &str = "0.1";
const SERVED_MAJOR_MINOR: (u64, u64) = (0, 1);

/// Splits `podloom:mutator/pods@0.1.0` into interface and version.
pub(crate) fn interface(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix(PACKAGE)?
        .strip_prefix('/')?
        .split_once('@')
}

/// Patch versions only add imports; a missing one is found when the plugin is linked.
pub(crate) fn is_served(version: &str) -> bool {
    let mut numbers = version.split('.').map(str::parse::<u64>);
    let major_minor = (numbers.next(), numbers.next());
    matches!(major_minor, (Some(Ok(major)), Some(Ok(minor))) if (major, minor) == SERVED_MAJOR_MINOR)
}
