//! Processor time and memory of a process, from `/proc`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

/// Processor time and memory of a process.
#[derive(Clone, Debug)]
pub struct Usage {
    /// Processor time since its start.
    pub cpu: Duration,
    /// Resident memory, in bytes.
    pub resident: u64,
    /// The part of it that is the process's own: the rest are pages of files, mostly of its program, which the system can drop.
    pub anonymous: u64,
    /// The most resident memory since its start, or since [`forget_peak`], in bytes.
    pub peak: u64,
    /// How often each of its threads went to sleep, and so was woken later.
    wakeups: BTreeMap<OsString, u64>,
}

impl Usage {
    /// How often its threads were woken since `before`. Threads that have ended meanwhile do not count.
    #[must_use]
    pub fn wakeups_since(&self, before: &Self) -> u64 {
        let since = |(thread, count): (&OsString, &u64)| {
            let before = before.wakeups.get(thread).copied();
            count.saturating_sub(before.unwrap_or_default())
        };
        self.wakeups.iter().map(since).sum()
    }
}

/// Ticks per second in /proc; 100 on every Linux that Rust supports.
const TICKS: f64 = 100.0;

/// Reads what a process has used so far.
///
/// # Errors
///
/// Returns an error if the process has ended.
pub fn usage(pid: u32) -> Result<Usage> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))
        .with_context(|| format!("process {pid} has ended"))?;
    // The name is in parentheses and may contain anything; utime and stime are the 14th and 15th field.
    let after_name = stat.rsplit(") ").next().unwrap_or_default();
    let ticks: f64 = after_name
        .split(' ')
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<f64>().ok())
        .sum();
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let mut wakeups = BTreeMap::new();
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let task = task?;
        // A thread may have ended meanwhile.
        let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
        let count = value(&status, "voluntary_ctxt_switches:");
        wakeups.insert(task.file_name(), count);
    }
    Ok(Usage {
        cpu: Duration::from_secs_f64(ticks / TICKS),
        resident: value(&status, "VmRSS:") * 1024,
        anonymous: value(&status, "RssAnon:") * 1024,
        peak: value(&status, "VmHWM:") * 1024,
        wakeups,
    })
}

/// Has the peak of a process's memory measured from now on.
///
/// # Errors
///
/// Returns an error if the process has ended.
pub fn forget_peak(pid: u32) -> Result<()> {
    let path = format!("/proc/{pid}/clear_refs");
    // proc(5): 5 resets the peak resident set size.
    fs::write(&path, "5").with_context(|| path.clone())
}

/// The number after a key in a status file; if it has a unit, that is kilobytes.
fn value(status: &str, key: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(key));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.unwrap_or_default()
}
