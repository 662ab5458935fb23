"""What an operator may set while the cluster works: the tuner's thresholds, and how often it acts."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from pubsub_cluster.coordinator.config import check_bounds
from pubsub_cluster.language.errors import LimitError, ProtocolError
from pubsub_cluster.language.limits import INT64_MAX
from pubsub_cluster.tuner.messages import Thresholds, Tune

if TYPE_CHECKING:
    from pubsub_cluster.coordinator.runtime import Coordinator

THRESHOLDS = ("bm_max", "b_min", "rp_min")
NAMES = (*THRESHOLDS, "retune_interval_s", "self_check_rows")


class Knobs:
    """Settings that may change; they last until the cluster stops.

    Parameters
    ----------
    coordinator : Coordinator
        Its parts get what is set.
    """

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._thresholds = Thresholds()
        self._is_frozen = False

    def set(self, name: Any, value: Any) -> None:
        """Set one of `NAMES`; a threshold that is None follows from measured costs.

        Raises
        ------
        ProtocolError, LimitError
            There is none of that name, or it cannot have this value; nothing is changed.
        """
        if name not in NAMES:
            raise ProtocolError("there is nothing of that name to set", seen=name, limit=list(NAMES))
        if name in THRESHOLDS:
            number = None if value is None else _number(name, value)
            self._thresholds = replace(self._thresholds, **{name: number})
            self.tell_tuner()
        elif name == "retune_interval_s":
            check_bounds(name, _number(name, value), LimitError)
            self._coordinator.tuner.policy.retune_interval_s = float(value)
        else:
            if _number(name, value) != int(value):
                raise ProtocolError(f"`{name}` is not a whole number", seen=value)
            check_bounds(name, value, LimitError)
            self._coordinator.self_check.row_count = int(value)

    def freeze(self, is_frozen: bool) -> None:
        """Have the tuner leave the tables as they are, or follow events and subscriptions again."""
        self._is_frozen = is_frozen
        self.tell_tuner()

    def tell_tuner(self) -> None:
        """Say what was set; to each tuner process when it is ready, too."""
        self._coordinator.backend.send_tuner(Tune(self._thresholds, self._is_frozen))

    def told(self) -> dict[str, Any]:
        """Return everything that may be set, as it is; ``auto``: it follows from measured costs."""
        found = {name: "auto" if value is None else value for name, value in asdict(self._thresholds).items()}
        return {
            **found,
            "retune_interval_s": self._coordinator.tuner.policy.retune_interval_s,
            "self_check_rows": self._coordinator.self_check.row_count,
            "frozen": self._is_frozen,
        }


def _number(name: str, value: Any) -> float:
    if type(value) not in (int, float) or not -INT64_MAX < value < INT64_MAX:
        raise ProtocolError(f"`{name}` is not a number", seen=value)
    return float(value)
