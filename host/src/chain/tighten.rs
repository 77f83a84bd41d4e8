//! `podloom chain tighten`: the smallest `allow` and `read` with which every pod comes out the same.
//!
//! `search` records what each plugin uses of its grants, proposes less, and tries it on all pods until they come out the same with the
//! fewest grants. `chain::edit` changes chain.yaml accordingly, and nothing else in it.

mod report;
mod search;

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::available_parallelism;
use std::{fs, io, thread};

use anyhow::{Context, anyhow};
use podloom_mutation::PodRequest;
use podloom_mutators::{Bundle, Chain, MANIFEST, PluginGrants};
use serde_json::Value;
use tokio::sync::mpsc::{self, Receiver};

use self::search::{Search, covers};
use super::edit::{PluginEdit, Replaced, change_grants, have_read};
use crate::cli::{PodArguments, TightenArguments};
use crate::error::{CommandError, Diagnostic};
use crate::feed::{Feed, FoundPod, Skipped, block_on, no_pod};
use crate::render::unified;
use crate::{load, output};

/// Finds the fewest grants, reports them, and writes them or shows the change.
pub(crate) fn run(arguments: &TightenArguments) -> Result<(), CommandError> {
    let directory = &arguments.directory;
    let bundle = load::bundle(directory)?;
    if arguments.write {
        check(directory)?;
    }
    let engine = load::engine_for_many_pods()?;
    let chain = load::compile(&engine, directory, &bundle)?;
    let corpus = Corpus::read(&arguments.pods)?;
    let old = String::from_utf8_lossy(bundle.manifest()).into_owned();
    let search = Search::begin(&chain, &corpus, have_read(&old))?;
    warn(&search);
    let grants = search.run()?;
    output::print(&report::text(&search, &grants))?;
    let new = tightened(&old, &chain, &grants).ok_or_else(|| cannot_edit(directory))?;
    verify(&bundle, &chain, &new, &grants).ok_or_else(|| cannot_edit(directory))?;
    if new == old {
        return output::print(&format!(
            "{} stays as it is: every grant is used, or declared by its plugin\n",
            shown(directory)
        ));
    }
    if arguments.write {
        replace(directory, &old, &new)?;
        return output::print(&format!("written to {}\n", shown(directory)));
    }
    let title = shown(directory);
    output::print(&unified(&old, &new, &title, &format!("{title}, tightened")))?;
    output::print_note("nothing was written; --write changes the file\n");
    Ok(())
}

/// Warns of what the report cannot know.
fn warn(search: &Search<'_>) {
    for skipped in &search.corpus.skipped {
        output::warn(&Diagnostic::new(skipped.to_string()));
    }
    let plugins = search.chain.plugins().iter().zip(&search.used);
    for (plugin, _) in plugins.filter(|(_, used)| used.pods == 0) {
        output::warn(&Diagnostic::new(format!(
            "plugin {} was called for none of these pods, so nothing shows what it uses: it keeps only what it declares",
            plugin.name
        )));
    }
}

fn shown(directory: &Path) -> String {
    directory.join(MANIFEST).display().to_string()
}

fn cannot_edit(directory: &Path) -> CommandError {
    CommandError::invalid(format!(
        "{}: the lists are written in a way that cannot be changed in place, such as aliases or folded text; change them by hand as reported above",
        shown(directory)
    ))
}

/// The text of chain.yaml with these grants; none if it cannot be changed in place.
fn tightened(text: &str, chain: &Chain, grants: &[PluginGrants]) -> Option<String> {
    let have_read = have_read(text);
    let plugins = chain.plugins().iter().zip(grants).zip(have_read);
    let edits = plugins.map(|((plugin, grants), has_read)| {
        let (allow, _) = replaced(&plugin.allow, &grants.allow);
        let (mut read, more) = replaced(&plugin.read, &grants.read);
        let reads_change = grants.read != plugin.read;
        // A list of its own may have no entry to put more behind.
        if let Some(last) = read.last_mut() {
            last.extend(more);
        }
        PluginEdit {
            allow: (grants.allow != plugin.allow).then_some(allow),
            read: (reads_change && has_read).then_some(read),
            new_read: (reads_change && !has_read).then(|| grants.read.clone()),
        }
    });
    change_grants(text, &edits.collect::<Vec<_>>())
}

/// What stands in the place of each entry, and what was covered by none.
fn replaced(before: &[String], after: &[String]) -> (Replaced, Vec<String>) {
    let mut lists: Replaced = before.iter().map(|_| Vec::new()).collect();
    let mut more = Vec::new();
    for path in after {
        let same = before.iter().position(|own| own == path);
        let above = || before.iter().position(|own| covers(own, path));
        match same.or_else(above).and_then(|at| lists.get_mut(at)) {
            Some(list) => list.push(path.clone()),
            None => more.push(path.clone()),
        }
    }
    (lists, more)
}

/// Loads the new text: it must grant what was tried, and nothing else may be different.
fn verify(bundle: &Bundle, chain: &Chain, text: &str, grants: &[PluginGrants]) -> Option<()> {
    let files = bundle
        .files()
        .map(|(name, bytes)| (name.to_owned(), bytes.to_owned()));
    let bundle = Bundle::from_parts(text, files).ok()?;
    let loaded = Chain::load_after(chain, &bundle).ok()?;
    let sorted = |mut grants: Vec<PluginGrants>| {
        for plugin in &mut grants {
            plugin.allow.sort();
            plugin.read.sort();
        }
        grants
    };
    (sorted(loaded.grants()) == sorted(grants.to_vec())).then_some(())
}

// The pods that a chain is tightened on. They are read once, and then tried many times.

/// How many pods wait to be kept.
const QUEUE: usize = 64;
/// How many bytes of pods are kept.
const MOST: usize = 512 << 20;

/// Pods, and how they came to the chain.
struct Corpus {
    /// As text: a tenth of what values take.
    pods: Vec<(String, Arc<PodRequest>)>,
    skipped: Vec<Skipped>,
}

impl Corpus {
    fn read(arguments: &PodArguments) -> Result<Self, CommandError> {
        let feed = Feed::open(arguments)?;
        let (pods, queue) = mpsc::channel(QUEUE);
        let both = async { tokio::try_join!(feed.run(pods), keep(queue)) };
        let (skipped, pods) = block_on(both)?;
        match pods.is_empty() {
            true => Err(no_pod(&skipped)),
            false => Ok(Self { pods, skipped }),
        }
    }

    #[cfg(test)]
    fn of(pods: &[Value], request: &Arc<PodRequest>) -> Self {
        let kept = pods
            .iter()
            .map(|pod| (pod.to_string(), Arc::clone(request)));
        Self {
            pods: kept.collect(),
            skipped: Vec::new(),
        }
    }

    fn len(&self) -> usize {
        self.pods.len()
    }

    /// Does some work with each pod, on all processors, until it returns false for one.
    fn each(
        &self,
        work: impl Fn(Value, &Arc<PodRequest>) -> bool + Sync,
    ) -> Result<(), CommandError> {
        let (next, goes_on) = (AtomicUsize::new(0), AtomicBool::new(true));
        let take = || {
            while goes_on.load(Ordering::Relaxed) {
                let Some((text, request)) = self.pods.get(next.fetch_add(1, Ordering::Relaxed))
                else {
                    return Ok(());
                };
                let pod = serde_json::from_str(text).context("a kept pod is JSON")?;
                let worked = catch_unwind(AssertUnwindSafe(|| work(pod, request)));
                match worked {
                    Ok(true) => {}
                    Ok(false) => goes_on.store(false, Ordering::Relaxed),
                    Err(_) => return Err(panicked()),
                }
            }
            Ok(())
        };
        let threads = available_parallelism().map_or(1, NonZeroUsize::get);
        let ended: Result<Vec<()>, anyhow::Error> = thread::scope(|scope| {
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(take)).collect();
            let ends = threads.into_iter().map(|thread| thread.join());
            ends.map(|end| end.unwrap_or_else(|_| Err(panicked())))
                .collect()
        });
        Ok(ended.map(drop)?)
    }
}

fn panicked() -> anyhow::Error {
    anyhow!("the chain panicked, which is a bug of podloom")
}

async fn keep(
    mut queue: Receiver<FoundPod>,
) -> Result<Vec<(String, Arc<PodRequest>)>, CommandError> {
    let (mut pods, mut bytes) = (Vec::new(), 0_usize);
    while let Some(FoundPod { subject, .. }) = queue.recv().await {
        let text = subject.pod.to_string();
        bytes = bytes.saturating_add(text.len());
        if bytes > MOST {
            return Err(CommandError::invalid(format!(
                "the pods take more than {} MiB, and all are kept to be tried again; choose fewer, with -n or -l for a cluster",
                MOST >> 20
            )));
        }
        pods.push((text, Arc::new(subject.request)));
    }
    Ok(pods)
}

// Replaces chain.yaml as one step.

/// Refuses a directory whose chain.yaml cannot be replaced.
fn check(directory: &Path) -> Result<(), CommandError> {
    let path = directory.join(MANIFEST);
    let found = fs::symlink_metadata(&path);
    match found.with_context(|| format!("cannot look at {}", path.display()))? {
        found if found.is_symlink() => Err(CommandError::invalid(format!(
            "{}: it is a symbolic link, as in a mounted ConfigMap; run this without --write, and edit what the link is made from",
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// Writes the new text, unless the file is no longer the one that was read.
fn replace(directory: &Path, old: &str, new: &str) -> Result<(), CommandError> {
    check(directory)?;
    let path = directory.join(MANIFEST);
    let failed = || format!("cannot write {}", path.display());
    if fs::read(&path).with_context(failed)? != old.as_bytes() {
        return Err(CommandError::invalid(format!(
            "{}: somebody changed it meanwhile, so nothing was written; run this again",
            path.display()
        )));
    }
    let beside = directory.join(format!(".{MANIFEST}.{}", std::process::id()));
    let written = write(&beside, &path, new).and_then(|()| fs::rename(&beside, &path));
    if written.is_err() {
        // It may not exist.
        let _ignored = fs::remove_file(&beside);
    }
    Ok(written.with_context(failed)?)
}

fn write(beside: &Path, path: &Path, text: &str) -> io::Result<()> {
    let mut file: File = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(beside)?;
    file.set_permissions(fs::metadata(path)?.permissions())?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests;
