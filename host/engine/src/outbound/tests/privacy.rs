//! Secrets that must not be shown.

use std::fmt::Write;

use http::HeaderValue;
use rcgen::{DnType, SanType};
use tokio::io::AsyncWriteExt;

use super::super::{Pem, RequestLimits, Roots, Tls};
use super::secure::Authority;
use super::server::{Script, Server, read_to_end, respond, script};
use super::{at, client, get, limits, unchecked, url};

const SECRET: &str = "hunter2";

/// Responses with the secret in every part.
const RESPONSES: [&str; 10] = [
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

#[tokio::test]
async fn no_error_shows_a_secret() {
    let limits = RequestLimits {
        response_bytes: 100,
        ..limits()
    };
    let (client, tls) = (client(limits), unchecked());
    let authority = Authority::new("ca.pem");
    let signed = authority.sign(&[], |params| {
        let names = [DnType::CommonName, DnType::OrganizationName];
        for name in names {
            params.distinguished_name.push(name, SECRET);
        }
        params.subject_alt_names = vec![SanType::Rfc822Name(SECRET.try_into().unwrap())];
    });
    let mut servers = Vec::new();
    for bytes in RESPONSES {
        servers.push(("http", Server::start(respond(bytes)).await));
        let server = Server::start_tls(signed.config(), respond(bytes)).await;
        servers.push(("https", server));
        // Instead of a handshake.
        servers.push(("https", Server::start(say(bytes)).await));
    }
    let alert = b"\x15\x03\x03\x00\x09\x02\x28hunter2";
    servers.push(("https", Server::start(say(alert)).await));
    // The certificate is for another host, or of an unknown authority.
    let other = Authority::new("other.pem");
    let checked = [&authority, &other].map(|trusted| {
        let roots = Roots::Only(&trusted.pem);
        Tls::new(&roots, None).unwrap()
    });
    let targets = servers.iter().flat_map(|(scheme, server)| {
        let all = [&tls].into_iter().chain(&checked);
        all.map(move |tls| (scheme, server, tls))
    });
    for (scheme, server, tls) in targets {
        let target = url(&format!(
            "{scheme}://{}/{SECRET}?{SECRET}#{SECRET}",
            server.address
        ));
        let mut request = get(&target, tls);
        request.via = Some(&target);
        request.body = SECRET.into();
        for name in ["authorization", "x-token", "cookie"] {
            let value = HeaderValue::from_static(SECRET);
            request.headers.insert(name, value);
        }
        let mut shown = format!("{request:?}");
        match client.send(request).await {
            Ok(response) => write!(shown, "{response:?}").unwrap(),
            Err(error) => write!(shown, "{error} {error:?}").unwrap(),
        }
        assert!(!shown.contains(SECRET), "{shown}");
        assert!(shown.contains("127.0.0.1"), "{shown}");
    }
}

/// Writes these bytes at once, before anything is read.
fn say(bytes: &'static (impl AsRef<[u8]> + ?Sized + Sync)) -> Script {
    script(move |mut stream| async move {
        let _ = stream.write_all(bytes.as_ref()).await;
        read_to_end(&mut *stream).await;
    })
}

#[tokio::test]
async fn credentials_are_marked_as_sensitive() {
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
