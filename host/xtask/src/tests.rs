//! What the pages and workflows of the repository say of `cargo xtask` is what it understands.

use clap::Parser;

use super::Arguments;

#[path = "../../src/cli/tests/pages.rs"]
mod pages;

#[test]
fn every_command_of_every_page_and_workflow_is_understood() {
    pages::check("cargo xtask", 40, |words| {
        Arguments::try_parse_from(words).err()
    });
}
