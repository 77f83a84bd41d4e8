mod cyclonedx;
mod section;
mod tree;
