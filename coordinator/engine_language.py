"""What a cluster takes in whose engine is a matcher of the papers (`start --engine NAME`).

Its language may be narrower than the project's, and it is for small catalogues: what it does not support is
refused when it is subscribed, with its reason, and so is a subscription too many. A data directory that holds
such subscriptions is refused at the start.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pubsub_cluster.coordinator.config import ENGINE_SUBSCRIPTIONS_MAX, LAYOUT_ENGINE, ClusterConfig
from pubsub_cluster.language.denormalise import expression_of
from pubsub_cluster.language.errors import ExpressionError, StartError
from pubsub_cluster.language.limits import Limits
from pubsub_cluster.language.predicate import NormalForm
from pubsub_cluster.language.schema import Schema
from pubsub_cluster.language.subscription import ExpressionReader
from pubsub_cluster.shm.catalogue import CatalogueReader

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubsub_cluster.coordinator.registry import Registry


class SupportedReader(ExpressionReader):
    """An `ExpressionReader` that refuses what a matcher does not support.

    Parameters
    ----------
    schema, limits
        As for `ExpressionReader`.
    engine : str
        Name of the matcher.
    """

    def __init__(self, schema: Schema, limits: Limits, engine: str) -> None:
        from pubsub_cluster.algorithms.registry import make_matcher  # with the kernels of all of them

        super().__init__(schema, limits)
        self._engine, self._matcher = engine, make_matcher(engine)

    def conjunction(self, expression: bytes) -> None:
        """Return None: every expression is looked at."""
        return None

    def normalised(self, given: Any) -> NormalForm:
        """Return the normal form of a supported expression.

        Raises
        ------
        ExpressionError
            The matcher does not support it; the error has its reason.
        """
        form = super().normalised(given)
        reason = self.refusal(form)
        if reason is not None:
            raise ExpressionError(
                f"the cluster's engine {self._engine} cannot hold the subscription: {reason}",
                limit=f"the language of {self._engine}",
                remedy="Say it otherwise, or start the cluster without --engine.",
            )
        return form

    def refusal(self, form: NormalForm) -> str | None:
        """Return why the matcher does not support an expression; None: it does."""
        return self._matcher.supports(expression_of(form))


def limits_of(config: ClusterConfig) -> Limits:
    """Return the limits for subscriptions under the cluster's engine."""
    if config.engine == LAYOUT_ENGINE:
        return config.limits
    most = min(config.limits.subscriptions_max, ENGINE_SUBSCRIPTIONS_MAX)
    return replace(config.limits, subscriptions_max=most)


def reader_of(config: ClusterConfig) -> Callable[[Schema, Limits], ExpressionReader]:
    """Return what makes the readers of expressions under the cluster's engine."""
    if config.engine == LAYOUT_ENGINE:
        return ExpressionReader
    return partial(SupportedReader, engine=config.engine)


def check_stored(config: ClusterConfig, registry: Registry) -> None:
    """Check, at a start, that the cluster's engine can hold what there is.

    Raises
    ------
    StartError
        There are too many subscriptions, or one is outside its language.
    """
    if config.engine == LAYOUT_ENGINE:
        return
    remedy = "Start without --engine, or use another data directory."
    most = limits_of(config).subscriptions_max
    if registry.live_count > most:
        raise StartError(
            f"there are too many subscriptions for the engine {config.engine}",
            seen=registry.live_count,
            limit=most,
            remedy=remedy,
        )
    catalogue = CatalogueReader.of(registry.catalogue)
    reader = SupportedReader(config.schema, config.limits, config.engine)
    removed = catalogue.columns.removed_version[: registry.catalogue.counts().rows]
    for row in (removed == 0).nonzero()[0].tolist():
        reason = reader.refusal(catalogue.normal_form(row))
        if reason is not None:
            raise StartError(
                f"the engine {config.engine} cannot hold a stored subscription: {reason}",
                seen=catalogue.subscription_id(row),
                remedy=remedy,
            )
