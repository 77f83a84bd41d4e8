//! Finds and reads the files that `-f` names.

use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::{fs, io, thread};

use anyhow::Context;

use super::slices;
use crate::error::{CommandError, Diagnostic};

/// The largest manifest that is read. etcd limits an object to 1.5 MiB, so real manifests stay far below.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// The text of one file.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// The file as the user named it, or `-`.
    pub name: Arc<str>,
    /// Its content.
    pub text: Arc<str>,
}

/// Whether subdirectories are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Only the files of the directory itself.
    Flat,
    /// The files of all subdirectories too.
    Recursive,
}

impl Depth {
    /// Returns how deep directories are read: with everything below them, or their own files only.
    pub const fn of(is_recursive: bool) -> Self {
        match is_recursive {
            true => Self::Recursive,
            false => Self::Flat,
        }
    }
}

/// Finds all files, in their order, and adds an error for each that is not there. Standard input has none. For a directory it finds
/// its `.yaml`, `.yml` and `.json` files, sorted by name.
pub(super) fn find_all(
    files: &[String],
    depth: Depth,
    errors: &mut Vec<Diagnostic>,
) -> Result<Vec<Option<PathBuf>>, CommandError> {
    if files.iter().filter(|file| *file == "-").count() > 1 {
        return Err(CommandError::Usage(
            "-f - appears twice, but standard input can be read only once".to_owned(),
        ));
    }
    let mut places = Vec::new();
    for file in files {
        match file.as_str() {
            "-" => places.push(None),
            name => places.extend(find(name, depth, errors).into_iter().map(Some)),
        }
    }
    Ok(places)
}

/// Reads a file, or standard input.
pub(super) fn open(path: Option<&Path>) -> Result<Source, Diagnostic> {
    let Some(path) = path else {
        return read_text("-", io::stdin().lock());
    };
    let name = path.display().to_string();
    let file = fs::File::open(path).map_err(|error| unreadable(&name, &error))?;
    read_text(&name, file)
}

/// The files that a name stands for.
fn find(file: &str, depth: Depth, errors: &mut Vec<Diagnostic>) -> Vec<PathBuf> {
    let path = PathBuf::from(file);
    if !path.is_dir() {
        return vec![path];
    }
    let before = errors.len();
    let mut paths = Vec::new();
    list(&path, depth, &mut paths, errors);
    if paths.is_empty() && errors.len() == before {
        errors.push(Diagnostic::new(format!(
            "{file}: the directory has no .yaml, .yml or .json file{}",
            match depth {
                Depth::Flat => "; -R reads subdirectories too",
                Depth::Recursive => "",
            }
        )));
    }
    paths
}

/// Collects the manifests below a directory. It skips hidden entries: a mounted ConfigMap has every file twice, once in a hidden
/// directory.
fn list(directory: &Path, depth: Depth, found: &mut Vec<PathBuf>, errors: &mut Vec<Diagnostic>) {
    let entries = fs::read_dir(directory).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let mut paths: Vec<PathBuf> = match entries {
        Ok(entries) => entries.iter().map(fs::DirEntry::path).collect(),
        Err(error) => return errors.push(unreadable(&directory.display().to_string(), &error)),
    };
    paths.sort();
    for path in paths {
        let hidden = path
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if hidden {
            continue;
        }
        // Links to directories are not followed: they could form a loop.
        if path.is_dir() {
            if depth == Depth::Recursive && !path.is_symlink() {
                list(&path, depth, found, errors);
            }
        } else if is_manifest(&path) {
            found.push(path);
        }
    }
}

fn is_manifest(path: &Path) -> bool {
    path.extension()
        .and_then(|extension| extension.to_str())
        .is_some_and(|extension| matches!(extension, "yaml" | "yml" | "json"))
}

/// Reads a text up to the limit.
fn read_text(name: &str, reader: impl Read) -> Result<Source, Diagnostic> {
    let mut bytes = Vec::new();
    let read = reader.take(MAX_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| unreadable(name, &error))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Diagnostic::new(format!(
            "{name}: larger than {} MiB; split it into several files",
            MAX_BYTES / 1024 / 1024
        )));
    }
    if is_utf16(&bytes) {
        return Err(Diagnostic::new(format!(
            "{name}: the text is UTF-16, as some editors and shells on Windows write it: save it as UTF-8"
        )));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let line = error.as_bytes()[..error.utf8_error().valid_up_to()]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        Diagnostic::new(format!("{name}:{}: not UTF-8 text", line + 1))
    })?;
    Ok(Source {
        name: name.into(),
        text: without_marks(text).into(),
    })
}

/// YAML begins with a character of ASCII, unless there is a byte order mark.
fn is_utf16(bytes: &[u8]) -> bool {
    match bytes {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => true,
        [first, second, ..] => (*first == 0) != (*second == 0),
        _ => false,
    }
}

/// Replaces byte order marks after separators, as `cat` leaves them there: kubectl reads each document as a file of its own. Lines
/// and offsets stay as they are.
fn without_marks(text: String) -> String {
    const MARK: char = '\u{feff}';
    if !text.contains("\n\u{feff}") {
        return text;
    }
    let mut clean = String::with_capacity(text.len());
    let mut is_after_separator = false;
    for line in text.split_inclusive('\n') {
        let line = match line.strip_prefix(MARK) {
            Some(rest) if is_after_separator => {
                let end = clean.trim_end_matches(['\r', '\n']).len();
                clean.insert_str(end, "   ");
                rest
            }
            _ => line,
        };
        is_after_separator = slices::is_separator(line);
        clean.push_str(line);
    }
    clean
}

fn unreadable(name: &str, error: &io::Error) -> Diagnostic {
    match error.kind() {
        io::ErrorKind::NotFound => Diagnostic::new(format!("{name}: no such file or directory")),
        _ => Diagnostic::new(format!("{name}: {error}")),
    }
}

// Builds the kustomizations that `-k` names, with the kubectl or kustomize that is installed.

/// The programs that can build a kustomization, in the order in which they are tried, and their arguments.
const PROGRAMS: [(&str, &[&str]); 2] = [("kubectl", &["kustomize"]), ("kustomize", &["build"])];

/// How much of a program's messages is shown.
const MOST_SHOWN: u64 = 64 * 1024;

/// Builds one kustomization. Returns what the program wrote to its standard error too, though it succeeded.
pub(super) fn build(directory: &str) -> Result<(Source, Option<Diagnostic>), CommandError> {
    if !Path::new(directory).is_dir() {
        return Err(CommandError::invalid(format!(
            "{directory}: -k takes a directory with a kustomization.yaml"
        )));
    }
    for (program, arguments) in PROGRAMS {
        let mut command = Command::new(program);
        // A directory whose name starts with a dash is not an option.
        command.args(arguments).args(["--", directory]);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        match command.spawn() {
            Ok(child) => {
                let name = format!("{program} {} {directory}", arguments.join(" "));
                return output(&name, child);
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                let error = anyhow::Error::new(error).context(format!("could not run {program}"));
                return Err(error.into());
            }
        }
    }
    Err(CommandError::invalid(format!(
        "{directory}: -k needs kubectl or kustomize, and neither is in PATH: install one, or build the kustomization elsewhere and pipe it to -f -"
    )))
}

fn output(name: &str, mut child: Child) -> Result<(Source, Option<Diagnostic>), CommandError> {
    // Both pipes are read at the same time, or the program could wait for one of them forever.
    let messages = child.stderr.take();
    let messages = thread::spawn(move || {
        let mut text = Vec::new();
        let Some(mut pipe) = messages else {
            return text;
        };
        let _cut = pipe.by_ref().take(MOST_SHOWN).read_to_end(&mut text);
        let _rest = std::io::copy(&mut pipe, &mut std::io::sink());
        text
    });
    let pipe = child.stdout.take().context("the program has no output")?;
    let source = read_text(name, pipe);
    // A program whose output is too large is not read to its end, so it must not wait for a reader.
    if source.is_err() {
        let _ended = child.kill();
    }
    let status = child.wait().with_context(|| name.to_owned())?;
    let messages = messages.join().unwrap_or_default();
    let messages = String::from_utf8_lossy(&messages);
    let messages = messages.trim_end();
    let source = source.map_err(|error| CommandError::Invalid(vec![error]))?;
    if !status.success() {
        return Err(CommandError::invalid(format!(
            "{name}: {status}\n{messages}"
        )));
    }
    let warning = Some(messages).filter(|messages| !messages.is_empty());
    let warning = warning.map(|messages| Diagnostic::new(format!("{name}:\n{messages}")));
    Ok((source, warning))
}
