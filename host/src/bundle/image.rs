//! A bundle as an image, for an image volume.

use std::path::Path;

use podloom_image::{Config, Image, Layer};

use super::PackedBundle;
use crate::cli::BundleArguments;
use crate::error::CommandError;
use crate::{load, output};

/// The image has no programs, so this is only a word that the format wants: every node mounts it.
const ARCHITECTURE: &str = "amd64";

/// Writes the image: the files of the bundle in its root.
pub(super) fn write(
    arguments: &BundleArguments,
    packed: &PackedBundle,
) -> Result<(), CommandError> {
    if arguments.output == Path::new("-") {
        return Err(CommandError::invalid(
            "an image is not written to standard output: name a file with -o, for example -o podloom-plugins.tar",
        ));
    }
    let mut layer = Layer::default();
    for file in packed.files() {
        layer
            .add_bytes(file.bytes.clone(), &file.name)
            .map_err(load::image_error)?;
    }
    let image = Image {
        names: arguments.oci.clone(),
        architecture: ARCHITECTURE.to_owned(),
        config: Config::default(),
        layer,
    };
    let written = podloom_image::write(&image, &arguments.output).map_err(load::image_error)?;
    output::print_note(&format!(
        "image {}\n{}\n",
        arguments.oci.join(", "),
        written.digest
    ));
    Ok(())
}
