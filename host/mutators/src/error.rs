//! Why a plugin is refused.

use std::fmt;

/// Why a plugin cannot be part of a chain. Each message continues a sentence that begins with the plugin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PluginError {
    /// Its file or its code is larger than its [`PluginSize`](crate::PluginSize) allows.
    #[error("{0}")]
    TooLarge(String),
    /// Its configuration does not match its schema, or the plugin rejects it.
    #[error("has an invalid configuration: {}", sentences(.0))]
    Config(Vec<ConfigComplaint>),
    /// Anything else.
    #[error("{0}")]
    Unfit(String),
}

impl From<String> for PluginError {
    fn from(message: String) -> Self {
        Self::Unfit(message)
    }
}

impl From<&str> for PluginError {
    fn from(message: &str) -> Self {
        Self::Unfit(message.to_owned())
    }
}

impl PluginError {
    /// Fills in the lines of the complaints; `line` returns the line of a pointer into the configuration, 0 if it is unknown.
    #[must_use]
    pub fn located(mut self, line: impl Fn(&str) -> u64) -> Self {
        if let Self::Config(complaints) = &mut self {
            for complaint in complaints {
                complaint.line = complaint.path.as_deref().map_or(0, &line);
            }
        }
        self
    }
}

/// One thing that is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigComplaint {
    /// Where, as a JSON Pointer into the configuration; none if the plugin itself complains.
    pub path: Option<String>,
    /// The line of the file with the configuration, from 1; 0 if unknown.
    pub line: u64,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for ConfigComplaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}, ", self.line)?;
        }
        f.write_str(&self.message)
    }
}

fn sentences(complaints: &[ConfigComplaint]) -> String {
    let complaints: Vec<String> = complaints.iter().map(ToString::to_string).collect();
    complaints.join("; ")
}
