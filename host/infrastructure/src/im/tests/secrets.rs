//! Secrets are nowhere: not in errors, logs at any level, `Debug` and metrics, whatever IM repeats.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;

/// Collects what is logged.
#[derive(Clone, Default)]
struct Log(Arc<std::sync::Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[track_caller]
fn is_clean(text: &str) {
    for secret in [PASSWORD, TOKEN, "new-pass"] {
        assert!(!text.contains(secret), "{text}");
        assert!(!text.contains(&STANDARD.encode(secret)), "{text}");
    }
    // Parts of the secrets that few escapes change, and parts of what base64 makes of them.
    for part in ["w&d", "w&amp;d", "w%26d", "w\\u0026d", "t0ken", "cloud-t"] {
        assert!(!text.contains(part), "{text}");
    }
    for offset in 0..3 {
        let encoded = STANDARD.encode(format!("{}{TOKEN}", "x".repeat(offset)));
        assert!(!text.contains(&encoded[4..12]), "{text}");
    }
}

/// What IM may say of the secrets.
fn repeats() -> Vec<String> {
    vec![
        format!("user me with {PASSWORD} and {TOKEN}"),
        json!({ "password": PASSWORD, "secret": TOKEN }).to_string(),
        super::super::target::authorization(&target("http://x")),
        format!("Basic {}", STANDARD.encode(format!("me:{PASSWORD}"))),
        format!("{} {}", STANDARD.encode(PASSWORD), STANDARD.encode(TOKEN)),
        "p%27%C3%A4%5Cs%0A%22w%26d cloud-t0ken".to_owned(),
        "p%27%c3%a4%5cs%0a%22w%26d+cloud-t0ken".to_owned(),
        r#"{'password': 'p\'ä\\s\n"w&d', 'x': 'cloud-t0ken'}"#.to_owned(),
        r#"{"password": "p'\u00e4\\s\n\"w&d"}"#.to_owned(),
        r#"{\"password\": \"p'\u00e4\\\\s\\n\\\"w&d\"}"#.to_owned(),
        r"p\u0027\u00E4\u005Cs\u000A\u0022w\u0026d".to_owned(),
        "p&#39;ä\\s\n&quot;w&amp;d".to_owned(),
        "p'ä\\s   \r\n\"w&d".to_owned(),
        format!("x{PASSWORD}{TOKEN}{PASSWORD}"),
        // A whole that is encoded has the secret at any of three offsets.
        STANDARD.encode(format!("1{TOKEN}")),
        STANDARD.encode(format!("12{TOKEN}3")),
        STANDARD.encode(format!("123{TOKEN}34")),
        // The end of what is shown goes through the secret.
        format!("{}{TOKEN}", "x".repeat(505)),
    ]
}

/// Sends calls that IM answers with these texts, and checks all that is returned.
async fn repeat(text: &str) {
    for status in [400, 500] {
        let length = text.len();
        let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n\r\n{text}");
        let (answered, _) = exchange(&Call::List, &answer).await;
        let failure = answered.unwrap_err();
        is_clean(&failure.message);
        is_clean(&format!("{failure:?} {failure}"));
        assert!(failure.message.contains("***"), "{failure}");
    }
    let log = ok(&json!({ "contmsg": text }).to_string());
    let (answered, _) = exchange(&Call::Log { id: id() }, &log).await;
    match answered.unwrap() {
        Answer::Log(log) => is_clean(&log),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn no_secret_is_ever_shown() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(log.clone())
        .with_span_events(tracing_subscriber::fmt::format::FmtSpan::FULL)
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    for text in repeats() {
        repeat(&text).await;
    }
    // The new password is one of its own.
    let refusal = "HTTP/1.1 400 X\r\ncontent-length: 14\r\n\r\nbad \"new-pass\"";
    let call = Call::AddOwner {
        id: id(),
        username: "me".to_owned(),
        password: Hidden::new("new-pass"),
    };
    exchange(&call, &ok("")).await.0.unwrap();
    let failure = exchange(&call, refusal).await.0.unwrap_err();
    assert_eq!(failure.message, "bad \"***\"");
    is_clean(&format!("{call:?} {:?}", target("http://127.0.0.1:1")));
    let json = json!({ "password": PASSWORD, "secret": TOKEN });
    let template = Answer::Template(json.to_string());
    let outputs = Answer::Outputs(serde_json::from_value(json).unwrap());
    is_clean(&format!("{outputs:?} {template:?}"));
    let logged = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(!logged.is_empty());
    is_clean(&logged);
}
