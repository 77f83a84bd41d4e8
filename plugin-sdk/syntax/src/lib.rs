//! What Kubernetes accepts as a quantity, an image, a name, a label or an annotation, and how texts from outside are shown.
//!
//! The host, the SDK and plugins share this crate, so they all accept the same texts. It is pure and has no dependencies
//! unless a feature asks for them, and what a plugin does not use of it is not in the plugin.

pub mod image;
pub mod names;
pub mod quantity;
pub mod text;

pub use image::ImageRef;
pub use quantity::Quantity;
