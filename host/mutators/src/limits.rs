//! How much a plugin may use: sizes of files and texts, memory and time of a call, and memory of the host between calls.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

/// All plugin files of a bundle together. They are read into memory at once, which must not fill the operator's container.
pub(crate) const BUNDLE_BYTES: usize = 64 << 20;
/// The manifest. A `ConfigMap` cannot hold a longer one.
pub(crate) const MANIFEST_BYTES: usize = 1 << 20;

/// The signature of the manifest. The longest, of RSA with 8192 bits in base64, has 1.4 KB.
pub(crate) const SIGNATURE_BYTES: usize = 16 << 10;

/// Plugins of a chain.
pub(crate) const PLUGINS: usize = 256;

/// Memory of a call by default: ten times the largest pod, which is 1.5 MiB of JSON, since etcd refuses more. With more, a few
/// faulty plugins could fill the operator's container.
pub(crate) const DEFAULT_MEMORY: usize = 16 << 20;
pub(crate) const MIN_MEMORY: usize = 1 << 20;
/// The size of the pool's slots.
pub(crate) const MAX_MEMORY: usize = 256 << 20;

/// Time in which a call runs. A throttled container is paused for periods of 100 ms, so a shorter limit would reject pods at random.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(1);
pub(crate) const MIN_TIMEOUT: Duration = Duration::from_millis(10);
/// The API server waits 10 s for a webhook by default, and 30 s at most.
pub(crate) const MAX_TIMEOUT: Duration = Duration::from_secs(10);

/// What a plugin may pass to the host in one call of a host function, or return.
pub(crate) const PAYLOAD_BYTES: usize = 1 << 20;
/// What a plugin may change in its memory while it prepares itself. It is kept for each plugin, and copied in each call.
pub(crate) const PREPARED_BYTES: usize = 256 << 10;
/// Resource handles that exist at the same time; the contract needs one.
pub(crate) const HANDLES: usize = 16;

pub(crate) const LOG_LINES: usize = 100;
pub(crate) const LOG_LINE_BYTES: usize = 1024;
pub(crate) const NOTES: usize = 32;
pub(crate) const NOTE_BYTES: usize = 512;
/// The reason that a plugin gives when it denies a pod or fails.
pub(crate) const REASON_BYTES: usize = 16 << 10;

pub(crate) const SUMMARY_BYTES: usize = 512;
/// Five times the largest of the standard plugins.
pub(crate) const SCHEMA_BYTES: usize = 64 << 10;
pub(crate) const NEEDED_PATHS: usize = 256;
pub(crate) const NEEDED_PATH_BYTES: usize = 1024;
/// Segments of all paths together; the deepest fields of a pod have eleven segments.
pub(crate) const NEEDED_SEGMENTS: usize = 4096;
/// Memory that a segment of a path takes, in a grant or in the kept fields of a view.
pub(crate) const SEGMENT_BYTES: usize = 500;
/// Memory for all paths that the plugins of a chain need or are granted: enough for 256 plugins with 128 segments each. The
/// standard plugins have up to 40.
pub(crate) const CHAIN_PATHS_BYTES: usize = 16 << 20;
/// Memory for all that is kept between calls for the plugins of a chain: what they prepared, and the fields of their views. The
/// standard plugins take up to 120 KB each.
pub(crate) const CHAIN_KEPT_BYTES: usize = 32 << 20;
pub(crate) const CONFIG_COMPLAINTS: usize = 20;

/// The containers of a pod, of all its lists. An API server takes no object of more than 3 MiB, which is 3 KiB for each of so many, and
/// no node runs them.
pub(crate) const CONTAINERS: usize = 1000;

/// The JSON Patch of a pod. Plugins are charged for its operations as they write, so this equals the memory for all writes.
pub(crate) const PATCH_BYTES: usize = 16 << 20;

/// How large a plugin's file and its code may be.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord)]
pub enum PluginSize {
    /// For languages that compile to Wasm: 4 MiB as shipped, 16 MiB of Wasm. It compiles in a few seconds at most.
    #[default]
    Standard,
    /// For languages that bring their interpreter: 32 MiB as shipped, 64 MiB of Wasm. Compiling takes up to a minute of processor time
    /// and 1 GiB of memory, so allow it only for plugins that you trust.
    Large,
}

impl PluginSize {
    /// As the manifest writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Standard => "Standard",
            Self::Large => "Large",
        }
    }

    /// A plugin file as shipped. A `ConfigMap` holds 1 MiB in total; a volume can hold more.
    pub(crate) const fn shipped_bytes(self) -> usize {
        match self {
            Self::Standard => 4 << 20,
            Self::Large => 32 << 20,
        }
    }

    /// A plugin after decompression, as the compiler gets it.
    pub(crate) const fn wasm_bytes(self) -> usize {
        match self {
            Self::Standard => 16 << 20,
            Self::Large => 64 << 20,
        }
    }
}

/// What one call may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallLimits {
    /// Linear memory, all memories of the plugin together, in bytes.
    pub memory: usize,
    /// The time in which it runs. A call of more than 10 ms gives way to quick ones, and may take twice its limit with that.
    pub timeout: Duration,
}

impl Default for CallLimits {
    fn default() -> Self {
        Self {
            memory: DEFAULT_MEMORY,
            timeout: DEFAULT_TIMEOUT,
        }
    }
}

/// The memory of the host that is left for what the plugins of one chain keep between calls. Each plugin has limits of its own, but
/// many plugins at their limits would still fill the operator's container. During a reload two chains are in memory.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    paths: AtomicUsize,
    kept: AtomicUsize,
}

impl Default for MemoryBudget {
    fn default() -> Self {
        Self {
            paths: CHAIN_PATHS_BYTES.into(),
            kept: CHAIN_KEPT_BYTES.into(),
        }
    }
}

impl MemoryBudget {
    /// Takes memory for the paths that a plugin needs or is granted; false if too little is left, and the chain cannot be loaded.
    pub(crate) fn take_for_paths(&self, paths: &[String]) -> bool {
        let segments = paths.iter().map(|path| path.matches('/').count()).sum();
        let bytes = paths.iter().map(String::len).sum();
        take(&self.paths, cost(bytes, segments))
    }

    /// Takes memory for something that only makes calls faster; false if too little is left, and it must not be kept.
    pub(crate) fn take_to_keep(&self, bytes: usize) -> bool {
        take(&self.kept, bytes)
    }
}

/// The memory that paths with these bytes and segments take.
pub(crate) fn cost(bytes: usize, segments: usize) -> usize {
    bytes.saturating_add(segments.saturating_mul(SEGMENT_BYTES))
}

fn take(left: &AtomicUsize, bytes: usize) -> bool {
    let rest = |left: usize| left.checked_sub(bytes);
    let taken = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest);
    taken.is_ok()
}

#[cfg(test)]
mod tests;
