//! Configuration files of the node's programs.

use std::path::Path;

/// The image of every pod's sandbox.
pub(crate) const SANDBOX: &str = "localhost/pause:1";

/// Where the configuration of the network plugins is, inside the node.
pub(crate) const NETWORKS: &str = "/var/node/networks";

/// The kubelet: as in a cluster, but it adapts to a machine that it does not own, and reports changes early.
pub(crate) const KUBELET: &str = "\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
# The API server reaches it on the loopback address, and nobody else does.
address: 127.0.0.1
healthzBindAddress: 127.0.0.1
readOnlyPort: 0
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
failCgroupV1: false
failSwapOn: false
cgroupDriver: cgroupfs
cgroupRoot: /
enforceNodeAllocatable: [pods]
oomScoreAdj: 0
makeIPTablesUtilChains: false
# By default the kubelet makes a directory in /usr, which is this machine's.
volumePluginDir: /var/lib/kubelet/volume-plugins
# By default a changed ConfigMap reaches its volume after about a minute.
configMapAndSecretChangeDetectionStrategy: Watch
syncFrequency: 1s
staticPodPath: /var/lib/kubelet/static
fileCheckFrequency: 1s
resolvConf: /run/resolv.conf
clusterDNS: [10.0.0.10]
serializeImagePulls: false
# A full disk of this machine is not the node's, and images that were removed could not be pulled again.
evictionHard: {memory.available: '0%', nodefs.available: '0%', nodefs.inodesFree: '0%', imagefs.available: '0%'}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
";

/// The network of the pods: a bridge, on which they reach each other and the node.
pub(crate) const NETWORK: &str = r#"{
  "cniVersion": "1.0.0",
  "name": "pods",
  "plugins": [{
    "type": "bridge",
    "bridge": "pods0",
    "isGateway": true,
    "ipMasq": false,
    "hairpinMode": true,
    "ipam": {
      "type": "host-local",
      "dataDir": "/run/addresses",
      "ranges": [[{"subnet": "10.88.0.0/16"}]],
      "routes": [{"dst": "0.0.0.0/0"}]
    }
  }]
}
"#;

/// containerd with runc, and with the network plugins of a directory.
pub(crate) fn containerd(plugins: &Path) -> String {
    format!(
        "\
version = 3
root = '/var/lib/containerd'
state = '/run/containerd'
disabled_plugins = [
  'io.containerd.internal.v1.tracing', 'io.containerd.nri.v1.nri', 'io.containerd.snapshotter.v1.blockfile',
  'io.containerd.snapshotter.v1.btrfs', 'io.containerd.snapshotter.v1.devmapper', 'io.containerd.snapshotter.v1.erofs',
  'io.containerd.snapshotter.v1.zfs', 'io.containerd.tracing.processor.v1.otlp',
]

[plugins.'io.containerd.internal.v1.opt']
path = '/var/lib/containerd/opt'

[grpc]
address = '/run/containerd/containerd.sock'

[plugins.'io.containerd.grpc.v1.cri']
stream_server_address = '127.0.0.1'

[plugins.'io.containerd.cri.v1.images']
snapshotter = 'overlayfs'

[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = '{SANDBOX}'

[plugins.'io.containerd.cri.v1.runtime']
# Without the capability CAP_SYS_RESOURCE, which root does not have everywhere, no score can be lowered.
restrict_oom_score_adj = true
disable_apparmor = true

[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ['{}']
conf_dir = '{NETWORKS}'

[plugins.'io.containerd.cri.v1.runtime'.containerd]
default_runtime_name = 'runc'

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = 'io.containerd.runc.v2'

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
SystemdCgroup = false
",
        plugins.display()
    )
}
