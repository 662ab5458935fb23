"""Constants of the cost model: what the steps of matching cost on a machine, in nanoseconds and bytes.

The papers' K_r, C_h and K_h (RR-4089, section 3.1.1) with more for what they fold into `checking`: the way to
a cluster, a section that is more than flags, an entry, a further residual, and the forms that ranges stand in
(`shm.blob`): mixed intervals, checked until one fails, and uniform columns, checked for all entries at once.
`workers.measure` times such steps on this machine; the tuner starts it by module name, since it runs no
kernels itself. The defaults are a measurement on a 2.3 GHz Xeon.
"""

from __future__ import annotations

import json
import logging
import math
import os
import subprocess
import sys
from typing import NamedTuple

SMALL_TREE_NODES = 1_297
"""Of the tree on which `node_ns` is measured (`workers.measure_tree`)."""


class CostConstants(NamedTuple):
    """Nanoseconds per step of matching an event.

    Attributes
    ----------
    table_ns : float
        K_r: looking at a table because the attribute that it hangs off is present.
    probe_ns : float
        C_h: hashing a key, and reading and comparing its entry, with prefetch.
    probe_attribute_ns : float
        K_h: per attribute of the key.
    cell_ns : float
        What a key costs beyond that where an event has several for a table: cells, and several values.
    cluster_ns : float
        Going to a cluster that was found.
    entry_ns : float
        Per entry of such a cluster, its first residual included where that is a flag (a point or a bit).
    residual_ns : float
        Per further residual that is evaluated.
    interval_ns : float
        What an interval or a set costs beyond a flag.
    section_ns : float
        What going through a section that has more than flags costs beyond `cluster_ns`.
    column_ns : float
        Per uniform column of such a section, whose memory is read anew, however few entries it has.
    uniform_ns : float
        Per entry and uniform column.
    halving_ns : float
        A step of the search for the slice that a label is in, once per event and attribute by cell.
    node_ns, node_attribute_ns : float
        Opening a node of a tree and comparing its children; and per attribute of the boxes.
    node_doubling_ns : float
        What it costs more each time that a tree has twice as many nodes, from `SMALL_TREE_NODES` on.
    leaf_ns, leaf_attribute_ns : float
        Going through a cluster as small as a leaf node; and per attribute. Like the prices of nodes these are
        measured in memory that is in the caches, as trees are that are worth having.
    """

    table_ns: float = 3.0
    probe_ns: float = 9.0
    probe_attribute_ns: float = 1.0
    cell_ns: float = 1.0
    cluster_ns: float = 22.0
    entry_ns: float = 1.5
    residual_ns: float = 1.5
    interval_ns: float = 2.0
    section_ns: float = 15.0
    column_ns: float = 35.0
    uniform_ns: float = 0.2
    halving_ns: float = 4.0
    node_ns: float = 35.0
    node_attribute_ns: float = 6.0
    node_doubling_ns: float = 5.0
    leaf_ns: float = 15.0
    leaf_attribute_ns: float = 12.0

    def probe_of(self, attribute_count: int, cell_count: int = 0) -> float:
        """Return the cost of one probe of a table with a schema of this size (C_h + K_h * |H.A|)."""
        cell_ns = self.cell_ns if cell_count else 0.0
        return self.probe_ns + self.probe_attribute_ns * attribute_count + cell_ns

    def node_of(self, attribute_count: int, node_count: int) -> float:
        """Return the cost of opening one of so many nodes of a tree over so many attributes."""
        doublings = max(math.log2(node_count / SMALL_TREE_NODES), 0.0)
        return self.node_ns + self.node_attribute_ns * attribute_count + self.node_doubling_ns * doublings

    def leaf_of(self, attribute_count: int) -> float:
        """Return the cost of a leaf node of such a tree."""
        return self.leaf_ns + self.leaf_attribute_ns * attribute_count


DEFAULT_CONSTANTS = CostConstants()

MEASURE_MODULE = "pubsub_cluster.workers.measure_process"
DELIVERY_MEASURE_MODULE = "pubsub_cluster.coordinator.delivery.measure"
"""What the ways of delivery cost is measured by whoever delivers."""
log = logging.getLogger("pubsub_cluster.tuner")


class Measurement:
    """A measurement of constants in a process of its own, which ends with this one.

    Parameters
    ----------
    module : str, optional
        Its process, which prints them by name, as JSON; by default that of the constants of matching.
    """

    def __init__(self, module: str | None = None) -> None:
        command = [sys.executable, "-m", module or MEASURE_MODULE, "--parent", str(os.getpid())]
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        except OSError as error:
            log.warning("the constants of the cost model cannot be measured: %s", error)

    def is_done(self, wait_s: float = 0.0) -> bool:
        """Say whether the process has ended, after waiting for it at most so long."""
        try:
            return self._process is None or self._process.wait(wait_s) is not None
        except subprocess.TimeoutExpired:
            return False

    def result(self) -> CostConstants:
        """Return the constants of matching, once it is done; the defaults where that failed."""
        try:
            return CostConstants(**self.said())
        except TypeError as error:
            log.warning("constants of the cost model not measured, the defaults are taken: %s", error)
            return DEFAULT_CONSTANTS

    def said(self) -> dict[str, float]:
        """Return what was measured, once it is done; nothing where that failed."""
        if self._process is None:
            return {}
        said, _ = self._process.communicate()
        try:
            found: dict[str, float] = json.loads(said)
        except ValueError as error:
            log.warning("nothing was measured, the defaults are taken: %s", error)
            return {}
        return found
