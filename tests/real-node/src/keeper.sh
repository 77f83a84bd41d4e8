# Keeps a node until its owner is gone, then removes what is left of it. Standard input is a pipe that only the owner holds open;
# standard output is the lock of the node's directory. $1 is that directory.
directory=$1
# A signal ends the node too, and is no reason to leave something behind.
trap : HUP INT TERM
{
  # The node's processes belong to its cgroups, so that the cgroup namespace begins there.
  while read -r cgroup; do echo 0 > "$cgroup/cgroup.procs" || exit; done < "$directory/cgroups" || exit
  # Each dies with its parent: unshare with this shell, the first process of the namespaces with unshare, and with it all others.
  exec setpriv --pdeathsig KILL \
    unshare --mount --cgroup --net --pid --ipc --uts --fork --kill-child=KILL --mount-proc \
    sh "$directory/namespaces.sh" "$directory"
} < /dev/null > "$directory/logs/namespaces.log" 2>&1 &
echo "$!" > "$directory/unshare"
read -r _
kill -KILL "$!" 2>/dev/null
wait "$!"
if [ -e "$directory/keep-logs" ]; then rest=$directory/var; else rest=$directory; fi
attempt=0
while [ "$attempt" -lt 150 ]; do
  attempt=$((attempt + 1))
  # The kernel takes a moment to end the processes; until then, their cgroups stay.
  busy=
  while read -r cgroup; do
    [ -d "$cgroup" ] || continue
    find "$cgroup" -depth -type d -exec rmdir {} + 2>/dev/null || busy=$cgroup
  done < "$directory/cgroups"
  [ -z "$busy" ] && rm -rf "$rest" 2>/dev/null && exit
  sleep 0.2
done
