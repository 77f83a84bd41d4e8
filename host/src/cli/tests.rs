//! What the pages of the repository say of `podloom` is what it understands.

use clap::Parser;

use super::Arguments;

mod pages;

#[test]
fn every_command_of_every_page_is_understood() {
    pages::check("podloom", 150, |words| {
        Arguments::try_parse_from(words).err()
    });
}
