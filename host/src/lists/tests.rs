mod split;

use kube::core::Status;

use super::Trouble;

fn trouble(code: u16) -> Trouble {
    // Without a reason: not every answer of an API server is a Status.
    Trouble::of(kube::Error::Api(Box::new(Status {
        code,
        ..Status::default()
    })))
}

#[test]
fn a_group_that_is_not_there_is_not_served() {
    assert!(matches!(trouble(404), Trouble::NotServed));
    assert!(matches!(trouble(403), Trouble::Forbidden(_)));
    assert!(matches!(trouble(500), Trouble::Other(_)));
}
