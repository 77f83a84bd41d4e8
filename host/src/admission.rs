//! `podloom admission`: what API servers would make of pods, whatever admits them; and how two answers differ.
//!
//! What is sent is made in `submit`, and sent in `server`, which creates nothing.

mod answer;
mod recording;
mod server;
mod submit;

use std::path::Path;
use std::time::Duration;

use futures::{Stream, StreamExt, TryStreamExt, stream};
use tokio::sync::mpsc::{self, Receiver};
use tokio::time::{MissedTickBehavior, interval};

use self::answer::{Answer, difference};
use self::recording::{Recorded, Recording};
use self::server::Server;
use self::submit::Submission;
use crate::chain::diff::report::{self, Words};
use crate::cli::{AdmissionDiffArguments, AdmissionRecordArguments, PodArguments, SubmitArguments};
use crate::client;
use crate::compare::OwnContainers;
use crate::compare::groups::{Groups, Kept};
use crate::error::{CommandError, shown};
use crate::explain::count;
use crate::feed::{Feed, FoundPod, Skipped, block_on, no_pod};
use crate::output::{self, Progress};

/// How many pods wait to be sent.
const QUEUE: usize = 64;
/// How many answers of an API server are awaited at once. A webhook may take half a minute.
const AT_ONCE: usize = 16;

/// A pod that was sent, and the answer.
type Answered = (Submission, Answer);

/// Records the answers of an API server.
pub(crate) fn record(arguments: &AdmissionRecordArguments) -> Result<(), CommandError> {
    let file = arguments.file.as_path();
    let parent = file.parent().filter(|it| !it.as_os_str().is_empty());
    if file.is_dir() || parent.is_some_and(|it| !it.is_dir()) {
        return Err(CommandError::invalid(format!(
            "{}: name a file in a directory that is there",
            file.display()
        )));
    }
    let pods = of_context(&arguments.pods, arguments.context.as_deref());
    let feed = Feed::open(&pods)?;
    let (skipped, (recording, counts)) = block_on(async {
        let server = Server::connect(arguments.context.as_deref()).await?;
        let (pods, queue) = mpsc::channel(QUEUE);
        let submissions = submissions(queue, &arguments.submit);
        let answers = answers(paced(submissions, arguments.qps), &server);
        tokio::try_join!(feed.run(pods), collect(answers))
    })?;
    if recording.len() == 0 {
        return Err(no_pod(&skipped));
    }
    let said = summary(&recording, counts, file);
    recording.write(file)?;
    let skipped = skipped.iter().map(|it| format!("{}\n", it.line()));
    output::print(&(said + &skipped.collect::<String>()))?;
    if !arguments.submit.keep_values {
        output::print_note(
            "values of env, args, commands, HTTP headers, queries of HTTP probes and volumes' drivers were placeholders when the pods were sent; what admission added is as the API server answered: look at the file before you commit it\n",
        );
    }
    Ok(())
}

fn summary(recording: &Recording, [accepted, denied, failed]: [usize; 3], file: &Path) -> String {
    format!(
        "{} in {}: {accepted} accepted, {denied} denied, {failed} rejected by a failure\n",
        count(recording.len(), "answer"),
        file.display()
    )
}

async fn collect(
    answers: impl Stream<Item = Result<Answered, CommandError>>,
) -> Result<(Recording, [usize; 3]), CommandError> {
    let (mut recording, mut counts) = (Recording::default(), [0; 3]);
    let mut progress = Progress::new("pods answered");
    let mut answers = std::pin::pin!(answers);
    while let Some((submission, answer)) = answers.try_next().await? {
        for (count, more) in counts.iter_mut().zip(answer.counts()) {
            *count += more;
        }
        recording.add(submission, answer)?;
        progress.reached(recording.len() as u64);
    }
    Ok((recording, counts))
}

/// Compares the answers of two API servers, or of one with those of a recording.
pub(crate) fn diff(arguments: &AdmissionDiffArguments) -> Result<(), CommandError> {
    let (skipped, groups) = match &arguments.recording {
        Some(file) => {
            let recorded = Recorded::read(file)?;
            if let Some(user) = recorded.user().filter(|_| !arguments.as_recorded) {
                return Err(CommandError::invalid(format!(
                    "{} has pods that were sent as {}: give --as-recorded to send them so again",
                    file.display(),
                    shown(&user)
                )));
            }
            let groups = block_on(async {
                let now = Server::connect(arguments.context.as_deref()).await?;
                let before = stream::iter(recorded.entries());
                let before = paced(before, arguments.qps).map(Ok);
                compared(before, &now, arguments).await
            })?;
            (Vec::new(), groups)
        }
        None => of_two(arguments)?,
    };
    if groups.all.pods == 0 {
        return Err(no_pod(&skipped));
    }
    report::print(&groups, &skipped, arguments.output, &Words::OF_ADMISSION)?;
    match arguments.exit_code && !groups.is_empty() {
        true => Err(CommandError::Different),
        false => Ok(()),
    }
}

fn of_two(arguments: &AdmissionDiffArguments) -> Result<(Vec<Skipped>, Groups), CommandError> {
    let [from, to] = [&arguments.context, &arguments.to_context].map(Option::as_deref);
    let from_name = from.map_or_else(client::current_context, |it| Some(it.to_owned()));
    if from_name.as_deref() == to {
        return Err(CommandError::Usage(format!(
            "--context and --to-context are both {}: name two contexts, or compare with a --recording",
            to.unwrap_or_default()
        )));
    }
    let pods = of_context(&arguments.pods, from);
    let feed = Feed::open(&pods)?;
    block_on(async {
        let (from, to) = (Server::connect(from).await?, Server::connect(to).await?);
        let (pods, queue) = mpsc::channel(QUEUE);
        let submissions = submissions(queue, &arguments.submit);
        let before = answers(paced(submissions, arguments.qps), &from);
        tokio::try_join!(feed.run(pods), compared(before, &to, arguments))
    })
}

/// Sends each pod again, and compares the answers.
async fn compared(
    before: impl Stream<Item = Result<Answered, CommandError>>,
    now: &Server,
    arguments: &AdmissionDiffArguments,
) -> Result<Groups, CommandError> {
    let mut groups = Groups::new(Kept {
        names: arguments.names,
        values: arguments.show_values,
        ..Kept::OF_A_COMMAND
    });
    let mut progress = Progress::new("pods compared");
    let asked = before.map(async |answered| {
        let (submission, old) = answered?;
        let new = now.ask(&submission).await?;
        Ok::<_, CommandError>((submission, old, new))
    });
    let mut asked = std::pin::pin!(asked.buffered(AT_ONCE));
    while let Some((submission, old, new)) = asked.try_next().await? {
        let own = OwnContainers::of(&submission.pod);
        let difference = difference(&own, &old, &new, &arguments.ignore);
        groups.add(&submission.namespace, &submission.name, difference);
        progress.reached(groups.all.pods);
    }
    Ok(groups)
}

// The way of a pod: found, made ready, and sent at a pace.

/// The same pods, and the context of the cluster of which they are read.
fn of_context(pods: &PodArguments, context: Option<&str>) -> PodArguments {
    PodArguments {
        context: context.map(str::to_owned),
        ..pods.clone()
    }
}

fn submissions(
    queue: Receiver<FoundPod>,
    arguments: &SubmitArguments,
) -> impl Stream<Item = Submission> {
    stream::unfold(queue, async |mut queue| {
        let pod = queue.recv().await?;
        Some((Submission::of(pod, arguments), queue))
    })
}

/// So many a second. What was late is not made up for.
fn paced<T>(items: impl Stream<Item = T>, a_second: u32) -> impl Stream<Item = T> {
    let mut ticks = interval(Duration::from_secs(1) / a_second);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let ticks = stream::unfold(ticks, async |mut ticks| {
        ticks.tick().await;
        Some(((), ticks))
    });
    items.zip(ticks).map(|(item, ())| item)
}

fn answers(
    submissions: impl Stream<Item = Submission>,
    server: &Server,
) -> impl Stream<Item = Result<Answered, CommandError>> {
    let asked = submissions.map(async |submission| {
        let answer = server.ask(&submission).await?;
        Ok((submission, answer))
    });
    asked.buffered(AT_ONCE)
}
