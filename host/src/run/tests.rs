pub(crate) mod fixtures;
mod tasks;
