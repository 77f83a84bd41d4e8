//! Everything that is measured of our own webhook.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hyper::body::Bytes;

use crate::chains::{ChainUnderTest, Files};
use crate::client::Target;
use crate::kubewarden::Kubewarden;
use crate::limit::Limit;
use crate::operator::Served;
use crate::paced::{Disturbances, Paced};
use crate::report::{Goal, Measured, Report, count, rounded};
use crate::schedule::Schedule;
use crate::{Arguments, rollout, rows};

/// The row that the goals are about.
const THREE: &str = "three plugins, TLS";
/// Twice as many reviews are due as can be answered.
const OVERLOAD: &str = "three plugins, TLS, overload";
/// The highest rate, at most as many as are answered in overload. It is lower, since a server that keeps up wakes for each review.
const HIGHEST: &str = "three plugins, TLS, highest rate";
/// By which share a rate is lowered at which reviews pile up: 999 of 1,000 take longer than the goal.
const LOWER: f64 = 0.05;
const KUBEWARDEN: &str = "Kubewarden's policy-server, TLS";
const LIMIT: &str = "limit: the same answer without any work, TLS";

const CPU: Goal = Goal {
    key: "webhook_cpu_ms",
    what: "CPU ms each, most connections, against the limit",
    most: Some(0.1),
};
const CPU_ALONE: Goal = Goal {
    key: "webhook_cpu_ms_alone",
    what: "CPU ms each, one connection, against the limit",
    most: None,
};
// Kubewarden 1.35 with one policy that sets two labels needed 1.22 ms for each review, alone and together.
const KUBEWARDEN_CPU: Goal = Goal {
    key: "kubewarden_cpu_share",
    what: "CPU, share of Kubewarden's, most connections",
    most: Some(0.14),
};
const KUBEWARDEN_CPU_ALONE: Goal = Goal {
    key: "kubewarden_cpu_share_alone",
    what: "CPU, share of Kubewarden's, one connection",
    most: Some(0.2),
};
const KUBEWARDEN_P99: Goal = Goal {
    key: "kubewarden_p99_share",
    what: "p99, share of Kubewarden's, most connections",
    most: Some(0.25),
};
const RATE: Goal = Goal {
    key: "webhook_highest_rate",
    what: "reviews a second, highest rate, three plugins, TLS",
    most: None,
};
const LATENCY: Goal = Goal {
    key: "webhook_p999_ms",
    what: "p99.9 at a fixed rate, ms, against no disturbance",
    most: Some(50.0),
};
const FAILURES: Goal = Goal {
    key: "webhook_failures",
    what: "failed reviews at a fixed rate",
    most: Some(0.0),
};
const START: Goal = Goal {
    key: "cold_start_seconds",
    what: "from its start to its first answer, s, median",
    most: Some(1.0),
};

/// The longest row at a fixed rate that is only there to compare, in seconds.
const CALM: u64 = 10;
/// How often the operator is started, for the median.
const STARTS: usize = 5;

pub(crate) async fn measure(arguments: &Arguments, review: &Bytes) -> Result<Report> {
    let (Some(podloom), Some(plugins)) = (&arguments.podloom, &arguments.plugins) else {
        bail!("name the operator with --podloom and its plugins with --plugins");
    };
    let mut report = Report::default();
    if arguments.rollout {
        rollout::measure(arguments, podloom, plugins, review, &mut report).await?;
        return Ok(report);
    }
    for chain in ChainUnderTest::ALL {
        let files = chain.files(plugins)?;
        for (tls, transport) in [(true, "TLS"), (false, "plain")] {
            let served = Served::start(podloom, &files, tls, review).await?;
            let (target, pid) = (served.target()?, Some(served.id()));
            let name = format!("{}, {transport}", chain.name());
            let is_first = report.rows.is_empty();
            let measured = rows(arguments, &target, pid, review, name).await?;
            report.rows.extend(measured);
            if is_first {
                // With the same answer, and at nearly the same time.
                let answer = target.ask(&mut target.connect().await?, review).await?;
                report.rows.extend(limit(arguments, &answer, review).await?);
                report.rows.extend(kubewarden(arguments, review).await?);
            }
        }
    }
    alone_and_together(arguments, &mut report);
    let files = ChainUnderTest::Three.files(plugins)?;
    start(podloom, &files, review, &mut report).await?;
    at_a_fixed_rate(arguments, (podloom, files), review, &mut report).await?;
    Ok(report)
}

/// The rows of a server that does nothing but answer.
async fn limit(arguments: &Arguments, answer: &[u8], review: &Bytes) -> Result<Vec<Measured>> {
    let limit = Limit::start(answer)?;
    let target = Target::of(&format!("https://{}/", limit.address).parse()?)?;
    let name = LIMIT.to_owned();
    rows(arguments, &target, Some(limit.id()), review, name).await
}

/// The rows of a server that does much the same, if they are asked for.
async fn kubewarden(arguments: &Arguments, review: &Bytes) -> Result<Vec<Measured>> {
    let started = Kubewarden::start(&arguments.kubewarden, review).await?;
    let Some(server) = started else {
        return Ok(Vec::new());
    };
    let (name, pid) = (KUBEWARDEN.to_owned(), Some(server.id()));
    rows(arguments, &server.target, pid, review, name).await
}

/// The goals of reviews without a fixed rate.
fn alone_and_together(arguments: &Arguments, report: &mut Report) {
    let most = arguments.most();
    for (goal, share, connections) in [
        (&CPU, &KUBEWARDEN_CPU, most),
        (&CPU_ALONE, &KUBEWARDEN_CPU_ALONE, 1),
    ] {
        let cpu = |chain| report.row(chain, connections)?.cpu_ms;
        let (ours, limit, theirs) = (cpu(THREE), cpu(LIMIT), cpu(KUBEWARDEN));
        let Some(ours) = ours else { continue };
        report.reached(goal, ours, limit);
        if let Some(theirs) = theirs {
            report.reached(share, rounded(ours / theirs), None);
        }
    }
    let p99 = |chain| Some(report.row(chain, most)?.p99_ms);
    if let (Some(ours), Some(theirs)) = (p99(THREE), p99(KUBEWARDEN)) {
        report.reached(&KUBEWARDEN_P99, rounded(ours / theirs), None);
    }
}

async fn start(podloom: &Path, files: &Files, review: &Bytes, report: &mut Report) -> Result<()> {
    eprintln!("{STARTS} starts of the operator");
    let mut times = Vec::new();
    for _ in 0..STARTS {
        let begun = Instant::now();
        let served = Served::start(podloom, files, true, review).await?;
        times.push(begun.elapsed());
        drop(served);
    }
    times.sort_unstable();
    let median = times.get(STARTS / 2).copied().unwrap_or_default();
    report.reached(&START, rounded(median.as_secs_f64()), None);
    Ok(())
}

/// Finds the highest rate at which reviews do not pile up.
async fn highest_rate(paced: &mut Paced, seconds: u64, report: &mut Report) -> Result<f64> {
    let calm = Disturbances::default();
    let overload = paced.row(OVERLOAD, seconds, calm).await?;
    let answered = overload.figures.requests_per_second;
    report.rows.push(overload);
    let mut share = 1.0;
    while share > LOWER {
        paced.schedule.rate = (answered * share).round();
        let row = paced.row(HIGHEST, seconds, calm).await?;
        if row.figures.p999_ms <= LATENCY.most.unwrap_or_default() {
            report.rows.push(row);
            report.reached(&RATE, paced.schedule.rate, None);
            return Ok(paced.schedule.rate);
        }
        share -= LOWER;
    }
    bail!("reviews pile up at every rate")
}

/// The rows at a fixed rate: calm, then with whatever was asked for.
async fn at_a_fixed_rate(
    arguments: &Arguments,
    (podloom, mut files): (&Path, Files),
    review: &Bytes,
    report: &mut Report,
) -> Result<()> {
    let (seconds, disturbances) = (arguments.paced_seconds, arguments.disturbances);
    let reached = report.row(THREE, arguments.most());
    let reached = reached.context("no connections")?.requests_per_second;
    if disturbances.hostile {
        files = files.with_hostile();
    }
    let served = Served::start(podloom, &files, true, review).await?;
    let schedule = Schedule {
        target: served.target()?,
        review: review.clone(),
        connections: arguments.most(),
        rate: reached * 2.0,
        time: Duration::from_secs(arguments.seconds),
    };
    let mut paced = Paced {
        served,
        files,
        schedule,
    };
    paced.schedule.rate = match arguments.rate {
        Some(rate) => rate,
        None => {
            let highest = highest_rate(&mut paced, arguments.seconds, report);
            (highest.await? * arguments.load).round()
        }
    };
    let mut against = None;
    if disturbances != Disturbances::default() {
        let calm = paced.row(THREE, CALM.min(seconds), Disturbances::default());
        let calm = calm.await?;
        against = Some(calm.figures.p999_ms);
        report.rows.push(calm);
    }
    let row = paced.row(THREE, seconds, disturbances).await?;
    report.reached(&LATENCY, row.figures.p999_ms, against);
    report.reached(&FAILURES, count(row.figures.failures), None);
    report.rows.push(row);
    Ok(())
}
