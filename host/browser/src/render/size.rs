//! How large a BrowserConfig is once it is merged.

use std::io;

use podloom_api::{BrowserConfigSpec, Versions};
use serde::Serialize;

/// Returns how many bytes a BrowserConfig has once each version is merged over the template.
///
/// Accepting it takes time in proportion, and 1 MiB of manifest can become gigabytes.
pub fn merged_size(spec: &BrowserConfigSpec) -> usize {
    let versions = spec.browsers.values().map(Versions::len).sum();
    size(&spec.template)
        .saturating_mul(versions)
        .saturating_add(size(&spec.browsers))
}

/// How many bytes of JSON a value has.
fn size(value: &impl Serialize) -> usize {
    let mut bytes = Count(0);
    // Nothing fails: counting does not, and neither do maps with texts as keys.
    let _ = serde_json::to_writer(&mut bytes, value);
    bytes.0
}

struct Count(usize);

impl io::Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
