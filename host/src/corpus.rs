//! `podloom corpus record`: keeps the pods of a cluster as files, on which chains and plugins are tried later.

mod conceal;
mod directory;

use std::collections::BTreeSet;

use anyhow::Context;
use podloom_api::{SelenosisApi, SelenosisKind};
use serde_json::{Value, json};

use self::directory::{Directory, Stored};
use crate::cli::RecordArguments;
use crate::error::CommandError;
use crate::explain::count;
use crate::feed::{KINDS, Reading, Skipped, Submitted, cleaned, field, name, no_pod, submitted};
use crate::lists::{Pages, Place};
use crate::output;

/// Records the objects of the cluster in a directory.
pub(crate) fn record(arguments: &RecordArguments) -> Result<(), CommandError> {
    let directory = Directory::open(&arguments.directory)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let recording = runtime.block_on(async {
        let reading = Reading::begin(arguments.into()).await?;
        let mut recording = Recording {
            reading,
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
    let keeps_values = recording.keeps_values;
    let recorded = recording.conclude()?;
    recorded.report(&arguments.directory.display().to_string(), keeps_values)
}

/// What a recording did.
struct Recorded {
    stored: Stored,
    gone: usize,
    skipped: Vec<Skipped>,
}

struct Recording {
    reading: Reading,
    directory: Directory,
    keeps_values: bool,
    /// Those of recorded objects.
    namespaces: BTreeSet<String>,
    /// Whether an object with pods was recorded: BrowserConfigs alone have none.
    has_pods: bool,
}

/// What is recorded besides Kubernetes' own kinds.
const SELENOSIS: [SelenosisKind; 2] = [SelenosisKind::BrowserConfig, SelenosisKind::Browser];

impl Recording {
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
                let namespace = field(&object, "namespace");
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
        let file = format!("{kind}.{group}{}", name(&object));
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

    /// Removes the files of objects that are gone, and lists the others. A directory without a pod must not look like a corpus.
    fn conclude(mut self) -> Result<Recorded, CommandError> {
        let unread = std::mem::take(&mut self.reading.skipped);
        // Nobody knows whether what could not be read is gone.
        let knows_all = unread.is_empty();
        let skipped = [unread, self.reading.left_out()].concat();
        if !self.has_pods {
            if self.directory.stored().files > 0 {
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
        Ok(Recorded {
            stored: self.directory.stored(),
            gone,
            skipped,
        })
    }
}

impl Recorded {
    fn report(&self, directory: &str, keeps_values: bool) -> Result<(), CommandError> {
        let Stored {
            files,
            namespaces,
            changed,
        } = self.stored;
        let mut text = format!(
            "{} of {} in {directory}: {} new or changed, {} gone\n",
            count(files, "object"),
            count(namespaces, "namespace"),
            count(changed, "file"),
            self.gone,
        );
        for Skipped { what, why } in &self.skipped {
            text.push_str(&format!("skipped: {what}: {why}\n"));
        }
        output::print(&text)?;
        if !keeps_values {
            output::print_note(
                "values of env, args, commands, HTTP headers, queries of HTTP probes and volumes' drivers are placeholders; labels, annotations, names and images are as in the cluster: look at them before you commit\n",
            );
        }
        Ok(())
    }
}
