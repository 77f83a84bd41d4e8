# Tries what a node does in its namespaces. $1 is a directory to make for files. Prints the name of each attempt before it.
set -eu
directory=$1
echo network
ip link add node0 type bridge
echo overlay
mkdir "$directory" "$directory/lower" "$directory/upper" "$directory/work" "$directory/merged"
mount -t overlay -o "lowerdir=$directory/lower,upperdir=$directory/upper,workdir=$directory/work" attempt "$directory/merged"
echo nat
iptables --table nat --append OUTPUT --destination 10.0.0.1 --protocol tcp --dport 443 --jump DNAT --to-destination 127.0.0.1:6443
