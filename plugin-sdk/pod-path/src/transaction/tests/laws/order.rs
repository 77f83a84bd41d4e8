//! Plugins whose grants do not meet come out the same in both orders, whatever they do: with equal answers and equal pods.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, Strategy, prop_oneof, proptest};
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

use super::super::Transaction;
use super::secrecy::{Ask, PathTemplate, answer, any_pod, ask};
use crate::{Access, Grants};

const GRANTS: [&str; 19] = [
    "/metadata/labels",
    "/metadata/labels/x",
    "/metadata/labels/y",
    "/metadata/annotations/x",
    "/spec/hostNetwork",
    "/spec/volumes",
    "/spec/containers/*",
    "/spec/containers/*/image",
    "/spec/containers/*/name",
    "/spec/containers/*/env/*/name",
    "/spec/containers/*/env/[name=A]",
    "/spec/containers/[name=a]",
    "/spec/containers/[name=c]",
    "/spec/containers/[name=a]/image",
    "/spec/containers/[name=b]/env/[value=x]",
    "/spec/containers/[image=x]/env",
    "/spec/volumes/[name=a]",
    "/spec/volumes/[name=b]/image",
    "/spec/new/*/kind",
];

/// One plugin: its grants, and what it asks for.
#[derive(Clone, Debug)]
struct Script {
    reads: Vec<&'static str>,
    writes: Vec<&'static str>,
    asks: Vec<Ask>,
}

impl Script {
    fn access(&self) -> Access {
        let writes = Grants::parse_writes(&self.writes).unwrap();
        Access::new(Grants::parse(&self.reads).unwrap(), writes)
    }

    /// The pod after it, and what it was answered.
    fn run(&self, pod: Value) -> (Value, Vec<String>) {
        let grants: Vec<&str> = self.reads.iter().chain(&self.writes).copied().collect();
        let mut pod = Transaction::begin(pod, Arc::new(self.access()), [].into());
        let asks = self.asks.iter();
        let answers = asks.map(|ask| format!("{:?}", answer(&mut pod, ask, &grants)));
        let answers = answers.collect();
        (pod.commit().0, answers)
    }
}

fn script() -> impl Strategy<Value = Script> {
    let grants = |most| subsequence(GRANTS.to_vec(), 0..=most);
    (grants(1), grants(2)).prop_flat_map(|(reads, writes)| {
        let own: Vec<&str> = reads.iter().chain(&writes).copied().collect();
        let asks = match own.is_empty() {
            true => vec(ask(), 1..10).boxed(),
            false => vec(prop_oneof![ask(), probe(own)], 1..10).boxed(),
        };
        asks.prop_map(move |asks| Script {
            reads: reads.clone(),
            writes: writes.clone(),
            asks,
        })
    })
}

/// What finds out about a granted path, or changes it or what it is in.
fn probe(grants: Vec<&'static str>) -> impl Strategy<Value = Ask> {
    let values = vec!["\"x\"", "{}", "[]", r#"{"image":"x"}"#];
    (select(grants), 0..6_usize, select(values)).prop_map(|(grant, kind, value)| {
        let parent = grant.rsplit_once('/').map_or("", |(parent, _)| parent);
        let [place, parent] = [grant, parent].map(PathTemplate::Fixed);
        match kind {
            0 => Ask::View(PathTemplate::Fixed(""), grant),
            1 => Ask::Get(place),
            2 => Ask::Keys(parent),
            3 => Ask::Set(parent, value),
            _ => Ask::Set(place, value),
        }
    })
}

/// With what all pods of a cluster have.
fn pod() -> impl Strategy<Value = Value> {
    any_pod().prop_map(|mut pod| {
        for (path, key, default) in [
            ("", "metadata", json!({})),
            ("", "spec", json!({})),
            ("/spec", "containers", json!([])),
        ] {
            let parent = pod.pointer_mut(path).unwrap();
            let own = &mut parent[key];
            if own.is_object() != default.is_object() || own.is_array() != default.is_array() {
                *own = default;
            }
        }
        pod
    })
}

proptest! {
    // Most pairs have grants that meet.
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(1000), ..ProptestConfig::default() })]

    #[test]
    fn plugins_that_commute_do_the_same_in_both_orders(pod in pod(), one in script(), other in script()) {
        let (first, second) = (one.access(), other.access());
        if first.disturbs(&second).is_none() && second.disturbs(&first).is_none() {
            let (after_one, answers_one) = one.run(pod.clone());
            let (after_both, answers_other) = other.run(after_one);
            let (after_other, other_first) = other.run(pod);
            let (other_way, one_second) = one.run(after_other);
            assert_eq!((answers_one, answers_other), (one_second, other_first));
            assert_eq!(after_both.to_string(), other_way.to_string());
        }
    }
}
