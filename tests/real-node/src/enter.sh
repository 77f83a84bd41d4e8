# Runs a program inside a node. $1 is the first process of its namespaces, $2 the file with its cgroups; the rest is the command.
first=$1
while read -r cgroup; do echo 0 > "$cgroup/cgroup.procs" || exit; done < "$2"
shift 2
exec nsenter --target "$first" --mount --cgroup --net --pid --ipc --uts --wd=/ -- "$@"
