use jiff::Timestamp;
use podloom_syntax::names::dns_subdomain;

use super::super::event_name;

#[test]
fn the_name_of_an_event_is_never_too_long() {
    let now = Timestamp::now();
    assert!(event_name("web", now).starts_with("web."));
    for length in [1, 235, 236, 237, 253] {
        let plain = event_name(&"a".repeat(length), now);
        assert_eq!(dns_subdomain(&plain), Ok(()), "{length}");
        let dotted = event_name(&"a.".repeat(length.div_ceil(2)), now);
        assert_eq!(dns_subdomain(&dotted), Ok(()), "{dotted}");
    }
    assert_ne!(event_name("web", now), event_name("web", Timestamp::now()));
}
