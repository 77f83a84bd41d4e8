//! What must not be shown.

use std::fmt::Write;

use http::HeaderValue;

use super::super::{Limits, Pem, Roots, Tls};
use super::server::{Server, answer};
use super::{at, client, get, limits, unchecked, url};

const SECRET: &str = "hunter2";

#[tokio::test]
async fn no_failure_shows_a_secret() {
    let cases = [
        "garbage hunter2",
        "HTTP/1.1 200 hunter2\r\nx: hunter2\r\nbad hunter2\r\n\r\n",
        "HTTP/1.1 302 hunter2\r\nlocation: https://b.example/hunter2?hunter2\r\n\r\n",
        "HTTP/1.1 302 x\r\nlocation: session=hunter2\r\n\r\n",
        "HTTP/1.1 302 x\r\nlocation: hunter2\r\n\r\n",
        "HTTP/1.1 200 OK\r\nx: hunter2\r\ncontent-length: 50\r\n\r\nhunter2",
        "HTTP/1.1 200 OK\r\nx: hunter2\r\ncontent-length: 500\r\n\r\nhunter2",
        "HTTP/1.1 200 OK\r\ncontent-encoding: hunter2\r\n\r\nhunter2",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nhunter2",
        "HTTP/1.1 200 OK\r\nset-cookie: hunter2\r\ncontent-length: 7\r\n\r\nhunter2",
    ];
    let limits = Limits {
        answer_bytes: 100,
        ..limits()
    };
    let (client, tls) = (client(limits), unchecked());
    for bytes in cases {
        let server = Server::start(answer(bytes)).await;
        let target = url(&format!("{}{SECRET}?{SECRET}#{SECRET}", spelled(&server)));
        let mut request = get(&target, &tls);
        request.via = Some(&target);
        request.body = SECRET.into();
        for name in ["authorization", "x-token", "cookie"] {
            let value = HeaderValue::from_static(SECRET);
            request.headers.insert(name, value);
        }
        let mut shown = format!("{request:?}");
        match client.send(request).await {
            Ok(answer) => write!(shown, "{answer:?}").unwrap(),
            Err(error) => write!(shown, "{error} {error:?}").unwrap(),
        }
        assert!(!shown.contains(SECRET), "{shown}");
        assert!(shown.contains("127.0.0.1"), "{shown}");
    }
}

fn spelled(server: &Server) -> String {
    format!("http://{}/", server.address)
}

#[tokio::test]
async fn credentials_are_marked_before_they_travel() {
    let (target, tls) = (at(([127, 0, 0, 1], 1).into()), unchecked());
    let mut request = get(&target, &tls);
    for name in ["authorization", "proxy-authorization", "cookie", "x-other"] {
        request
            .headers
            .append(name, HeaderValue::from_static(SECRET));
        request
            .headers
            .append(name, HeaderValue::from_static(SECRET));
    }
    let message = super::super::message(request);
    for (name, value) in message.headers() {
        let is_secret = matches!(
            name.as_str(),
            "authorization" | "proxy-authorization" | "cookie"
        );
        assert_eq!(value.is_sensitive(), is_secret, "{name}");
    }
    assert_eq!(message.headers().get_all("authorization").iter().count(), 2);
}

#[test]
fn neither_keys_nor_certificates_are_shown() {
    let text = format!("-----BEGIN CERTIFICATE-----\n{SECRET}!\n-----END CERTIFICATE-----\n");
    let pem = Pem::new("ca.pem".to_owned(), text.into_bytes()).unwrap();
    let error = Tls::new(&Roots::Only(&pem), None).unwrap_err();
    let shown = format!("{pem:?} {error} {error:?}");
    assert!(!shown.contains(SECRET), "{shown}");
    assert!(shown.contains("ca.pem"), "{shown}");
}
