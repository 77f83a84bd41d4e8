//! Builds programs of a Go module, once, into the user's cache directory.

use std::env;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::cache;
use crate::version::{self, Version};

/// Without debug information, which the linker would drop anyway: an eighth less processor time. The programs behave the same,
/// so it is no part of the digest.
const QUICKER: [&str; 1] = ["-gcflags=all=-dwarf=false"];

/// How many lines of a failed build's output the error repeats.
const LOG_LINES: usize = 20;

/// How often a slow build shows that it is still running.
const PROGRESS: Duration = Duration::from_mins(1);

/// A Go module of this repository, with the programs of a cluster as its tools.
pub struct Module {
    /// What its programs are for, like `control plane`: messages start with it, and it names the directory in the cache.
    pub title: &'static str,
    /// Where `go build` runs.
    pub directory: &'static str,
    /// The text of `go.mod`, which pins what is built.
    pub go_mod: &'static str,
    /// The text of `go.sum`: the checksums of what is built.
    pub go_sum: &'static str,
    /// The text of each Go file of its own programs, if it has any.
    pub sources: &'static [&'static str],
    /// The linker's flags.
    pub link: String,
    /// How long it takes to build everything, for a message.
    pub time: &'static str,
    /// What to do for programs of these names instead of building them, for a message: `, or ...`. Empty if there is nothing.
    pub instead: fn(names: &[&str]) -> String,
}

/// A program of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Package {
    /// The name of its file.
    pub name: &'static str,
    /// The Go package that it is built from.
    pub path: &'static str,
}

/// Why the programs could not be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// There is no cache directory to build into.
    #[error("neither XDG_CACHE_HOME nor HOME names a directory to build programs into")]
    NoCache,
    /// Go is not installed.
    #[error(
        "building {programs} needs Go {wanted} or newer, and there is no `go` on PATH; install it from https://go.dev/dl{instead}"
    )]
    NoGo {
        /// The programs to build.
        programs: String,
        /// The oldest version that can build them.
        wanted: String,
        /// What makes the build unnecessary, if anything does.
        instead: String,
    },
    /// Go is installed, but too old, and does not fetch a newer one by itself.
    #[error(
        "building {programs} needs Go {wanted} or newer, and `go version` says {found:?}; install it from https://go.dev/dl, \
         or unset GOTOOLCHAIN so that Go fetches it{instead}"
    )]
    OldGo {
        /// The programs to build.
        programs: String,
        /// The oldest version that can build them.
        wanted: String,
        /// The output of `go version`.
        found: String,
        /// What makes the build unnecessary, if anything does.
        instead: String,
    },
    /// A file or directory of the cache could not be used.
    #[error("{}", path.display())]
    Cache {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// `go build` could not be started.
    #[error("could not start go build")]
    Start(#[source] io::Error),
    /// A module that it needs could not be had.
    #[error("go mod download {module} failed:\n{output}")]
    Download {
        /// Its path.
        module: &'static str,
        /// What Go says.
        output: String,
    },
    /// `go build` failed.
    #[error("go build {package} failed; the whole output is in {}:\n{output}", log.display())]
    Failed {
        /// The Go package.
        package: &'static str,
        /// The file with its whole output.
        log: PathBuf,
        /// Its last lines.
        output: String,
    },
}

impl Module {
    /// Builds those of `packages` that are missing, and returns the directory that then holds all of them.
    ///
    /// One process builds at a time, the others wait for it. A program appears under its name only when it is complete.
    ///
    /// # Errors
    ///
    /// Fails if Go is missing or too old, if a build fails, or if the cache cannot be written.
    pub fn build(&self, packages: &[Package]) -> Result<PathBuf, BuildError> {
        let directory = self.cache()?;
        if absent(packages, &directory).is_empty() {
            return Ok(directory);
        }
        fs::create_dir_all(&directory).map_err(in_cache(&directory))?;
        let lock_file = directory.with_file_name("lock");
        let _lock = cache::lock(self.title, &lock_file).map_err(in_cache(&lock_file))?;
        // Another process may have built them while we waited.
        let absent = absent(packages, &directory);
        if absent.is_empty() {
            return Ok(directory);
        }
        self.check_go(&absent)?;
        remove_partial(&directory).map_err(in_cache(&directory))?;
        let (start, title) = (Instant::now(), self.title);
        eprintln!(
            "{title}: building {} with Go into {}, once; all {title} programs together take about {} on two cores",
            names(&absent),
            directory.display(),
            self.time
        );
        for (index, package) in absent.iter().enumerate() {
            let name = format!("{} ({} of {})", package.name, index + 1, absent.len());
            self.build_one(*package, &directory, &name)?;
        }
        eprintln!("{title}: built in {} s", start.elapsed().as_secs());
        Ok(directory)
    }

    /// Those of `packages` that [`Module::build`] would build.
    ///
    /// # Errors
    ///
    /// Fails at once if one is missing, and Go is missing or too old.
    pub fn missing(&self, packages: &[Package]) -> Result<Vec<Package>, BuildError> {
        let absent = absent(packages, &self.cache()?);
        if !absent.is_empty() {
            self.check_go(&absent)?;
        }
        Ok(absent)
    }

    /// Where the programs of these versions and flags are, once they are built.
    ///
    /// # Errors
    ///
    /// Fails if the environment names no cache directory.
    pub fn cache(&self) -> Result<PathBuf, BuildError> {
        // Everything that decides what is built.
        let flags = self.flags().join("\n");
        let texts = [
            self.go_mod,
            self.go_sum,
            &flags,
            env::consts::OS,
            env::consts::ARCH,
        ];
        let texts = texts.iter().chain(self.sources).copied();
        cache::cache(self.title, texts).ok_or(BuildError::NoCache)
    }

    /// Where the source of a module is that this one needs. It is downloaded first if it is not in Go's cache.
    ///
    /// # Errors
    ///
    /// Fails if Go is missing, or if the module cannot be downloaded.
    pub fn source(&self, module: &'static str) -> Result<PathBuf, BuildError> {
        let run = |arguments: &[&str]| {
            let output = self.go().args(arguments).arg(module).output();
            let output = output.map_err(BuildError::Start)?;
            match output.status.success() {
                true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
                false => Err(BuildError::Download {
                    module,
                    output: String::from_utf8_lossy(&output.stderr).into_owned(),
                }),
            }
        };
        run(&["mod", "download"])?;
        Ok(PathBuf::from(run(&["list", "-m", "-f", "{{.Dir}}"])?))
    }

    fn flags(&self) -> [String; 5] {
        [
            // On the command line these win over the user's GOFLAGS; other flags there stay.
            "-mod=readonly".to_owned(),
            "-trimpath".to_owned(),
            "-buildvcs=false".to_owned(),
            "-ldflags".to_owned(),
            self.link.clone(),
        ]
    }

    fn go(&self) -> Command {
        let mut command = Command::new("go");
        if env::var_os("GOGC").is_none() {
            // The compiler collects garbage less often: a fifth less processor time, for a few hundred MiB of memory.
            command.env("GOGC", "400");
        }
        command
            .current_dir(self.directory)
            .env("CGO_ENABLED", "0")
            // Ignore a Go workspace around the checkout, and the target of the user's cross builds.
            .env("GOWORK", "off")
            .env_remove("GOOS")
            .env_remove("GOARCH")
            .stdin(Stdio::null());
        command
    }

    /// Runs `go version` in the module's directory, since there Go switches to the version that the module needs, unless the user
    /// has disabled that.
    fn check_go(&self, absent: &[Package]) -> Result<(), BuildError> {
        let known: Vec<&str> = absent.iter().map(|package| package.name).collect();
        let (programs, instead) = (names(absent), (self.instead)(&known));
        let mut lines = self.go_mod.lines();
        let wanted = lines.find_map(|line| version::first_version(line.strip_prefix("go ")?));
        let wanted_text = wanted.map_or_else(String::new, |wanted: Version| wanted.to_string());
        let Ok(output) = self.go().arg("version").output() else {
            return Err(BuildError::NoGo {
                programs,
                wanted: wanted_text,
                instead,
            });
        };
        let printed = String::from_utf8_lossy(&output.stdout);
        if output.status.success() && version::first_version(&printed) >= wanted {
            return Ok(());
        }
        let error = String::from_utf8_lossy(&output.stderr);
        Err(BuildError::OldGo {
            programs,
            wanted: wanted_text,
            found: format!("{}{}", printed.trim(), error.trim()),
            instead,
        })
    }

    /// Builds one program under a temporary name, and renames it when it is complete.
    fn build_one(&self, package: Package, directory: &Path, name: &str) -> Result<(), BuildError> {
        let (start, title) = (Instant::now(), self.title);
        let log = directory.join(format!("{}.log", package.name));
        // With our process id in the name, since the `go build` of a killed process may still be writing to its own file.
        let partial = directory.join(format!("{}.{}.partial", package.name, process::id()));
        let output = File::create(&log).map_err(in_cache(&log))?;
        let errors = output.try_clone().map_err(in_cache(&log))?;
        eprintln!("{title}: building {name}");
        let mut child = self
            .go()
            .arg("build")
            .args(self.flags())
            .args(QUICKER)
            .arg("-o")
            .args([partial.as_os_str(), package.path.as_ref()])
            .stdout(output)
            .stderr(errors)
            .spawn()
            .map_err(BuildError::Start)?;
        let mut next_message = PROGRESS;
        let status = loop {
            if let Some(status) = child.try_wait().map_err(BuildError::Start)? {
                break status;
            }
            if start.elapsed() >= next_message {
                let seconds = next_message.as_secs();
                eprintln!("{title}: still building {name}, {seconds} s so far");
                next_message += PROGRESS;
            }
            thread::sleep(Duration::from_millis(200));
        };
        if !status.success() {
            return Err(BuildError::Failed {
                package: package.path,
                output: last_lines(&fs::read_to_string(&log).unwrap_or_default(), LOG_LINES),
                log,
            });
        }
        eprintln!("{title}: {name} built in {} s", start.elapsed().as_secs());
        let complete = directory.join(package.name);
        fs::rename(&partial, &complete).map_err(in_cache(&complete))?;
        // The log is only useful after a failure.
        fs::remove_file(&log).map_err(in_cache(&log))
    }
}

fn in_cache(path: &Path) -> impl FnOnce(io::Error) -> BuildError {
    move |source| BuildError::Cache {
        path: path.to_owned(),
        source,
    }
}

fn absent(packages: &[Package], directory: &Path) -> Vec<Package> {
    let is_absent = |package: &Package| !directory.join(package.name).is_file();
    packages.iter().copied().filter(is_absent).collect()
}

/// The names of programs, for a message.
fn names(packages: &[Package]) -> String {
    let names: Vec<&str> = packages.iter().map(|package| package.name).collect();
    names.join(", ")
}

/// Removes what killed builds left behind.
fn remove_partial(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "partial")
        {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// The last lines of a text.
#[must_use]
pub fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let skip = lines.len().saturating_sub(count);
    lines.into_iter().skip(skip).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;
