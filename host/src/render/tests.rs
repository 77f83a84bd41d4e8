use super::{Refused, objects};
use crate::mutator::Broke;
use crate::refusal::Refusal;

/// A bug of the host is not told as what is wrong with somebody's manifest.
#[tokio::test]
async fn a_chain_that_broke_is_our_own_fault() {
    let panicked = tokio::spawn(async { panic!("a bug") }).await;
    let broke = Broke::from(panicked.map(drop::<()>).unwrap_err());
    let code = |refused: Refused| {
        let Err(failure) = objects(vec![Err(refused)]) else {
            panic!("something to print")
        };
        failure.code()
    };
    assert_eq!(code(broke.into()), 3);
    assert_eq!(code(Refusal::of_input("it has no name").into()), 1);
}
