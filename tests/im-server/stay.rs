//! The server stays on this machine.

use std::process::Command;

use super::with_im;

/// Loads the launcher without starting the server, and tries what it refuses. The address is one that no machine has.
const TRY: &str = r#"
import runpy, socket, subprocess, sys
refuse = runpy.run_path(sys.argv[1], run_name="launcher")["refuse"]
listener = socket.create_server(("127.0.0.1", 0))
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sys.addaudithook(refuse)
socket.create_connection(listener.getsockname()).close()
socket.getaddrinfo("localhost", 80)
for name, act in {
    "connect": lambda: socket.socket().connect(("192.0.2.1", 22)),
    "datagram": lambda: datagrams.sendto(b"", ("192.0.2.1", 53)),
    "name": lambda: socket.getaddrinfo("podloom.invalid", 80),
    "program": lambda: subprocess.run(["true"]),
}.items():
    try:
        act()
        print(name, "passed")
    except PermissionError as error:
        print(name, error)
"#;

#[test]
fn the_launcher_refuses_other_hosts_and_programs() {
    with_im("launcher", async |_im| {
        let python = podloom_im::python().unwrap();
        let output = Command::new(python)
            .args(["-I", "-c", TRY, podloom_im::LAUNCHER])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let refused = |name: &str| {
            let start = format!("{name} the test's IM server stays on this machine");
            text.lines().any(|line| line.starts_with(&start))
        };
        for name in ["connect", "datagram", "name", "program"] {
            assert!(
                refused(name),
                "{name}: {text}{}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
    });
}
