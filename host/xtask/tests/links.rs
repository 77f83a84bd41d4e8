//! Checks that the links of all pages lead somewhere.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every page of the repository, including those not yet committed.
fn pages() -> Vec<String> {
    let output = Command::new("git")
        .args([
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
            "*.md",
        ])
        .current_dir(root())
        .output()
        .expect("git starts");
    let names = String::from_utf8(output.stdout).expect("names are UTF-8");
    let pages: Vec<String> = names
        .lines()
        .filter(|page| root().join(page).is_file())
        .map(str::to_owned)
        .collect();
    assert!(pages.len() > 5, "only {} pages found", pages.len());
    pages
}

/// The text outside of blocks of code, and of code in a line.
fn prose(page: &str) -> String {
    let mut in_block = false;
    let mut prose = String::new();
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            prose.push_str(line);
            prose.push('\n');
        }
    }
    prose
}

/// Where the links of a text lead: `[words](target)` and `[words]: target`.
fn targets(prose: &str) -> Vec<&str> {
    let inline = prose.split("](").skip(1);
    let inline = inline.filter_map(|rest| rest.split([')', ' ']).next());
    let definitions = prose.lines().filter(|line| line.starts_with('['));
    let definitions = definitions.filter_map(|line| Some(line.split_once("]: ")?.1));
    inline.chain(definitions).collect()
}

/// The anchor that a heading gets.
fn anchor(heading: &str) -> String {
    let kept = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = kept
        .chars()
        .filter(|kept| kept.is_alphanumeric() || matches!(kept, ' ' | '-' | '_'));
    kept.map(|kept| if kept == ' ' { '-' } else { kept })
        .collect()
}

fn anchors(prose: &str) -> BTreeSet<String> {
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    headings.map(anchor).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let mut offences = Vec::new();
    let mut links = 0;
    for page in pages() {
        let text = fs::read_to_string(root().join(&page)).expect("the page is there");
        let text = prose(&text);
        for target in targets(&text) {
            // An item of a crate, in a page that is its documentation.
            let is_item = !target.contains(['.', '/', '#']);
            if target.contains("://") || is_item {
                continue;
            }
            links += 1;
            let (file, part) = target.split_once('#').unwrap_or((target, ""));
            let home = root().join(&page);
            let path = match file {
                "" => home,
                file => home.parent().expect("a page is in a directory").join(file),
            };
            let is_there = match fs::read_to_string(&path) {
                Ok(text) => part.is_empty() || anchors(&prose(&text)).contains(part),
                Err(_) => part.is_empty() && path.exists(),
            };
            if !is_there {
                offences.push(format!("{page}: {target} leads nowhere"));
            }
        }
    }
    assert!(links > 50, "only {links} links found");
    assert!(offences.is_empty(), "\n{}", offences.join("\n"));
}

/// The alerts link to entries of a page of this repository, as a public host shows it.
#[test]
fn every_alert_links_to_an_entry() {
    let alerts = fs::read_to_string(root().join("deploy/monitoring/alerts.yaml"));
    let alerts = alerts.expect("the alerts are there");
    let links: BTreeSet<&str> = alerts
        .lines()
        .filter_map(|line| line.trim().strip_prefix("runbook_url: "))
        .collect();
    assert!(links.len() > 10, "{links:?}");
    for link in links {
        let path = link.strip_prefix("https://github.com/podloom/podloom/blob/main/");
        let (page, part) = path.and_then(|it| it.split_once('#')).expect("an entry");
        let text = fs::read_to_string(root().join(page)).expect("the page is there");
        assert!(
            anchors(&prose(&text)).contains(part),
            "{link} leads nowhere"
        );
    }
}

/// The pages of the SDK are also its documentation. `[words]` without a target leads somewhere there, but not in the file.
#[test]
fn the_sdks_pages_define_each_of_their_links() {
    for page in ["plugin-sdk/GUIDE.md", "plugin-sdk/TUTORIAL.md"] {
        let text = fs::read_to_string(root().join(page)).expect("the page is there");
        let text = prose(&text);
        let defined = |words: &str| text.contains(&format!("\n[{words}]: "));
        let used = text.split("[`").skip(1).filter_map(|rest| {
            let (words, after) = rest.split_once("`]")?;
            (!after.starts_with('(')).then_some(words)
        });
        for words in used {
            assert!(
                defined(&format!("`{words}`")),
                "{page}: [`{words}`] has no target"
            );
        }
    }
}
