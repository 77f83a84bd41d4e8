//! Metrics of the process itself, read from the kernel.

use std::fmt;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

/// Clock ticks per second in /proc. Linux uses this value on all architectures that we support.
const TICKS: f64 = 100.0;

/// Metrics under the names that all Prometheus exporters use. Without /proc there are none.
#[derive(Debug)]
pub(super) struct ProcessMetrics;

impl Collector for ProcessMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let gauges = [
            (
                "process_resident_memory",
                "Memory in use",
                resident("VmRSS:"),
            ),
            (
                "process_virtual_memory",
                "Address space in use",
                resident("VmSize:"),
            ),
        ];
        for (name, help, bytes) in gauges {
            if let Some(bytes) = bytes {
                let gauge = ConstGauge::new(bytes);
                let metric = encoder.encode_descriptor(
                    name,
                    help,
                    Some(&Unit::Bytes),
                    gauge.metric_type(),
                )?;
                gauge.encode(metric)?;
            }
        }
        if let Some(seconds) = cpu_seconds() {
            let counter = ConstCounter::new(seconds);
            let metric = encoder.encode_descriptor(
                "process_cpu",
                "Time on processors",
                Some(&Unit::Seconds),
                counter.metric_type(),
            )?;
            counter.encode(metric)?;
        }
        if let Ok(files) = fs::read_dir("/proc/self/fd") {
            let gauge = ConstGauge::new(i64::try_from(files.count()).unwrap_or(i64::MAX));
            let metric = encoder.encode_descriptor(
                "process_open_fds",
                "Open files",
                None,
                gauge.metric_type(),
            )?;
            gauge.encode(metric)?;
        }
        Ok(())
    }
}

/// The peak memory of the process, in bytes.
pub(super) fn peak() -> Option<i64> {
    resident("VmHWM:")
}

/// The current memory of the process, in bytes.
pub(super) fn now() -> Option<i64> {
    resident("VmRSS:")
}

/// A row of /proc/self/status, which counts in KiB.
fn resident(row: &str) -> Option<i64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let value = status.lines().find_map(|line| line.strip_prefix(row))?;
    let kib: i64 = value.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

fn cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The process name may contain anything, so fields are counted from behind it, where field 3 starts.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |field: usize| fields.get(field - 3)?.parse::<u32>().ok().map(f64::from);
    Some((ticks(14)? + ticks(15)?) / TICKS)
}
