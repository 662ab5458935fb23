"""What was set with ``tune``, kept in the data directory: it holds after a restart until it is set back.

A file of its own and not a row of the change table: a setting is written by the coordinator's loop, which
must not wait for the committing thread, and it has nothing to do with the subscriptions that backups carry.
"""

from __future__ import annotations

import contextlib
import logging
import os
from pathlib import Path

import msgspec

from pubsub_cluster.coordinator.statistics_file import ImportedStatistics
from pubsub_cluster.language.errors import StoreError
from pubsub_cluster.shm.packed_file import PART_SUFFIX, put_in_place
from pubsub_cluster.tuner.messages import FrozenTable

SETTINGS_FILE = "settings.json"
log = logging.getLogger(__name__)


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an operator has set.

    Attributes
    ----------
    values : dict of str to float
        By name; what is not here has its default.
    is_frozen : bool
    tables : tuple of FrozenTable or None
        Those that are frozen; None while none are known.
    statistics : ImportedStatistics or None
        Those that tables are chosen by; None: by a sample of the events that come.
    """

    values: dict[str, float] = {}
    is_frozen: bool = False
    tables: tuple[FrozenTable, ...] | None = None
    statistics: ImportedStatistics | None = None


def read_settings(data_dir: Path) -> Settings:
    """Return what was kept; nothing without a file, or, with a warning, where it cannot be understood."""
    path = data_dir / SETTINGS_FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Settings)
    except FileNotFoundError:
        return Settings()
    except (OSError, msgspec.DecodeError) as error:
        log.warning("the start goes on without the settings of `tune set`: %s (%s)", error, path)
        return Settings()


def write_settings(data_dir: Path, settings: Settings) -> None:
    """Keep settings, durably; what was kept before stays when this fails.

    Raises
    ------
    StoreError
    """
    path = data_dir / SETTINGS_FILE
    part = path.with_name(path.name + PART_SUFFIX)
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(settings), indent=1))
            file.flush()
            os.fsync(file.fileno())
        put_in_place(part, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise StoreError(
            "the settings could not be kept",
            seen=f"{error} ({path})",
            remedy="Nothing was set. Free disk space, or make the data directory writable; try again.",
        ) from error
