use std::fs;

use super::{create_below, own};

#[test]
fn each_mounted_hierarchy_has_a_cgroup_of_ours() {
    let mount = tempfile::tempdir().unwrap();
    for directory in [
        "memory/team/7",
        "systemd",
        "unified",
        "cpu,cpuacct",
        "freezer",
    ] {
        fs::create_dir_all(mount.path().join(directory)).unwrap();
    }
    let text =
        "9:name=systemd:/\n4:memory:/team/7\n2:cpu,cpuacct:/\n6:freezer:/gone\n3:rdma:/\n0::/\n";
    let expected = ["cpu,cpuacct/", "memory/team/7", "systemd/", "unified/"];
    let expected = expected.map(|path| mount.path().join(path));
    assert_eq!(own(text, mount.path()), expected);
    assert!(own("nonsense\n", mount.path()).is_empty());
}

#[test]
fn what_fails_midway_leaves_no_cgroup() {
    let mount = tempfile::tempdir().unwrap();
    let (first, mut deep) = (mount.path().join("memory"), mount.path().join("cpuset"));
    fs::create_dir(&first).unwrap();
    // So deep that a cgroup fits into the longest path of Linux, but not the files in it.
    let name = "n".repeat(200);
    while deep.as_os_str().len() + 300 < 4096 {
        deep.push("d".repeat(90));
    }
    fs::create_dir_all(&deep).unwrap();
    let padding = 4096 - 1 - "/".len() - name.len() - "/".len() - deep.as_os_str().len();
    deep.push("p".repeat(padding));
    fs::create_dir(&deep).unwrap();
    fs::write(deep.join("cpuset.cpus"), "0\n").unwrap();
    assert!(create_below(&[first.clone(), deep.clone()], &name).is_err());
    assert!(!first.join(&name).exists() && !deep.join(&name).exists());
    assert!(create_below(std::slice::from_ref(&first), &name).is_ok());
    assert!(first.join(&name).exists());
}
