use super::{RELEASES, Release};
use crate::program::Program;

#[test]
fn every_program_is_pinned_in_its_release() {
    for release in RELEASES {
        for program in Program::ALL {
            let version = release.version(program);
            assert_ne!(
                version.to_string(),
                "0.0.0",
                "{} {}",
                release.minor,
                program.name()
            );
            let minor = format!("{}.{}", version.major, version.minor);
            assert_eq!(program.is_kubernetes(), minor == release.minor);
        }
    }
}

#[test]
fn an_unknown_release_is_an_error_that_names_all() {
    let error = Release::named("1.20").unwrap_err().to_string();
    assert_eq!(
        error,
        "PODLOOM_KUBERNETES is \"1.20\"; the releases are 1.33, 1.36, 1.37"
    );
    let oldest = Release::named("1.33").unwrap();
    assert_eq!(oldest.minor, "1.33");
    assert!(oldest.is_at_least(33) && !oldest.is_at_least(34));
}
