//! The operator is killed in any write of a session's life or right after it, or it loses that write or its answer: still the session
//! has one pod, ends as without it, and leaves nothing.

use podloom_tests::faults::{Fault, RequestFilter, Rule};
use podloom_tests::lives::{Lives, chosen, is_whole};
use podloom_tests::{Cluster, blackbox_on};

/// More writes than any session needs.
const WRITES: u64 = 12;

/// How a pod behaves, and the end that clients see. Without one, the user deletes the Browser: when it runs, or while no operator does.
const LIVES: [(&str, Option<&str>); 3] = [
    (
        "browser-exits",
        Some("Failed Error: container browser terminated: Error (exit code 1)"),
    ),
    (
        "succeeds-later",
        Some("Succeeded Completed: all containers completed"),
    ),
    ("running", None),
];

/// A fault in the write of this number, or in it and all that follow.
fn at_write(number: u64, times: Option<u64>, fault: Fault) -> Rule {
    let resources = ["browsers", "browsers/status", "pods"];
    Rule {
        on: RequestFilter {
            verbs: vec!["write".to_owned()],
            resources: resources.map(str::to_owned).into(),
            path: String::new(),
        },
        after: number,
        times,
        fault,
    }
}

/// What happens to the operator.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    /// It is killed when each session is over or waits for an answer that never comes, and another one starts.
    Dies,
    Lives,
}

/// Lives each life with the faults in each of its writes, all at once.
fn each_write<const N: usize>(name: &str, faults: impl Fn(u64) -> [Rule; N], fate: Fate) {
    blackbox_on(Cluster::without_operator, name, async |scene| {
        let each = LIVES
            .into_iter()
            .flat_map(|life| (0..WRITES).map(move |number| (life, number)));
        let cases = chosen(name, each.collect());
        let mut lives = Lives::new(&scene, cases.len()).await;
        lives.set_rules(cases.iter().map(|(_, number)| faults(*number)));
        for (session, ((version, _), _)) in lives.sessions.iter().zip(&cases) {
            session.begin(version).await;
        }
        let ends: Vec<_> = cases.iter().map(|((_, end), _)| *end).collect();
        let hits = goes_on::<N>(&mut lives, &ends, fate).await;
        for (session, end) in lives.sessions.iter().zip(ends) {
            let story = session.ends().await;
            let pods = session.pods.uids(session.name()).len();
            let is_right = match end {
                Some(end) => pods == 1 && story.ends_with(&[end.to_owned(), "gone".to_owned()]),
                None => pods <= 1 && !story.iter().any(|line| line.starts_with("Failed")),
            };
            assert!(is_right, "{}: {pods} pods, {story:?}", session.name());
        }
        // The finalizer, the pod, two statuses or three, the deletions of pod and Browser, and the finalizer again.
        for (version, _) in LIVES.into_iter().filter(|_| is_whole()) {
            let of_life = cases
                .iter()
                .zip(&hits)
                .filter(|(case, _)| case.0.0 == version);
            let writes: Vec<u64> = of_life.map(|(_, hits)| hits[0].min(1)).collect();
            let count = writes.iter().sum();
            assert!((6..WRITES).contains(&count), "{version}: {writes:?}");
        }
    });
}

/// Lets the sessions go on as far as they can, and kills the operator there if that is its fate. Returns how often each rule was applied.
async fn goes_on<const N: usize>(
    lives: &mut Lives,
    ends: &[Option<&str>],
    fate: Fate,
) -> Vec<[u64; N]> {
    let hangs = |hits: [u64; N]| fate == Fate::Dies && hits[N - 1] > 0;
    lives
        .until_each("runs, or its operator hangs", |session, hits| {
            hangs(hits) || session.runs() || session.is_gone()
        })
        .await;
    let hung: Vec<bool> = lives.hits().into_iter().map(hangs).collect();
    let delete = async |lives: &Lives, if_hung: bool| {
        for ((session, end), hung) in lives.sessions.iter().zip(ends).zip(&hung) {
            if end.is_none() && *hung == if_hung {
                session.scene.delete_browser(session.name()).await;
            }
        }
    };
    delete(lives, false).await;
    lives
        .until_each("is gone, or its operator hangs", |session, hits| {
            hangs(hits) || session.is_gone()
        })
        .await;
    let hits = lives.hits();
    if fate == Fate::Dies {
        lives.operator.kill();
        delete(lives, true).await;
        lives.heal();
        lives.operator.restart();
        lives.operator.ready().await;
    }
    hits
}

#[test]
fn killed_in_any_write_it_goes_on() {
    let hangs = |number| [at_write(number, None, Fault::Stall)];
    each_write("browser-killed-in", hangs, Fate::Dies);
}

#[test]
fn killed_after_any_write_it_goes_on() {
    // Its next write, which may repeat this one, never arrives.
    let is_cut = |number| {
        [
            at_write(number, Some(1), Fault::Cut),
            at_write(number, None, Fault::Stall),
        ]
    };
    each_write("browser-killed-after", is_cut, Fate::Dies);
}

#[test]
fn whichever_write_is_lost_it_goes_on() {
    let is_lost = |number| [at_write(number, Some(1), Fault::Drop)];
    each_write("browser-lost-writes", is_lost, Fate::Lives);
}

#[test]
fn whichever_answer_is_lost_it_goes_on() {
    let is_cut = |number| [at_write(number, Some(1), Fault::Cut)];
    each_write("browser-lost-answers", is_cut, Fate::Lives);
}
