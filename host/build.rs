//! Puts the list of the operator's crates into the operator: for `podloom sbom`, and in the section where scanners look for it.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use object::write::{Object, SectionId};
use object::{Architecture, BinaryFormat, Endianness, SectionFlags, SectionKind};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=../Cargo.lock");
    println!("cargo::rerun-if-changed=Cargo.toml");
    let crates = podloom_sbom::collect(Path::new("."), Some("podloom"), &env::var("TARGET")?)?;
    let content = podloom_sbom::encode(&crates)?;
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    fs::write(out.join("crates"), &content)?;
    if let Some(architecture) = architecture() {
        let file = out.join("crates.o");
        fs::write(&file, object_file(architecture, &content)?)?;
        println!("cargo::rustc-link-arg-bin=podloom={}", file.display());
    }
    if let Some(Architecture::X86_64) = architecture() {
        // A program that may be loaded anywhere has a list of all its own addresses. Packed, that list is 2 MB shorter.
        println!("cargo::rustc-link-arg-bin=podloom=-Wl,-z,pack-relative-relocs");
    }
    Ok(())
}

/// The architecture of what is built, if it is one of those that we ship.
fn architecture() -> Option<Architecture> {
    let of = |name| env::var(name).unwrap_or_default();
    match (&*of("CARGO_CFG_TARGET_OS"), &*of("CARGO_CFG_TARGET_ARCH")) {
        ("linux", "x86_64") => Some(Architecture::X86_64),
        ("linux", "aarch64") => Some(Architecture::Aarch64),
        _ => None,
    }
}

/// An object file with nothing but the section.
fn object_file(architecture: Architecture, content: &[u8]) -> object::write::Result<Vec<u8>> {
    let mut file = Object::new(BinaryFormat::Elf, architecture, Endianness::Little);
    add(&mut file, podloom_sbom::SECTION, content);
    // Without this section the linker would make the stack executable.
    add(&mut file, ".note.GNU-stack", &[]);
    file.write()
}

/// Adds a section that is never loaded into memory, and that the linker keeps.
fn add(file: &mut Object<'_>, name: &str, content: &[u8]) -> SectionId {
    let section = file.add_section(Vec::new(), name.into(), SectionKind::Other);
    file.section_mut(section).flags = SectionFlags::Elf { sh_flags: 0 };
    file.append_section_data(section, content, 1);
    section
}
