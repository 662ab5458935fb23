"""Results as Parquet, written where nothing is yet."""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from pubsub_cluster.language.errors import CallerError


def write_parquet(table: DataFrame, path: str, mode: str) -> None:
    """Write a table.

    Parameters
    ----------
    table : DataFrame
    path : str
    mode : str
        ``overwrite``, or ``error``.

    Raises
    ------
    CallerError
        There is something already.
    """
    try:
        table.write.mode(mode).parquet(path)
    except AnalysisException as error:
        if error.getCondition() != "PATH_ALREADY_EXISTS":
            raise
        raise CallerError(
            "the output exists", seen=path, remedy="Give another --output, or --overwrite to replace it."
        ) from None
