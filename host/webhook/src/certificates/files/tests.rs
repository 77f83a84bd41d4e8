//! Files on a real disk, handshakes in memory, and a clock that jumps.

use std::fs;
use std::os::unix::fs::symlink;

use podloom_control_loop::NoRecorder;
use prometheus_client::registry::Registry;
use rustls::pki_types::ServerName;
use tempfile::TempDir;
use tokio::task::JoinHandle;

use super::super::CertificateMetrics;
use super::super::tests::connect_any;
use super::super::x509::{self, Pair};
use super::*;

const LIFETIME: Duration = Duration::from_secs(90 * 86_400);

struct Scene {
    place: TempDir,
    slot: Arc<CertificateSlot>,
    authority: Pair,
    stop: CancellationToken,
    running: JoinHandle<()>,
}

impl Scene {
    /// Serves an empty directory.
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("tls")).unwrap();
        let slot = Arc::new(CertificateSlot::new(CertificateMetrics::register(
            &mut Registry::default(),
        )));
        let stop = CancellationToken::new();
        let serving = serve_files(
            place.path().join("tls"),
            Arc::clone(&slot),
            Arc::new(NoRecorder),
            stop.clone(),
        );
        Self {
            running: tokio::spawn(serving),
            authority: x509::authority(SystemTime::now(), LIFETIME).unwrap(),
            place,
            slot,
            stop,
        }
    }

    fn directory(&self) -> PathBuf {
        self.place.path().join("tls")
    }

    fn leaf(&self) -> Pair {
        self.leaf_at(SystemTime::now())
    }

    fn leaf_at(&self, now: SystemTime) -> Pair {
        let hosts = [ServerName::try_from("localhost").unwrap()];
        x509::server(&self.authority.key, &hosts, now, LIFETIME).unwrap()
    }

    /// Writes the files as the kubelet does: a new directory, and a link that is swapped.
    fn swap(&self, version: &str, certificate: &str, key: &str) {
        let directory = self.directory();
        let version = format!("..{version}");
        fs::create_dir(directory.join(&version)).unwrap();
        fs::write(directory.join(&version).join(CERTIFICATE), certificate).unwrap();
        fs::write(directory.join(&version).join(KEY), key).unwrap();
        let (link, next) = (directory.join(SWAPPED), directory.join("..data_tmp"));
        let before = fs::read_link(&link).ok();
        symlink(&version, &next).unwrap();
        fs::rename(&next, &link).unwrap();
        if let Some(before) = before {
            fs::remove_dir_all(directory.join(before)).unwrap();
        }
    }

    fn swap_pair(&self, version: &str, pair: &Pair) {
        self.swap(version, &certificate_pem(pair), &x509::key_pem(&pair.key));
    }

    /// Writes plain files, one after the other.
    fn write(&self, certificate: &str, key: &str) {
        fs::write(self.directory().join(CERTIFICATE), certificate).unwrap();
        fs::write(self.directory().join(KEY), key).unwrap();
    }

    /// Waits until the status, or the reason why there is none, has these words.
    async fn until(&self, words: &str) {
        for _ in 0..120 {
            let (Ok(status) | Err(status)) = self.slot.status();
            if status.contains(words) {
                return;
            }
            sleep(Duration::from_millis(500)).await;
        }
        panic!("{words:?} is not in {:?}", self.slot.status());
    }

    async fn until_served(&self, pair: &Pair) {
        for _ in 0..120 {
            let served = self.slot.served();
            if served.is_some_and(|served| served.certificate == pair.certificate) {
                return;
            }
            sleep(Duration::from_millis(500)).await;
        }
        panic!("another certificate is served: {:?}", self.slot.status());
    }

    async fn connect(&self) -> super::super::tests::Connection {
        let trusted = certificate_pem(&self.authority);
        let connected = connect_any(&self.slot, &trusted, "localhost").await;
        connected.unwrap()
    }

    async fn end(self) {
        self.stop.cancel();
        self.running.await.unwrap();
    }
}

fn certificate_pem(pair: &Pair) -> String {
    x509::certificates_pem([&pair.certificate])
}

#[tokio::test(start_paused = true)]
async fn each_rotation_reaches_new_connections_and_no_old_one() {
    let scene = Scene::new();
    scene.until("could not read").await;
    let leaves = [scene.leaf(), scene.leaf(), scene.leaf()];
    let mut open = Vec::new();
    for (version, leaf) in leaves.iter().enumerate() {
        scene.swap_pair(&version.to_string(), leaf);
        scene.until_served(leaf).await;
        open.push((scene.connect().await, leaf));
    }
    for (connection, leaf) in &mut open {
        connection.talk().await;
        assert_eq!(connection.certificate(), leaf.certificate.der.to_vec());
    }
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_bad_pair_keeps_the_last_good_one() {
    let scene = Scene::new();
    let good = scene.leaf();
    scene.swap_pair("good", &good);
    scene.until_served(&good).await;
    let (other, late) = (scene.leaf(), scene.leaf_at(SystemTime::UNIX_EPOCH));
    let early = scene.leaf_at(SystemTime::now() + LIFETIME);
    let (certificate, key) = (certificate_pem(&good), x509::key_pem(&good.key));
    let half = &key[..key.len() / 2];
    for (place, (certificate, key, words)) in [
        (&*certificate, "", "tls.key has no private key"),
        ("", &*key, "tls.crt has no certificate"),
        (&*certificate, half, "private key 1 in"),
        (&certificate[..200], &*key, "certificate 1 in"),
        (
            &*certificate,
            &*x509::key_pem(&other.key),
            "cannot be used together",
        ),
        (&*certificate_pem(&other), &*key, "cannot be used together"),
        (
            &*certificate_pem(&late),
            &*x509::key_pem(&late.key),
            "is valid from 1970-01-01",
        ),
        (
            &*certificate_pem(&early),
            &*x509::key_pem(&early.key),
            "is valid from",
        ),
        ("\u{0}garbage", "\u{0}garbage", "tls.crt has no certificate"),
    ]
    .into_iter()
    .enumerate()
    {
        scene.swap(&place.to_string(), certificate, key);
        scene.until(words).await;
        let status = scene.slot.status();
        assert!(status.is_ok(), "it is ready: {status:?}");
        assert_eq!(
            scene.connect().await.certificate(),
            good.certificate.der.to_vec()
        );
    }
    // The same pair again is no new certificate, and the problem is gone.
    scene.swap_pair("again", &good);
    for _ in 0..60 {
        sleep(Duration::from_secs(1)).await;
        if scene
            .slot
            .status()
            .is_ok_and(|status| !status.contains(';'))
        {
            return scene.end().await;
        }
    }
    panic!("{:?}", scene.slot.status());
}

#[tokio::test(start_paused = true)]
async fn plain_files_are_read_when_both_are_written() {
    let scene = Scene::new();
    let (one, two) = (scene.leaf(), scene.leaf());
    scene.write(&certificate_pem(&one), &x509::key_pem(&one.key));
    scene.until_served(&one).await;
    // The certificate comes first, and much later its key.
    fs::write(scene.directory().join(CERTIFICATE), certificate_pem(&two)).unwrap();
    scene.until("cannot be used together").await;
    fs::write(scene.directory().join(KEY), x509::key_pem(&two.key)).unwrap();
    scene.until_served(&two).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_directory_that_vanishes_and_returns_is_served_again() {
    let scene = Scene::new();
    let (one, two) = (scene.leaf(), scene.leaf());
    scene.swap_pair("1", &one);
    scene.until_served(&one).await;
    fs::remove_dir_all(scene.directory()).unwrap();
    scene.until("could not read").await;
    assert_eq!(
        scene.connect().await.certificate(),
        one.certificate.der.to_vec()
    );
    fs::create_dir(scene.directory()).unwrap();
    scene.swap_pair("2", &two);
    scene.until_served(&two).await;
    scene.end().await;
}
