//! Edits of chain.yaml that keep everything else.

mod files;

use super::{PluginEdit, change_grants, have_read};

const BLOCK: &str = "\
# The chain.
plugins:
- name: one   # the first
  file: one.wasm
  allow:
  # labels of the team
  - /metadata/labels/team   # theirs
  - \"/metadata/labels\"
  # nobody knows
  - '/spec/volumes'
  read: ['/spec', \"/metadata/annotations\", /metadata/labels] # all
  config: {a: 0644}
- {name: two, file: one.wasm, allow: ['/spec/containers/*/env/[name=A]', /spec/nodeName], match: {kinds: [Pod]}}
";

fn lists(lists: &[&[&str]]) -> Vec<Vec<String>> {
    let list = |list: &&[&str]| list.iter().map(|path| (*path).to_owned()).collect();
    lists.iter().map(list).collect()
}

fn changed(edits: &[PluginEdit]) -> String {
    change_grants(BLOCK, edits).expect("it can be changed")
}

#[test]
fn nothing_changes_nothing() {
    assert_eq!(
        changed(&[PluginEdit::default(), PluginEdit::default()]),
        BLOCK
    );
    assert_eq!(have_read(BLOCK), [true, false]);
}

#[test]
fn entries_are_dropped_and_replaced_where_they_stand() {
    let one = PluginEdit {
        allow: Some(lists(&[
            &["/metadata/labels/team"],
            &["/metadata/labels/a", "/metadata/labels/b"],
            &[],
        ])),
        read: Some(lists(&[
            &["/spec/containers/[name=a]", "/spec/nodeName"],
            &[],
            &["/metadata/labels"],
        ])),
        new_read: None,
    };
    let two = PluginEdit {
        allow: Some(lists(&[&[], &["/spec/nodeName"]])),
        read: None,
        new_read: Some(vec!["/spec/containers/*/env/[name=A]".to_owned()]),
    };
    insta::assert_snapshot!(changed(&[one, two]));
}

#[test]
fn a_list_may_become_empty() {
    let one = PluginEdit {
        allow: Some(lists(&[&[], &[], &[]])),
        read: Some(lists(&[&[], &[], &[]])),
        new_read: None,
    };
    let two = PluginEdit {
        allow: Some(lists(&[&[], &[]])),
        ..PluginEdit::default()
    };
    insta::assert_snapshot!(changed(&[one, two]));
}

#[test]
fn a_new_list_stands_behind_the_other_one() {
    let text = "plugins:\n- allow:\n  - /spec/a\n  - /spec/b\n- name: x\n  allow: [\n    /spec/a, # first\n    /spec/b, # second\n  ]\n- allow: [/spec/c]";
    let new_read = Some(vec!["/metadata".to_owned(), "it's".to_owned()]);
    let one = PluginEdit {
        allow: Some(lists(&[&[], &[]])),
        read: None,
        new_read: new_read.clone(),
    };
    let two = PluginEdit {
        allow: Some(lists(&[&["/spec/a"], &["/spec/c"]])),
        read: None,
        new_read: new_read.clone(),
    };
    let three = PluginEdit {
        new_read,
        ..PluginEdit::default()
    };
    insta::assert_snapshot!(change_grants(text, &[one, two, three]).expect("it can be changed"));
}

/// Both plugins have the same list, but only one of them is changed.
#[test]
fn what_cannot_be_changed_in_place_is_refused() {
    let shared =
        "plugins:\n- name: a\n  allow: &paths [/spec/a, /spec/b]\n- name: b\n  allow: *paths\n";
    let one = PluginEdit {
        allow: Some(lists(&[&["/spec/a"], &[]])),
        ..PluginEdit::default()
    };
    let nothing = PluginEdit::default();
    assert_eq!(change_grants(shared, &[one, nothing]), None);
    let folded = "plugins:\n- name: a\n  allow:\n  - >-\n    /spec/a\n  - /spec/b\n";
    let drop = PluginEdit {
        allow: Some(lists(&[&[], &["/spec/b"]])),
        ..PluginEdit::default()
    };
    assert_eq!(change_grants(folded, &[drop]), None);
}
