# The first process of a node's namespaces: prepares files, cgroups and network, then waits for orphans. $1 is the node's directory.
set -eu
directory=$1

# Directories that programs of a node use by fixed names. What is mounted here is seen only inside.
mount --make-rshared /
mount --bind "$directory/var" /var
mount -t tmpfs -o mode=755 run /run
mkdir /run/lock
mount -t sysfs sysfs /sys

# Cgroups: the roots of these hierarchies are the node's own cgroups.
mount -t tmpfs -o mode=755 cgroup /sys/fs/cgroup
while IFS=: read -r _ controllers _; do
  name=${controllers#name=}
  hierarchy=/sys/fs/cgroup/${name:-unified}
  # Where the node has no cgroup of its own, its root would be the machine's.
  grep -qF "$hierarchy/" "$directory/cgroups" || continue
  mkdir "$hierarchy"
  case $controllers in
  '') mount -t cgroup2 cgroup2 "$hierarchy" ;;
  name=*) mount -t cgroup -o "none,$controllers" cgroup "$hierarchy" ;;
  *) mount -t cgroup -o "$controllers" cgroup "$hierarchy" ;;
  esac
done < /proc/self/cgroup

# The kubelet sets parameters of the whole machine, unless they have its values already. It gets to see files that have them.
mkdir /run/parameters
for parameter in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
  kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
  name=${parameter%=*}
  file=/run/parameters/$(basename "$name")
  echo "${parameter#*=}" > "$file"
  mount --bind "$file" "/proc/sys/$name"
done

# Network: the node's address is on a bridge without ports. Programs of the control plane listen on the loopback address only; the
# rules lead pods to the API server, in place of kube-proxy, and the API server to the kubelet.
echo real-0 > /proc/sys/kernel/hostname
: > /run/resolv.conf
ip link set lo up
ip link add node0 type bridge
ip address add 10.99.0.2/24 dev node0
ip link set node0 up
ip route add default via 10.99.0.1 dev node0
echo 1 > /proc/sys/net/ipv4/ip_forward
echo 1 > /proc/sys/net/ipv4/conf/all/route_localnet
to_api_server="--destination 10.0.0.1 --protocol tcp --dport 443 --jump DNAT --to-destination 127.0.0.1:6443"
iptables --table nat --append PREROUTING $to_api_server
iptables --table nat --append OUTPUT $to_api_server
iptables --table nat --append OUTPUT --destination 10.99.0.2 --protocol tcp --dport 10250 \
  --jump DNAT --to-destination 127.0.0.1:10250

: > "$directory/prepared"
# A shell that waits for one child takes every orphan that ends meanwhile.
while :; do sleep 1; done
