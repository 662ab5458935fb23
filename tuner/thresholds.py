"""The thresholds of the dynamic algorithm, and what they are where nobody has set them.

RR-4089, section 4.1, has three: BMmax, the expected checks of a cluster from which on reorganising it is
considered; Bmin, the subscriptions below which a table is not kept; RPmin, those that a new table must be
able to take over. What pays depends on the machine and on the events, so the defaults follow from one figure,
the *price* of a table: what looking into it costs per event, in checks of a subscription, by the measured
constants.

- BMmax: `EXCESS_SHARE` of the price, divided by the clusters of the cluster's own table: were all below, not
  even a table that relieved all clusters of several tables of every check would pay.
- RPmin: as many subscriptions as save the price, at what those that would move save on average.
- Bmin: as many subscriptions as save `KEEP_SHARE` of the price, at what those of the table would lose on
  average if they had to go to the best of the other tables. The gap between both keeps tables from coming
  and going.
"""

from __future__ import annotations

import numpy as np

from pubsub_cluster.shm.code_space import F8, I4
from pubsub_cluster.tuner.clustering import Clustering
from pubsub_cluster.tuner.constants import DEFAULT_CONSTANTS, CostConstants

EXCESS_SHARE = 0.1
"""Of a table's price, in BMmax: a new table takes from about ten others, slots among them."""

KEEP_SHARE = 0.5
"""A table is given up when it saves less than this share of its price."""

PROBES_PER_CELL = 1.5
"""Mean keys that an event has for an attribute by cell."""


class Prices:
    """What tables cost, in checks.

    Parameters
    ----------
    constants : CostConstants
    """

    def __init__(self, constants: CostConstants = DEFAULT_CONSTANTS) -> None:
        self._constants = constants

    def probing(self, clustering: Clustering, ways: I4) -> F8:
        """Return the price of tables before anything is found in them.

        Parameters
        ----------
        clustering : Clustering
            Of whose statistics.
        ways : int32[S, k]
            Of each schema, -1 where there is none.
        """
        constants, has = self._constants, ways >= 0
        present = np.where(has, clustering.present[np.where(has, ways >> 1, -1)], 1.0)
        by_cell = (has & (ways % 2 == 1)).sum(axis=1)
        probe_ns = constants.probe_ns + constants.probe_attribute_ns * has.sum(axis=1)
        probe_ns = probe_ns + np.where(by_cell > 0, constants.cell_ns, 0.0)
        probes = present.prod(axis=1) * PROBES_PER_CELL**by_cell
        total = constants.table_ns * present.min(axis=1, initial=1.0) + probes * probe_ns
        return np.asarray(total / constants.entry_ns)

    def finding(self, nu_sum: F8) -> F8:
        """Return the price of going to a table's clusters, from the sum of nu over its subscriptions.

        At most one cluster is found by a key, and no more than subscriptions are.
        """
        return np.asarray(self._constants.cluster_ns / self._constants.entry_ns * np.minimum(nu_sum, 1.0))

    def next_table(self, clustering: Clustering, ways: I4) -> F8:
        """Return the price of a table with one attribute more than each of these schemas, always present."""
        constants = self._constants
        probe_ns = constants.probe_ns + constants.probe_attribute_ns * ((ways >= 0).sum(axis=1) + 1)
        return np.asarray((constants.table_ns + probe_ns) / constants.entry_ns)
