//! `podloom chain tighten`: the smallest `allow` and `read` with which every pod comes out the same.
//!
//! `search` records what each plugin uses of its grants, proposes less, and tries it on all pods until they come out the same with the
//! fewest grants. `edit` changes chain.yaml accordingly, and nothing else in it.

mod corpus;
mod edit;
mod narrow;
mod propose;
mod report;
mod search;
#[cfg(test)]
mod tests;
mod write;

use std::path::Path;

use podloom_mutators::{Bundle, Chain, MANIFEST, PluginGrants};

use self::corpus::Corpus;
use self::edit::{PluginEdit, Replaced};
use self::narrow::covers;
use self::report::Report;
use self::search::{Search, Used};
use crate::cli::TightenArguments;
use crate::error::{CommandError, Diagnostic};
use crate::feed::Skipped;
use crate::render::diff;
use crate::{load, output};

/// Finds the fewest grants, reports them, and writes them or shows the change.
pub(crate) fn run(arguments: &TightenArguments) -> Result<(), CommandError> {
    let directory = &arguments.directory;
    let bundle = load::bundle(directory)?;
    if arguments.write {
        write::check(directory)?;
    }
    let engine = load::engine_for_many_pods()?;
    let chain = load::compile(&engine, directory, &bundle)?;
    let corpus = Corpus::read(&arguments.pods)?;
    let used = Used::record(&chain, &corpus)?;
    warn(&chain, &corpus, &used);
    let old = String::from_utf8_lossy(bundle.manifest()).into_owned();
    let search = Search {
        chain: &chain,
        corpus: &corpus,
        used: &used,
        have_read: &edit::have_read(&old),
    };
    let grants = search.run()?;
    let report = Report {
        chain: &chain,
        corpus: &corpus,
        used: &used,
        grants: &grants,
    };
    output::print(&report.text())?;
    let new = tightened(&old, &chain, &grants).ok_or_else(|| cannot_edit(directory))?;
    verify(&bundle, &chain, &new, &grants).ok_or_else(|| cannot_edit(directory))?;
    if new == old {
        return output::print(&format!(
            "{} stays as it is: every grant is used, or declared by its plugin\n",
            shown(directory)
        ));
    }
    if arguments.write {
        write::replace(directory, &old, &new)?;
        return output::print(&format!("written to {}\n", shown(directory)));
    }
    let title = shown(directory);
    output::print(&diff::unified(
        &old,
        &new,
        &title,
        &format!("{title}, tightened"),
    ))?;
    output::print_note("nothing was written; --write changes the file\n");
    Ok(())
}

/// Warns of what the report cannot know.
fn warn(chain: &Chain, corpus: &Corpus, used: &Used) {
    for Skipped { what, why } in &corpus.skipped {
        output::warn(&Diagnostic::new(format!("skipped: {what}: {why}")));
    }
    let plugins = chain.plugins().iter().zip(&used.plugins);
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
    let have_read = edit::have_read(text);
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
    edit::change(text, &edits.collect::<Vec<_>>()).ok()
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
    let sorted = |grants: Vec<PluginGrants>| -> Vec<PluginGrants> {
        let sorted = grants.into_iter().map(
            |PluginGrants {
                 mut allow,
                 mut read,
             }| {
                allow.sort();
                read.sort();
                PluginGrants { allow, read }
            },
        );
        sorted.collect()
    };
    (sorted(loaded.grants()) == sorted(grants.to_vec())).then_some(())
}
