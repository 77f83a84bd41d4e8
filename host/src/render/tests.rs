use super::{ObjectError, Problems, settle};
use crate::manifest;
use crate::mutator::ChainPanicked;

/// A bug of the host must not look like an error in the user's manifest.
#[test]
fn a_panic_of_the_chain_exits_with_code_3() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("a.yaml");
    std::fs::write(&file, "apiVersion: v1\nkind: Pod\n").unwrap();
    let documents = manifest::read(&[file.display().to_string()]).unwrap();
    let document = documents.first().unwrap();
    let panicked = ChainPanicked("a bug".to_owned());
    let outcomes = vec![(document, Err(ObjectError::from(panicked)))];
    let Err(error) = settle(outcomes, &mut Problems::default()) else {
        panic!("something to print")
    };
    assert_eq!(error.code(), 3);

    let mut problems = Problems::default();
    let rejected = document.diagnostic(&[], "it has no name");
    let outcomes = vec![(document, Err(ObjectError::from(rejected)))];
    assert!(settle(outcomes, &mut problems).is_ok());
    assert_eq!(problems.errors.len(), 1);
}
