"""A running cluster as a sink and a source of Spark: the format ``pubsub_cluster``.

    register(spark)
    events.write.format("pubsub_cluster").option("dataDir", "/srv/cluster").mode("append").save()
    told = spark.readStream.format("pubsub_cluster").option("owner", "ann").load()

Options of both: ``dataDir`` (the cluster's data directory; the default one without it) or ``endpoint``, and
``timeout`` (seconds, `TIMEOUT_S`). A data directory is on one host: with executors on others, give an
endpoint that all of them reach.

Writing publishes every row as an event: a column per attribute, or with ``json`` the text in that column.
Matching owners are notified as of any publisher. ``eventIdColumn`` names events in what is said of refused
ones; it is an attribute too, unless ``sendEventId`` is ``false``, as a closed schema wants it. ``refused`` is
``raise`` or ``ignore``; see `source_writer` for this, and for what is guaranteed when tasks are repeated.

Reading gives an owner's notifications as they come (`NOTIFICATION_SCHEMA`); see `source_reader` for what may
be lost, and how that is told.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from pubsub_cluster.language.errors import CallerError
from pubsub_cluster.pipeline.source_reader import NotificationReader
from pubsub_cluster.pipeline.source_writer import REFUSED, ClusterWriter, StreamClusterWriter, WriteOptions

FORMAT = "pubsub_cluster"
TIMEOUT_S = 60.0
NOTIFICATION_SCHEMA = (
    "owner string, publisher string, batch_id string, event_index long, handles array<long>, "
    "ids array<string>, event string, sequence long, dropped long"
)
"""As `pubsub_cluster.client.notifications.Notification`; ``event`` is JSON. In a row that only tells of
notifications that were lost, all but ``owner`` and ``dropped`` are null."""


def register(session: SparkSession) -> None:
    """Make the format known to a session."""
    session.dataSource.register(ClusterSource)


class ClusterSource(DataSource):
    """The format; Spark makes and uses it."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return FORMAT

    def schema(self) -> str:
        """Return the columns of notifications."""
        return NOTIFICATION_SCHEMA

    def writer(self, schema: StructType, overwrite: bool) -> ClusterWriter:
        """Return the writer of a table."""
        if overwrite:
            raise CallerError(
                "events that are published cannot be taken back",
                seen='mode("overwrite")',
                limit='mode("append")',
            )
        return ClusterWriter(self._write_options(schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamClusterWriter:
        """Return the writer of a stream."""
        return StreamClusterWriter(self._write_options(schema))

    def simpleStreamReader(self, schema: StructType) -> NotificationReader:
        """Return the reader of an owner's notifications."""
        owner = self.options.get("owner")
        if not owner:
            raise CallerError("whose notifications?", remedy='Add .option("owner", NAME).')
        return NotificationReader(owner, self._client_options())

    def _client_options(self) -> dict[str, Any]:
        timeout = self.options.get("timeout", str(TIMEOUT_S))
        try:
            timeout_s = float(timeout)
        except ValueError:
            raise CallerError("the option `timeout` is no number of seconds", seen=timeout) from None
        return {
            "data_dir": self.options.get("dataDir"),
            "endpoint": self.options.get("endpoint"),
            "timeout_s": timeout_s,
        }

    def _write_options(self, schema: StructType) -> WriteOptions:
        names = schema.fieldNames()
        json = self.options.get("json")
        event_id = self.options.get("eventIdColumn")
        for column in (json, event_id):
            if column is not None and column not in names:
                raise CallerError("there is no such column", seen=column, limit=names)
        refused = self.options.get("refused", REFUSED[0])
        if refused not in REFUSED:
            raise CallerError("the option `refused` is not known", seen=refused, limit=list(REFUSED))
        send_event_id = self.options.get("sendEventId", "true").lower() != "false"
        return WriteOptions(self._client_options(), json, event_id, refused, send_event_id)
