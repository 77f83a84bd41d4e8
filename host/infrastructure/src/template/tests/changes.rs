//! What of a change is sent, and what is refused.

use super::*;

fn compared(wanted: &Value) -> Comparison {
    compare(&pool(1), wanted, &BTreeSet::new())
}

fn texts(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

#[track_caller]
fn refused(wanted: &Value) -> String {
    match compared(wanted) {
        Comparison::Unsupported(problems) => texts(&problems).join("; "),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_equal_template_is_the_same() {
    assert_eq!(compared(&pool(1)), Comparison::Same);
}

#[test]
fn values_that_are_different_or_new_are_sent_as_they_are() {
    let nodes = "/topology_template/node_templates";
    for wanted in [
        pool(3),
        with(&format!("{nodes}/front/name"), Some(json!("x"))),
        with(
            &format!("{nodes}/third"),
            Some(json!({ "type": "tosca.nodes.Compute" })),
        ),
        with(
            "/topology_template/outputs/third",
            Some(json!({ "value": "z" })),
        ),
    ] {
        let sent = Comparison::Update {
            sent: wanted.clone(),
            retired: Vec::new(),
        };
        assert_eq!(compared(&wanted), sent);
    }
    let mut wanted = pool(1);
    let list =
        "/topology_template/node_templates/workers/capabilities/scalable/properties/removal_list";
    *wanted.pointer_mut(list).unwrap() = json!(["1", "2"]);
    assert!(matches!(compared(&wanted), Comparison::Update { .. }));
}

#[test]
fn machines_that_are_gone_are_sent_with_no_instances_and_their_names_retire() {
    let nodes = "/topology_template/node_templates";
    let wanted = with(&format!("{nodes}/workers"), None);
    let Comparison::Update { sent, retired } = compared(&wanted) else {
        panic!()
    };
    assert_eq!(retired, ["workers"]);
    let properties = format!("{nodes}/workers/capabilities/scalable/properties");
    assert_eq!(sent.pointer(&properties), Some(&json!({ "count": 0 })));

    let wanted = with(&format!("{nodes}/front"), None);
    let Comparison::Update { sent, retired } = compared(&wanted) else {
        panic!()
    };
    assert_eq!(retired, ["front"]);
    let properties = format!("{nodes}/front/capabilities/scalable/properties");
    let none = json!({ "min_instances": 0, "max_instances": 0, "default_instances": 0 });
    assert_eq!(sent.pointer(&properties), Some(&none));
    // What the machine is stays.
    let host = format!("{nodes}/front/capabilities/host/properties/num_cpus");
    assert_eq!(sent.pointer(&host), Some(&json!(2)));
}

#[test]
fn what_the_im_may_keep_is_gone_without_a_request() {
    for path in [
        "/topology_template/outputs/other",
        "/topology_template/inputs/size",
        "/topology_template/inputs",
    ] {
        assert_eq!(compared(&with(path, None)), Comparison::LocalOnly, "{path}");
    }
    let described = with("/description", Some(json!("for tests")));
    assert_eq!(
        compare(&described, &pool(1), &BTreeSet::new()),
        Comparison::LocalOnly
    );
    let named = with("/metadata", Some(json!({ "author": "me" })));
    assert_eq!(
        compare(&named, &pool(1), &BTreeSet::new()),
        Comparison::LocalOnly
    );
}

#[test]
fn what_the_im_would_ignore_or_break_is_refused_with_its_path() {
    let nodes = "/topology_template/node_templates";
    let software = refused(&with(&format!("{nodes}/software"), None));
    assert_eq!(
        software,
        "topology_template.node_templates.software: it cannot be removed"
    );
    let key = refused(&with(&format!("{nodes}/front/capabilities"), None));
    assert!(key.starts_with("topology_template.node_templates.front.capabilities: "));
    let retyped = refused(&with(
        &format!("{nodes}/front/type"),
        Some(json!("example.Pool")),
    ));
    assert_eq!(
        retyped,
        "topology_template.node_templates.front.type: the type of a node cannot be changed"
    );
    let list = "workers/capabilities/scalable/properties/removal_list";
    let shorter = refused(&with(&format!("{nodes}/{list}"), Some(json!([]))));
    assert!(shorter.ends_with("removal_list: the list cannot become shorter"));
    // All of them at once, and nothing is sent.
    let mut wanted = with(&format!("{nodes}/software"), None);
    *wanted.pointer_mut(&format!("{nodes}/front/type")).unwrap() = json!("x");
    assert_eq!(refused(&wanted).split("; ").count(), 2);
}

/// IM takes null for nothing, and would keep what it has.
#[test]
fn an_item_cannot_become_null() {
    let (applied, wanted) = (json!({ "a": [1, null] }), json!({ "a": [null, null] }));
    let Comparison::Unsupported(problems) = compare(&applied, &wanted, &BTreeSet::new()) else {
        panic!()
    };
    assert_eq!(texts(&problems), ["a[0]: it cannot become null"]);
    assert!(matches!(
        compare(&wanted, &applied, &BTreeSet::new()),
        Comparison::Update { .. }
    ));
}

/// Values may have keys of these names, and IM would keep them.
#[test]
fn what_is_only_called_metadata_or_description_is_no_such_thing() {
    let nodes = "/topology_template/node_templates";
    for path in [
        "/topology_template/outputs/kubeconfig/value/metadata",
        "/topology_template/outputs/kubeconfig/value/description",
        "/topology_template/inputs/size/default/metadata",
        "/node_types/example.Pool/properties/description",
        &format!("{nodes}/front/properties/description"),
        &format!("{nodes}/front/interfaces/Standard/configure/inputs/metadata"),
    ] {
        let mut applied = pool(1);
        let mut place = &mut applied;
        for key in path.split('/').skip(1) {
            if !place.is_object() {
                *place = json!({});
            }
            place = place
                .as_object_mut()
                .unwrap()
                .entry(key)
                .or_insert(json!({}));
        }
        *place = json!("x");
        let mut wanted = applied.clone();
        let (parent, key) = path.rsplit_once('/').unwrap();
        let parent = wanted.pointer_mut(parent).unwrap();
        parent.as_object_mut().unwrap().remove(key);
        let compared = compare(&applied, &wanted, &BTreeSet::new());
        assert!(
            matches!(compared, Comparison::Unsupported(_)),
            "{path}: {compared:?}"
        );
    }
    for path in [
        "/topology_template/description",
        "/topology_template/outputs/other/description",
        "/topology_template/node_templates/front/description",
        "/topology_template/node_templates/front/metadata",
        "/node_types/example.Pool/description",
    ] {
        let described = with(path, Some(json!("x")));
        let compared = compare(&described, &pool(1), &BTreeSet::new());
        assert_eq!(compared, Comparison::LocalOnly, "{path}");
    }
    // Metadata means nothing, so a list in it may become shorter.
    let named = |list: Value| with("/metadata", Some(json!({ "authors": list })));
    let compared = compare(&named(json!([1, 2])), &named(json!([1])), &BTreeSet::new());
    assert_eq!(compared, Comparison::LocalOnly);
}

/// A template without nodes is one without machines, however it is written.
#[test]
fn all_nodes_can_go() {
    let machines = with("/topology_template/node_templates/software", None);
    let mut wanted = machines.clone();
    wanted["topology_template"]
        .as_object_mut()
        .unwrap()
        .remove("node_templates");
    let Comparison::Update { sent, retired } = compare(&machines, &wanted, &BTreeSet::new()) else {
        panic!()
    };
    assert_eq!(retired, ["front", "workers"]);
    let workers = &sent["topology_template"]["node_templates"]["workers"];
    assert_eq!(
        workers["capabilities"]["scalable"]["properties"],
        json!({ "count": 0 })
    );
    // Nor can the names come back with the section.
    let retired = retired.into_iter().collect();
    let Comparison::Unsupported(problems) = compare(&wanted, &machines, &retired) else {
        panic!()
    };
    assert_eq!(problems.len(), 2);
    // But something else in their place is not what IM understands.
    for path in ["/topology_template", "/topology_template/node_templates"] {
        let wanted = with(path, Some(json!([])));
        assert!(
            matches!(compared(&wanted), Comparison::Unsupported(_)),
            "{path}"
        );
    }
    let flat = refused(&with(
        "/topology_template/node_templates/front",
        Some(json!("x")),
    ));
    assert!(flat.ends_with("front: it must be an object"), "{flat}");
}

/// IM reads what is sent before it merges it: an input that a node without machines uses must be there.
#[test]
fn inputs_stay_as_long_as_nodes_without_machines_may_use_them() {
    let nodes = "/topology_template/node_templates";
    let mut wanted = with(&format!("{nodes}/workers"), None);
    wanted["topology_template"]
        .as_object_mut()
        .unwrap()
        .remove("inputs");
    let Comparison::Update { sent, .. } = compared(&wanted) else {
        panic!()
    };
    assert_eq!(
        sent["topology_template"]["inputs"],
        pool(1)["topology_template"]["inputs"]
    );
}

/// IM prefers a count to the numbers of instances, also one that is the default of a type.
#[test]
fn a_node_whose_type_has_a_count_is_removed_by_its_count() {
    let mut applied = pool(1);
    applied["node_types"]["example.Machine"]["capabilities"] =
        json!({ "scalable": { "type": "example.Scale" } });
    applied["capability_types"] = json!({
        "example.Scale": { "derived_from": "example.Base" },
        "example.Base": { "properties": { "count": { "type": "integer", "default": 3 } } },
    });
    applied["topology_template"]["node_templates"]["workers"] = json!({ "type": "example.Pool" });
    let mut wanted = applied.clone();
    wanted["topology_template"]["node_templates"]
        .as_object_mut()
        .unwrap()
        .remove("workers");
    let Comparison::Update { sent, .. } = compare(&applied, &wanted, &BTreeSet::new()) else {
        panic!()
    };
    let workers = &sent["topology_template"]["node_templates"]["workers"];
    assert_eq!(
        workers["capabilities"]["scalable"]["properties"],
        json!({ "count": 0 })
    );
}

/// A type that is derived from itself is no machine, and ends the search.
#[test]
fn types_that_are_derived_from_themselves_are_no_machines() {
    let nodes = "/topology_template/node_templates";
    let applied = with(
        &format!("{nodes}/odd"),
        Some(json!({ "type": "example.Loop" })),
    );
    let Comparison::Unsupported(problems) = compare(&applied, &pool(1), &BTreeSet::new()) else {
        panic!()
    };
    assert_eq!(
        texts(&problems),
        ["topology_template.node_templates.odd: it cannot be removed"]
    );
}

#[test]
fn the_name_of_a_node_that_was_removed_cannot_be_used_again() {
    let applied = with("/topology_template/node_templates/workers", None);
    let retired = BTreeSet::from(["workers".to_owned()]);
    let Comparison::Unsupported(problems) = compare(&applied, &pool(1), &retired) else {
        panic!()
    };
    let text = problems[0].to_string();
    assert!(text.starts_with("topology_template.node_templates.workers: "));
    assert_eq!(compare(&applied, &applied, &retired), Comparison::Same);
}
