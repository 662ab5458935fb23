"""What an operator may set while the cluster works: the tuner's thresholds, and how often it acts."""

from __future__ import annotations

import logging
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import msgspec

from pubsub_cluster.coordinator.config import check_bounds
from pubsub_cluster.coordinator.delivery.groups import GROUPS_DEFAULT
from pubsub_cluster.coordinator.settings_file import Settings, read_settings, write_settings
from pubsub_cluster.coordinator.statistics_file import ImportedStatistics, remove_statistics
from pubsub_cluster.language.errors import LimitError, ProtocolError, PubSubError, StoreError
from pubsub_cluster.language.limits import INT64_MAX
from pubsub_cluster.tuner.messages import FrozenTable, Thresholds, Tune

if TYPE_CHECKING:
    from pubsub_cluster.coordinator.runtime import Coordinator

THRESHOLDS = ("bm_max", "b_min", "rp_min")
MULTICAST_MOST = {"multicast_threshold": 1.0, "multicast_groups": 1_000.0}
MOST = {**MULTICAST_MOST, "tree": 1.0}
NAMES = (*THRESHOLDS, "retune_interval_s", "self_check_rows", *MOST)
WHOLE = ("self_check_rows", "multicast_groups", "tree")
log = logging.getLogger(__name__)


class Knobs:
    """Settings that may change, kept in the data directory; they last until they are set back.

    Parameters
    ----------
    coordinator : Coordinator
        Its parts get what is set; its configuration has the defaults.
    """

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._data_dir = coordinator.resources.data_dir
        self._settings = self._recovered()
        self._apply()

    def _recovered(self) -> Settings:
        """Return what was kept, without what may not be any more."""
        kept = read_settings(self._data_dir)
        try:
            for name, value in kept.values.items():
                _checked(name, value)
            _thresholds(kept)
        except PubSubError as error:
            log.warning("the start goes on without the settings of `tune set`: %s", error)
            return msgspec.structs.replace(kept, values={})
        return kept

    def set(self, name: Any, value: Any) -> None:
        """Set one of `NAMES`; None: back to its default, which for thresholds follows from measured costs.

        Raises
        ------
        ProtocolError, LimitError, StoreError
            There is none of that name, it cannot have this value, or that cannot be kept; nothing is changed.
        """
        if value is None and name in NAMES:
            values = {known: kept for known, kept in self._settings.values.items() if known != name}
        else:
            values = {**self._settings.values, name: _checked(name, value)}
        self._take(msgspec.structs.replace(self._settings, values=values))

    def freeze(self, is_frozen: bool) -> None:
        """Have the tuner keep the tables of the last layout, or follow events and subscriptions again.

        Before there is a layout of subscriptions, the first one's tables are those that are kept.

        Raises
        ------
        StoreError
            It cannot be kept; nothing is changed.
        """
        if is_frozen != self._settings.is_frozen:
            tables = self._layout_tables() if is_frozen else None
            self._take(msgspec.structs.replace(self._settings, is_frozen=is_frozen, tables=tables))

    def layout_built(self) -> None:
        """Freeze the tables of a layout that has just been built where there were none to freeze before."""
        if not self._settings.is_frozen or self._settings.tables is not None:
            return
        tables = self._layout_tables()
        if tables is not None:
            try:
                self._take(msgspec.structs.replace(self._settings, tables=tables))
            except StoreError as error:  # nobody asks just now, and the next generation is another occasion
                log.warning("tables are not frozen yet: %s", error)

    def take_statistics(self, facts: dict[str, Any] | None) -> None:
        """Have tables chosen by statistics whose copy is in the data directory; None: by a sample again.

        A generation is built with them as soon as can be.

        Raises
        ------
        StoreError
            It cannot be kept; nothing is changed.
        """
        statistics = None if facts is None else msgspec.convert(facts, ImportedStatistics)
        if statistics == self._settings.statistics:
            return
        self._take(msgspec.structs.replace(self._settings, statistics=statistics))
        remove_statistics(self._data_dir, statistics.file if statistics else None)
        self._coordinator.tuner.policy.asked = True

    def statistics(self) -> dict[str, Any] | None:
        """Return the facts about imported statistics; None without any."""
        kept = self._settings.statistics
        return None if kept is None else dict(msgspec.to_builtins(kept))

    def _layout_tables(self) -> tuple[FrozenTable, ...] | None:
        summary = self._coordinator.tuner.summary
        if not summary.get("subscriptions"):
            return None
        return tuple(
            FrozenTable(tuple(found["attributes"]), tuple(found["slices"])) for found in summary["tables"]
        )

    def _take(self, settings: Settings) -> None:
        _thresholds(settings)
        write_settings(self._data_dir, settings)
        self._settings = settings
        self._apply()
        self.tell_tuner()

    def _apply(self) -> None:
        self._coordinator.tuner.policy.retune_interval_s = float(self._value("retune_interval_s"))
        self._coordinator.tuner.policy.samples_count = self._settings.statistics is None
        self._coordinator.self_check.row_count = int(self._value("self_check_rows"))
        multicast, values = self._coordinator.multicast, self._settings.values
        multicast.rule = multicast.rule._replace(threshold=values.get("multicast_threshold"))
        self._coordinator.groups.group_count = int(values.get("multicast_groups", GROUPS_DEFAULT))

    def _value(self, name: str) -> float:
        default: float = getattr(self._coordinator.config, name)
        return self._settings.values.get(name, default)

    def tell_tuner(self) -> None:
        """Say what was set; to each tuner process when it is ready, too."""
        kept = self._settings.statistics
        path = None if kept is None else str(self._data_dir / kept.file)
        tables = self._settings.tables
        self._coordinator.backend.send_tuner(Tune(_thresholds(self._settings), tables, path, self._tree()))

    def _tree(self) -> bool | None:
        """Return whether ranges are matched by a tree; None: where the cost model says so."""
        found = self._settings.values.get("tree")
        return None if found is None else bool(found)

    def told(self) -> dict[str, Any]:
        """Return everything that may be set, as it is, and what of it was set (the rest has its default).

        ``auto``: it follows from measured costs.
        """
        thresholds = asdict(_thresholds(self._settings))
        thresholds["multicast_threshold"] = self._coordinator.multicast.rule.threshold
        thresholds["tree"] = self._settings.values.get("tree")
        return {
            **{name: "auto" if value is None else value for name, value in thresholds.items()},
            "retune_interval_s": self._coordinator.tuner.policy.retune_interval_s,
            "self_check_rows": self._coordinator.self_check.row_count,
            "multicast_groups": self._coordinator.groups.group_count,
            "frozen": self._settings.is_frozen,
            "set": sorted(self._settings.values),
        }


def _thresholds(settings: Settings) -> Thresholds:
    return Thresholds(**{name: settings.values[name] for name in THRESHOLDS if name in settings.values})


def _checked(name: Any, value: Any) -> float:
    """Return a value that something of that name can have; else raise `ProtocolError` or `LimitError`."""
    if name not in NAMES:
        raise ProtocolError("there is nothing of that name to set", seen=name, limit=list(NAMES))
    number = _number(name, value)
    if name in THRESHOLDS:
        return number
    if name in WHOLE and number != int(number):
        raise ProtocolError(f"`{name}` is not a whole number", seen=value)
    if name not in MOST:
        check_bounds(name, number, LimitError)
    elif not 0 <= number <= MOST[name]:
        limit = f"0 to {MOST[name]:g}"
        raise LimitError(f"the setting `{name}` is out of range", seen=value, limit=limit)
    return number


def _number(name: str, value: Any) -> float:
    if type(value) not in (int, float):
        raise ProtocolError(f"`{name}` is not a number", seen=value, remedy="Give a number, or its default.")
    if not -INT64_MAX < value < INT64_MAX:
        raise LimitError(f"the setting `{name}` is out of range", seen=value, limit="64 bits")
    return float(value)
