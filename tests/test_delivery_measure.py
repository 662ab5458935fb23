"""What the ways of delivery cost here: complete, positive, and known to whoever starts the measurement."""

from __future__ import annotations

import math

from pubsub_cluster.coordinator.delivery import measure
from pubsub_cluster.coordinator.delivery.distribution import DeliveryCosts
from pubsub_cluster.tuner.constants import DELIVERY_MEASURE_MODULE, Measurement


def test_costs_are_complete() -> None:
    found = measure.measure_costs(messages=4, repetitions=1)
    assert all(math.isfinite(cost) and cost > 0.0 for cost in found)


def test_the_process_says_them() -> None:
    assert measure.__name__ == DELIVERY_MEASURE_MODULE
    made = Measurement(DELIVERY_MEASURE_MODULE)
    assert made.is_done(wait_s=60.0)
    assert DeliveryCosts(**made.said())


def test_nothing_is_said_where_it_cannot_run() -> None:
    made = Measurement("pubsub_cluster.nothing.of.that.name")
    assert made.is_done(wait_s=60.0) and made.said() == {}
