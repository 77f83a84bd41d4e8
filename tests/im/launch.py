"""Starts the IM server on loopback: python -I launch.py FOLDER PORT BOOT_MODE [USER_DB]

IM has no flags: its configuration is attributes of a class, which must be set before the server is imported.
The database and the log are in FOLDER, which must also be the current directory, since IM leaves a cache file there.
Nothing that IM does may leave this machine: connections, look-ups and datagrams to other hosts are refused, and so are
programs, which would not be watched. A refusal is an OSError, as if the network refused; it is printed.
"""

import ipaddress
import sys

HOSTS = {"socket.connect", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo", "socket.gethostbyname"}
PROGRAMS = {"subprocess.Popen", "os.exec", "os.posix_spawn", "os.system"}


def is_here(host):
    host = host.decode() if isinstance(host, bytes) else host
    if host in (None, "", "localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_of(event, arguments):
    """A socket's address is a tuple of host and port; that of a Unix socket is a path, which is here."""
    if event.startswith("socket.get"):
        return arguments[0]
    return arguments[1][0] if isinstance(arguments[1], tuple) else None


def refuse(event, arguments):
    if event in PROGRAMS or event in HOSTS and not is_here(host_of(event, arguments)):
        what = arguments[0] if event in PROGRAMS else host_of(event, arguments)
        print(f"refused: {event} {what}", file=sys.stderr, flush=True)
        raise PermissionError(f"the test's IM server stays on this machine: {event} {what}")


def main():
    folder, port, boot_mode, *user_db = sys.argv[1:]
    del sys.argv[1:]
    sys.addaudithook(refuse)

    from IM.config import Config

    Config.REST_ADDRESS, Config.REST_PORT = "127.0.0.1", int(port)
    Config.DATA_DB, Config.LOG_FILE = f"sqlite:///{folder}/im.db", f"{folder}/im.log"
    # States move within a second.
    Config.VM_INFO_UPDATE_FREQUENCY = Config.CONFMAMAGER_CHECK_STATE_INTERVAL = 1
    Config.BOOT_MODE = int(boot_mode)
    Config.USER_DB = "".join(user_db)

    from IM import im_service

    im_service.main()


if __name__ == "__main__":
    main()
