use super::{ObjectError, objects};
use crate::error::Diagnostic;
use crate::mutator::ChainPanicked;

/// A bug of the host must not look like an error in the user's manifest.
#[tokio::test]
async fn a_panic_of_the_chain_exits_with_code_3() {
    let panicked = tokio::spawn(async { panic!("a bug") }).await;
    let panicked = ChainPanicked::from(panicked.map(drop::<()>).unwrap_err());
    let code = |error: ObjectError| {
        let Err(error) = objects(vec![Err(error)]) else {
            panic!("something to print")
        };
        error.code()
    };
    assert_eq!(code(panicked.into()), 3);
    assert_eq!(code(Diagnostic::new("it has no name").into()), 1);
}
