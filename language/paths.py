"""Where a cluster keeps its files, and the check that nobody else can read or replace them.

Clients and the coordinator both find the socket from the data directory alone, so the rules live here,
below both. A directory that holds a socket is 0700 and ours: file permissions are the authentication on
one host. Everything is checked with `lstat`, so that a symbolic link planted in a shared folder is refused
and never followed.
"""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

from pubsub_cluster.language.errors import CallerError, StartError

DATA_DIR_VARIABLE = "PUBSUB_CLUSTER_DATA"
CLIENT_SOCKET_NAME = "client.sock"
RECORDS_SOCKET_NAME = "records.sock"
PORT_MAX = 65_535
# sun_path of sockaddr_un holds 108 bytes with its closing zero.
SOCKET_PATH_SIZE_BYTES_MAX = 107


def default_data_dir() -> Path:
    """Return ``$PUBSUB_CLUSTER_DATA``, or ``~/.local/state/pubsub-cluster`` where that is not set."""
    chosen = os.environ.get(DATA_DIR_VARIABLE)
    if chosen:
        return Path(chosen).expanduser()
    return Path.home() / ".local" / "state" / "pubsub-cluster"


def ensure_private_dir(path: str | os.PathLike[str]) -> Path:
    """Create the directory with mode 0700 unless it exists, and check that it is private and ours.

    Parameters
    ----------
    path : path
        Missing parents are created, with the mode that the umask gives.

    Returns
    -------
    Path
        The absolute path.

    Raises
    ------
    StartError
        It is a symbolic link or no directory, another user's, open to others, or cannot be made.
    """
    directory = Path(os.path.abspath(path))
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.mkdir(directory, 0o700)
        except FileExistsError:
            pass
        else:
            os.chmod(directory, 0o700)  # the umask may have taken bits away
        found = os.lstat(directory)
    except OSError as error:
        raise StartError(
            f"the directory {directory} cannot be made or read",
            seen=error.strerror,
            remedy="Choose another directory with --data, or give yourself write permission on its parent.",
            path=str(directory),
        ) from error
    _check_private(directory, found)
    return directory


def socket_path(data_dir: str | os.PathLike[str], name: str = CLIENT_SOCKET_NAME) -> Path:
    """Return the path of a cluster's socket file, short enough for the system.

    It is ``<data_dir>/<name>`` where that fits into 107 bytes, else a file of that name in a private
    directory below ``/tmp``, derived from the data directory. Both levels of that one are created and
    checked here, for clients too: a socket in somebody else's folder is nobody's cluster.

    Raises
    ------
    StartError
        The short directory belongs to another user or is open to others, or not even the short path fits.
    """
    full = Path(os.path.realpath(data_dir))
    direct = full / name
    if len(os.fsencode(direct)) <= SOCKET_PATH_SIZE_BYTES_MAX:
        return direct
    # Not tempfile.gettempdir(): TMPDIR may differ between the coordinator's and a client's environment.
    root = ensure_private_dir(Path("/tmp") / f"pubsub-cluster-{os.getuid()}")
    digest = hashlib.sha256(os.fsencode(full)).hexdigest()[:16]
    short = ensure_private_dir(root / digest) / name
    if len(os.fsencode(short)) > SOCKET_PATH_SIZE_BYTES_MAX:
        raise StartError(
            "the name of the socket is too long for a socket path",
            seen=len(os.fsencode(short)),
            limit=SOCKET_PATH_SIZE_BYTES_MAX,
            remedy="Use a shorter socket name.",
            path=str(short),
        )
    return short


def client_endpoint(data_dir: str | os.PathLike[str]) -> str:
    """Return the ZeroMQ endpoint, ``ipc://...``, of the cluster that keeps its files in `data_dir`."""
    return f"ipc://{socket_path(data_dir, CLIENT_SOCKET_NAME)}"


def records_endpoint(endpoint: str) -> str:
    """Return where a cluster publishes records, from where its clients connect to.

    ``ipc://.../records.sock`` beside the clients' socket; of ``tcp://host:port`` the next port.

    Raises
    ------
    CallerError
        It is another kind of endpoint.
    """
    scheme, _, place = endpoint.partition("://")
    host, _, port = place.rpartition(":")
    if scheme == "ipc" and place:
        return f"ipc://{Path(place).with_name(RECORDS_SOCKET_NAME)}"
    if scheme == "tcp" and host and port.isdecimal() and int(port) < PORT_MAX:
        return f"tcp://{host}:{int(port) + 1}"
    raise CallerError(
        "records have no place beside this endpoint",
        seen=endpoint,
        limit=f"ipc://path/to/client.sock, or tcp://host:port with a port below {PORT_MAX}",
    )


def _check_private(directory: Path, found: os.stat_result) -> None:
    where = f"the directory {directory}"
    if not stat.S_ISDIR(found.st_mode):
        kind = "a symbolic link" if stat.S_ISLNK(found.st_mode) else "no directory"
        raise StartError(
            f"{where} is {kind}",
            remedy="Give the path of a real directory, or of one that does not exist yet.",
            path=str(directory),
        )
    if found.st_uid != os.getuid():
        raise StartError(
            f"{where} belongs to another user",
            seen=found.st_uid,
            limit=os.getuid(),
            remedy="Choose a directory of your own with --data.",
            path=str(directory),
        )
    mode = stat.S_IMODE(found.st_mode) & 0o777
    if mode != 0o700:
        raise StartError(
            f"{where} does not have the mode of a private directory",
            seen=f"{mode:04o}",
            limit="0700",
            remedy=f"Run `chmod 700 {directory}` if only you use it, or choose another with --data.",
            path=str(directory),
        )
