//! The page of the console in a real web browser, as people see it, use it by keyboard, and hear it from a screen reader.

use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use podloom_tests::{Chromium, Cluster, MountedBundle, blackbox_on, eventually};
use serde_json::Value;

use super::{MISSING, SECRET, chain, start};

/// A pod whose names would do harm if they were read as HTML.
const HOSTILE: &str = r#"
    const image = "<img src=x onerror='document.title = 1'><script>document.title = 2</script>";
    const plugin = { name: image, outcome: "mutated", writes: 1, refusedWrites: 0, paths: [image] };
    const pod = { number: 0, at: "2026-01-01T00:00:00Z", kind: "Pod", namespace: image, name: image,
        dryRun: false, verdict: image, milliseconds: 1, plugins: [plugin] };
    showPods([pod]);
    [document.title, document.images.length, at("pods-rows").textContent.split(image).length - 1].join()
"#;

async fn until(page: &mut Chromium, id: &str, what: &str, text: &str) -> String {
    let expression = format!("document.getElementById({id:?}).textContent");
    eventually(what, async || {
        let shown = page.value(&expression);
        let shown = shown.as_str().unwrap_or_default().to_owned();
        shown.contains(text).then_some(shown.clone()).ok_or(shown)
    })
    .await
}

#[track_caller]
fn assert_heard(heard: &[String], expected: &[&str]) {
    for one in expected {
        assert!(heard.iter().any(|it| it == one), "{one} in {heard:#?}");
    }
}

/// Keeps pictures of the page where `PODLOOM_PICTURES` says, so that somebody can look at them.
fn keep_pictures(page: &mut Chromium) {
    let Some(folder) = std::env::var_os("PODLOOM_PICTURES") else {
        return;
    };
    for (name, width, scheme) in [
        ("light", 1280, "light"),
        ("dark", 1280, "dark"),
        ("narrow", 380, "light"),
    ] {
        let picture = BASE64_STANDARD.decode(page.picture(width, scheme)).unwrap();
        std::fs::write(Path::new(&folder).join(format!("{name}.png")), picture).unwrap();
    }
}

#[test]
fn the_page_works_in_a_browser_by_keyboard_and_for_a_screen_reader() {
    blackbox_on(Cluster::without_operator, "console-page", async |scene| {
        let Some(mut page) = Chromium::start() else {
            eprintln!("skipped: there is no Chromium; install it, or name it in PODLOOM_CHROMIUM");
            return;
        };
        let bundle = MountedBundle::of(&chain(SECRET));
        let operator = start(
            &scene,
            &bundle,
            &["--console", "--pod-name", "the-operator"],
        )
        .await;
        scene.behaviours().await;
        let address = operator.listens("http").unwrap();
        page.open(&format!("http://{address}/console"));
        until(&mut page, "connection", "the page listens", "Live").await;
        scene.browser("shown", "running").await;
        until(&mut page, "pods-rows", "its pod is shown", "shown").await;
        until(&mut page, "latency-rows", "the call is counted", "µs").await;
        heard_at_first(&page.accessible(), &scene.namespace);

        // Its details are opened by the keyboard, and stay open when others come.
        page.value("document.querySelector('#pods-rows summary').focus()");
        page.press_enter();
        scene.browser("another", "running").await;
        until(&mut page, "pods-rows", "another pod is shown", "another").await;
        assert_heard(&page.accessible(), &["StaticText: /metadata/labels/team"]);
        let focused = page.value("document.activeElement.closest('tr').textContent");
        assert!(focused.as_str().unwrap().contains("shown"), "{focused}");

        bundle.update(MISSING);
        let news = until(&mut page, "news", "the refusal is said", "missing.wasm").await;
        assert!(news.contains("a new chain was refused"), "{news}");
        until(&mut page, "chain-error", "it is shown", "Refused since").await;
        keep_pictures(&mut page);
        bundle.update(&chain("badger"));
        until(
            &mut page,
            "news",
            "the new chain is said",
            "nothing had to be compiled",
        )
        .await;
        assert_eq!(
            page.value("document.getElementById('chain-error').hidden"),
            true
        );

        page.value("document.getElementById('pause').click()");
        let title = page.value("document.title");
        let harmless = format!("{},0,6", title.as_str().unwrap());
        assert_eq!(page.value(HOSTILE), Value::from(harmless));
        assert_eq!(page.complaints(), [""; 0]);
    });
}

fn heard_at_first(heard: &[String], namespace: &str) {
    assert_heard(
        heard,
        &[
            "heading: Podloom console",
            "heading: Chain",
            "heading: Latest pods",
            "button: Pause",
            "link: Latest pods",
            "table: The plugins that serve, in their order",
            "columnheader: May read and write",
            "rowheader: labels",
            "StaticText: /metadata/labels",
            "columnheader: What the plugins did",
            &format!("rowheader: Browser {namespace}/shown"),
            "table: Browsers: 1",
            "rowheader: browser/cluster",
        ],
    );
    let plots = heard
        .iter()
        .filter(|it| it.starts_with("image: Calls of labels: 100% up to "));
    assert_eq!(plots.count(), 1, "{heard:#?}");
    assert!(
        heard.iter().any(|it| it.starts_with("status:")),
        "{heard:#?}"
    );
}
