//! `podloom corpus record`: keeps the pods of a cluster as files, on which chains and plugins are tried later.

pub(crate) mod conceal;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Component, Path, PathBuf};
use std::{fs, io};

use anyhow::Context;
use podloom_api::{SelenosisApi, SelenosisKind};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::cli::{PodArguments, RecordArguments};
use crate::error::CommandError;
use crate::explain::count;
use crate::feed::{KINDS, Reading, Submitted, block_on, cleaned, no_pod, submitted};
use crate::lists::{Pages, Place};
use crate::manifest::metadata;
use crate::output;

/// Records the objects of the cluster in a directory.
pub(crate) fn record(arguments: &RecordArguments) -> Result<(), CommandError> {
    let directory = Directory::open(&arguments.directory)?;
    let scope = PodArguments {
        namespace: arguments.namespace.clone(),
        all_namespaces: arguments.all_namespaces,
        namespace_selector: arguments.namespace_selector.clone(),
        selector: arguments.selector.clone(),
        ..PodArguments::default()
    };
    let recording = block_on(async {
        let mut recording = Recording {
            reading: Reading::begin(&scope).await?,
            directory,
            keeps_values: arguments.keep_values,
            namespaces: BTreeSet::new(),
            has_pods: false,
        };
        match recording.read().await {
            Ok(()) => Ok(recording),
            Err(error) => {
                // What is written is ours, also the next time.
                recording.directory.keep_list()?;
                Err(error)
            }
        }
    })?;
    recording.conclude()
}

struct Recording<'a> {
    reading: Reading<'a>,
    directory: Directory,
    keeps_values: bool,
    /// Those of recorded objects.
    namespaces: BTreeSet<String>,
    /// Whether an object with pods was recorded: BrowserConfigs alone have none.
    has_pods: bool,
}

/// What is recorded besides Kubernetes' own kinds.
const SELENOSIS: [SelenosisKind; 2] = [SelenosisKind::BrowserConfig, SelenosisKind::Browser];

impl Recording<'_> {
    async fn read(&mut self) -> Result<(), CommandError> {
        for listed in KINDS {
            let place = self.reading.selected(listed.api_version, listed.plural);
            let what = format!("{}s", listed.kind);
            self.read_kind(&place, &what, |object| submitted(listed, object))
                .await?;
        }
        for api in [SelenosisApi::Seed, SelenosisApi::Split] {
            for kind in SELENOSIS {
                let version = format!("{}/v1", api.group(kind));
                // A Browser needs its BrowserConfig, whatever labels that has.
                let place = match kind {
                    SelenosisKind::Browser => self.reading.selected(&version, kind.plural()),
                    SelenosisKind::BrowserConfig => self.reading.place(&version, kind.plural()),
                };
                let what = format!("{}s", kind.name());
                let whole = |object| match cleaned(&version, kind.name(), object) {
                    Some(object) => Submitted::Itself(object),
                    None => Submitted::OfOwner,
                };
                self.read_kind(&place, &what, whole).await?;
            }
        }
        for namespace in std::mem::take(&mut self.namespaces) {
            self.store_namespace(&namespace)?;
        }
        Ok(())
    }

    async fn read_kind(
        &mut self,
        place: &Place,
        what: &str,
        to_record: impl Fn(Value) -> Submitted,
    ) -> Result<(), CommandError> {
        let client = self.reading.client.clone();
        let mut pages = Pages::of(&client, place);
        while let Some(page) = self.reading.next(&mut pages, what).await? {
            for object in page {
                let namespace = metadata(&object, "namespace").to_owned();
                if self.reading.is_left_out(&namespace) {
                    continue;
                }
                match to_record(object) {
                    Submitted::Itself(object) => self.store(namespace, object)?,
                    Submitted::OfOwner => {}
                    Submitted::OfUnread(owner) => self.reading.leave_out(owner),
                }
            }
        }
        Ok(())
    }

    fn store(&mut self, namespace: String, mut object: Value) -> Result<(), CommandError> {
        conceal::annotations(&mut object);
        if !self.keeps_values {
            conceal::values(&mut object);
        }
        let kind = object.get("kind").and_then(Value::as_str);
        let kind = kind.unwrap_or_default();
        self.has_pods |= kind != SelenosisKind::BrowserConfig.name();
        let kind = kind.to_lowercase();
        let api_version = object.get("apiVersion").and_then(Value::as_str);
        // Both sets of API groups may have an object of one name.
        let group = api_version.and_then(|it| it.split_once('/')).map(|it| it.0);
        let group = group.filter(|group| group.contains('.'));
        let group = group.map_or_else(String::new, |group| format!("{group}."));
        let file = format!("{kind}.{group}{}", metadata(&object, "name"));
        self.directory
            .store(&namespace, &file, &output::yaml(&object)?)?;
        self.namespaces.insert(namespace);
        Ok(())
    }

    /// Plugins see a namespace's labels and annotations.
    fn store_namespace(&mut self, namespace: &str) -> Result<(), CommandError> {
        // What could not be read now may have been read before.
        if !self.reading.skipped.is_empty() && self.directory.keep(namespace, "namespace") {
            return Ok(());
        }
        let about = self.reading.namespaces.get(namespace);
        let mut object = json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": { "name": namespace, "labels": about.labels, "annotations": about.annotations },
        });
        conceal::annotations(&mut object);
        let text = output::yaml(&object)?;
        self.directory.store(namespace, "namespace", &text)
    }

    /// Removes the files of objects that are gone, lists the others, and reports. A directory without a pod must not look like a corpus.
    fn conclude(mut self) -> Result<(), CommandError> {
        let unread = std::mem::take(&mut self.reading.skipped);
        // Nobody knows whether what could not be read is gone.
        let knows_all = unread.is_empty();
        let skipped = [unread, self.reading.left_out()].concat();
        let files = self.directory.files();
        if !self.has_pods {
            if files > 0 {
                // What is written is ours, also the next time.
                self.directory.keep_list()?;
            }
            return Err(no_pod(&skipped));
        }
        let gone = match knows_all {
            true => self.directory.finish()?,
            false => {
                self.directory.keep_list()?;
                0
            }
        };
        let mut text = format!(
            "{} of {} in {}: {} new or changed, {gone} gone\n",
            count(files, "object"),
            count(self.directory.now.len(), "namespace"),
            self.directory.root.display(),
            count(self.directory.changed, "file"),
        );
        for skipped in skipped {
            text.push_str(&format!("{skipped}\n"));
        }
        output::print(&text)?;
        if !self.keeps_values {
            output::print_note(
                "values of env, args, commands, HTTP headers, queries of HTTP probes and volumes' drivers are placeholders; labels, annotations, names and images are as in the cluster: look at them before you commit\n",
            );
        }
        Ok(())
    }
}

// The directory of a corpus: one file for each object, and a list of them, so that a later recording removes what is gone and
// nothing else.

/// The list of the recorded files. Its name begins with a dot, so that nobody reads it as a manifest.
const LIST: &str = ".podloom-corpus";
/// A file while it is being written.
const UNFINISHED: &str = ".podloom-corpus.new";
/// The longest name of an object that is part of a file's name.
const LONGEST: usize = 200;

/// A directory that is being recorded into.
struct Directory {
    root: PathBuf,
    /// What an earlier recording wrote.
    before: BTreeSet<String>,
    /// What this one has written, by namespace.
    now: BTreeMap<String, BTreeSet<String>>,
    changed: usize,
}

impl Directory {
    /// Reads what an earlier recording wrote there. Nothing is written yet.
    fn open(root: &Path) -> Result<Self, CommandError> {
        let list = root.join(LIST);
        refuse_link(&list)?;
        let before = match fs::read_to_string(&list) {
            Ok(text) => text.lines().map(str::to_owned).collect(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeSet::new(),
            Err(error) => {
                return Err(CommandError::invalid(format!(
                    "{}: {error}",
                    list.display()
                )));
            }
        };
        // The list may come from somebody else: no file outside is removed.
        if let Some(strange) = before.iter().find(|file| !is_ours(file)) {
            return Err(CommandError::invalid(format!(
                "{}: {strange:?} is no file of a recording: remove the line",
                list.display()
            )));
        }
        Ok(Self {
            root: root.to_owned(),
            before,
            now: BTreeMap::new(),
            changed: 0,
        })
    }

    /// Writes a file, unless it is there already.
    fn store(&mut self, namespace: &str, name: &str, text: &str) -> Result<(), CommandError> {
        let file = format!("{namespace}/{}.yaml", short(name));
        let path = self.root.join(&file);
        refuse_link(&self.root.join(namespace))?;
        let there = fs::read(&path);
        if there.as_ref().is_ok_and(|there| there == text.as_bytes()) {
            self.remember(namespace, file);
            return Ok(());
        }
        if there.is_ok() && !self.before.contains(&file) {
            return Err(CommandError::invalid(format!(
                "{}: no recording wrote this file, so none replaces it: move it, or record into another directory",
                path.display()
            )));
        }
        self.write(&path, text)?;
        self.changed += 1;
        self.remember(namespace, file);
        Ok(())
    }

    /// Keeps a file of an earlier recording as it is; false if there is none.
    fn keep(&mut self, namespace: &str, name: &str) -> bool {
        let file = format!("{namespace}/{}.yaml", short(name));
        let is_there = self.before.contains(&file);
        if is_there {
            self.remember(namespace, file);
        }
        is_there
    }

    fn remember(&mut self, namespace: &str, file: String) {
        let files = self.now.entry(namespace.to_owned()).or_default();
        files.insert(file);
    }

    /// How many objects were written, without the namespaces themselves.
    fn files(&self) -> usize {
        let files = self.now.values().map(|files| files.len().saturating_sub(1));
        files.sum()
    }

    /// Removes the files of objects that are gone, and writes the list; returns how many are gone.
    fn finish(&self) -> Result<usize, CommandError> {
        let now: BTreeSet<&String> = self.now.values().flatten().collect();
        let mut gone = 0;
        for file in self.before.iter().filter(|file| !now.contains(file)) {
            let path = self.root.join(file);
            refuse_link(path.parent().unwrap_or(&self.root))?;
            match fs::remove_file(&path) {
                Ok(()) => gone += 1,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    let failed = Err(error);
                    failed.with_context(|| format!("cannot remove {}", path.display()))?;
                }
            }
            if let Some(parent) = path.parent() {
                // Only an empty directory can be removed.
                let _others_are_there = fs::remove_dir(parent);
            }
        }
        self.write_list(&now)?;
        Ok(gone)
    }

    /// Removes nothing, and lists what this recording and the earlier one wrote: not everything could be read.
    fn keep_list(&self) -> Result<(), CommandError> {
        let now = self.now.values().flatten();
        self.write_list(&now.chain(&self.before).collect())
    }

    fn write_list(&self, files: &BTreeSet<&String>) -> Result<(), CommandError> {
        let lines = files.iter().flat_map(|file| [file.as_str(), "\n"]);
        self.write(&self.root.join(LIST), &lines.collect::<String>())
    }

    /// Replaces a file at once, so that no reader sees half of it.
    fn write(&self, path: &Path, text: &str) -> Result<(), CommandError> {
        let unfinished = self.root.join(UNFINISHED);
        let parent = path.parent().unwrap_or(&self.root);
        // One that an earlier recording left, or a link that somebody put there: it is not followed.
        let _none_is_there = fs::remove_file(&unfinished);
        let written = fs::create_dir_all(parent)
            .and_then(|()| fs::File::create_new(&unfinished))
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .and_then(|()| fs::rename(&unfinished, path));
        Ok(written.with_context(|| format!("cannot write {}", path.display()))?)
    }
}

/// A corpus may come from somebody else: no link leads a recording to other files.
fn refuse_link(path: &Path) -> Result<(), CommandError> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => Err(CommandError::invalid(format!(
            "{}: is a symbolic link, which a recording does not follow: remove it",
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// Whether a line of the list is the path of a recorded file: a directory and a YAML file.
fn is_ours(file: &str) -> bool {
    let path = Path::new(file);
    let parts: Vec<Component<'_>> = path.components().collect();
    let are_plain = parts.iter().all(|it| matches!(it, Component::Normal(_)));
    are_plain && parts.len() == 2 && path.extension().is_some_and(|it| it == "yaml")
}

/// A file's name may have 255 bytes, and an object's name nearly as many.
fn short(name: &str) -> String {
    match name.get(..LONGEST) {
        Some(start) if name.len() > LONGEST => {
            let digest = Sha256::digest(name.as_bytes());
            let digest: String = digest
                .iter()
                .take(8)
                .map(|it| format!("{it:02x}"))
                .collect();
            format!("{start}-{digest}")
        }
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests;
