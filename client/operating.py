"""What an operator asks of a cluster: how it is, and to be otherwise."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeAlias

from pubsub_cluster.client.session import Session
from pubsub_cluster.language.errors import ClusterError, ProtocolError, ReplyTimeoutError, error_from_dict
from pubsub_cluster.language.protocol import COUNTED_ITEMS, Message, Op

RESIZE_TIMEOUT_S = 120.0
JOB_TIMEOUT_S = 600.0
AWAY_S_MAX = 180.0
"""So long may a cluster not answer while it takes a restored catalogue over: a million take seconds."""
_LOOK_EVERY_S = 0.05
StatsKind: TypeAlias = Literal["subscription", "owner", "group"]


class OperatorCalls:
    """Calls about the cluster itself; part of `Calls`."""

    _session: Session

    async def hello(self) -> dict[str, Any]:
        """Return the cluster's identity, limits and schema."""
        return await self._session.hello()

    async def ping(self) -> None:
        """Return when the cluster has answered."""
        await self._session.ask(Op.PING, {})

    async def status(self) -> dict[str, Any]:
        """Return the cluster's state: processes, catalogue, generations, counters."""
        return _facts(await self._session.ask(Op.STATUS, {}))

    async def stats(
        self, kind: StatsKind, names: Iterable[str | int] | None = None, *, top: int = COUNTED_ITEMS
    ) -> list[dict[str, Any]]:
        """Return counters of subscriptions, owners or groups since the coordinator started.

        Parameters
        ----------
        kind : {"subscription", "owner", "group"}
        names : iterable, optional
            Ids, owners or numbers of groups, at most 1,000; those that there are not are left out. Without it
            those with the most matches, notifications or records.
        top : int
            So many of these.
        """
        fields: dict[str, Any] = {"kind": kind, "top": top}
        if names is not None:
            fields["names"] = list(names)
        return list((await self._session.ask(Op.STATS, fields)).header["items"])

    async def tune_show(self) -> dict[str, Any]:
        """Return what the tuner knows and has built."""
        return _facts(await self._session.ask(Op.TUNE, {"action": "show"}))

    async def tune_now(self) -> dict[str, Any]:
        """Ask the tuner to build a generation now."""
        return _facts(await self._session.ask(Op.TUNE, {"action": "now"}))

    async def tune_set(self, name: str, value: float | None) -> dict[str, Any]:
        """Change a setting while the cluster works, and for later starts; return all that may be set.

        Parameters
        ----------
        name : str
            One of the ``settings`` of `tune_show`.
        value : float, optional
            None: the default again; thresholds of the tuner then follow from measured costs.

        Raises
        ------
        ProtocolError, LimitError
            There is none of that name, or it cannot have this value.
        StoreError
            It cannot be kept; nothing is changed.
        """
        if isinstance(value, float) and not math.isfinite(value):  # JSON would say null, which is the default
            raise ProtocolError(f"`{name}` is not a finite number", seen=value, remedy="Give a finite one.")
        wanted = {"action": "set", "name": name, "value": value}
        return dict((await self._session.ask(Op.TUNE, wanted)).header["settings"])

    async def tune_freeze(self, frozen: bool = True) -> dict[str, Any]:
        """Have the tuner leave the tables as they are, or not; return all that may be set."""
        action = "freeze" if frozen else "thaw"
        return dict((await self._session.ask(Op.TUNE, {"action": action})).header["settings"])

    async def tune_import_statistics(
        self, path: str | os.PathLike[str], *, timeout_s: float = JOB_TIMEOUT_S
    ) -> dict[str, Any]:
        """Have tables chosen by statistics of ``pipeline statistics``; return what is known of them.

        They are copied into the data directory and used until `tune_clear_statistics`, after a restart too. A
        generation is built with them.

        Parameters
        ----------
        path : path
            A folder that they were counted into, on the cluster's machine.

        Raises
        ------
        StoreError
            They are missing, damaged, of another version or of another schema; nothing is changed.
        """
        wanted = {"action": "import_statistics", "path": os.path.abspath(path)}
        return await self._job(Op.TUNE, wanted, timeout_s)

    async def tune_clear_statistics(self) -> None:
        """Have tables chosen by a sample of the events that come, as before `tune_import_statistics`."""
        await self._session.ask(Op.TUNE, {"action": "clear_statistics"})

    async def backup(
        self, path: str | os.PathLike[str], *, timeout_s: float = JOB_TIMEOUT_S
    ) -> dict[str, Any]:
        """Write every live subscription to a file on the cluster's machine; return what is in it.

        Raises
        ------
        StoreError
            The file cannot be written, or the change table is damaged.
        ReplyTimeoutError
            It is not done yet; it goes on.
        """
        return await self._job(Op.BACKUP, {"path": os.path.abspath(path)}, timeout_s)

    async def restore(
        self, path: str | os.PathLike[str], *, timeout_s: float = JOB_TIMEOUT_S
    ) -> dict[str, Any]:
        """Replace all subscriptions by those of a backup; return what was in it.

        The cluster begins another life; clients wait for it, and send again.

        Raises
        ------
        StoreError, StartError
            The backup is damaged, of another format, or does not fit here; nothing is changed.
        ReplyTimeoutError
            It is not done yet, and goes on; or the cluster has not answered for three minutes.
        ClusterError
            The cluster was restarted meanwhile: the backup may be in force or not.
        """
        return await self._job(Op.RESTORE, {"path": os.path.abspath(path)}, timeout_s)

    async def verify(self, sample: int | None = None, *, timeout_s: float = JOB_TIMEOUT_S) -> dict[str, Any]:
        """Compare what is durable, the catalogue and the layout's answers; return the counts.

        Parameters
        ----------
        sample : int, optional
            Subscriptions that are compared one by one.
        """
        return await self._job(Op.VERIFY, {} if sample is None else {"sample": sample}, timeout_s)

    async def _job(self, op: Op, fields: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        deadline_s = time.monotonic() + timeout_s
        number = (await self._session.ask(op, fields)).header["job"]
        answered_s = time.monotonic()
        while True:
            try:
                found = _facts(await self._session.ask(Op.JOB, {"job": number}))
            except ReplyTimeoutError:
                now_s = time.monotonic()
                if op is not Op.RESTORE or now_s > min(deadline_s, answered_s + AWAY_S_MAX):
                    raise
                continue
            except ProtocolError as error:
                raise _forgotten(op) from error
            answered_s = time.monotonic()
            if found["state"] == "failed":
                raise error_from_dict(found["error"])
            if found["state"] == "done":
                return {**found["answer"], "seconds": found["seconds"]}
            if time.monotonic() > deadline_s:
                raise ReplyTimeoutError(
                    f"the {op.value} is not done yet",
                    limit=f"{timeout_s} s",
                    remedy="It goes on; `pubsub-cluster status` tells when the keeper is at it.",
                )
            await self._session.pause(_LOOK_EVERY_S)

    async def resize(
        self,
        shards: int | None = None,
        replicas: int | None = None,
        *,
        wait: bool = True,
        timeout_s: float = RESIZE_TIMEOUT_S,
        on_look: Callable[[dict[str, Any]], None] | None = None,
    ) -> dict[str, Any]:
        """Change the number of workers while the cluster works; return its status.

        Parameters
        ----------
        shards, replicas : int, optional
            As they are, without them.
        wait : bool
            Return only when the new workers take every batch and those that are not needed have left.
        timeout_s : float
            Longest wait; the resize goes on after it.
        on_look : callable, optional
            Called with each status while it waits.

        Raises
        ------
        LimitError, SegmentError
            There are too many workers, or too little shared memory, for it; nothing is changed.
        ReplyTimeoutError
            The new workers are not ready yet.
        ClusterError
            Another resize came in between: what it asked for holds.
        """
        now = await self.status()
        wanted = {
            "shards": now["shards"] if shards is None else shards,
            "replicas": now["replicas"] if replicas is None else replicas,
        }
        deadline_s = time.monotonic() + timeout_s
        await self._session.ask(Op.RESIZE, wanted)
        while True:
            now = await self.status()
            is_over = (
                now["resizing"] is None and not now["leaving"] and all(w["ready"] for w in now["workers"])
            )
            goal = now["resizing"] or now
            if wait and wanted != {name: goal[name] for name in wanted}:
                raise ClusterError(
                    "another resize has taken the place of this one",
                    seen=f"{goal['shards']} x {goal['replicas']} (shards x replicas)",
                    limit=f"{wanted['shards']} x {wanted['replicas']}",
                    remedy="Resize again, if the other size is not what you want.",
                )
            if is_over or not wait:
                return now
            if on_look is not None:
                on_look(now)
            if time.monotonic() > deadline_s:
                raise ReplyTimeoutError(
                    "the workers of the new size are not ready yet",
                    seen=f"{sum(bool(w['ready']) for w in now['workers'])} of {len(now['workers'])} workers",
                    limit=f"{timeout_s:g} s",
                    remedy="The resize goes on; `status` tells when it is over.",
                )
            await self._session.pause(_LOOK_EVERY_S)

    async def stop_cluster(self) -> None:
        """Ask the cluster to finish what it has accepted and stop; returns when it has agreed."""
        await self._session.ask(Op.STOP, {})


def _forgotten(op: Op) -> ClusterError:
    return ClusterError(
        f"the cluster was restarted during the {op.value}: it may have been carried out or not",
        remedy="`list` and `status` tell what subscriptions there are; to restore once more does no harm."
        if op is Op.RESTORE
        else "Ask again.",
    )


def _facts(message: Message) -> dict[str, Any]:
    return {name: value for name, value in message.header.items() if name not in ("op", "request", "ok")}
