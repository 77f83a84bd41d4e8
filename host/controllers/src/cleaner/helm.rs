//! The phase in which a Helm release is uninstalled. Each step is planned from what was read in the same pass, and none waits in it.
