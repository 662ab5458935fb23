"""Slices of Parquet files as tasks read them: row group by row group, and what cannot be read is told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from pubsub_cluster.pipeline.parquet_files import FILE_ERRORS, open_file
from pubsub_cluster.pipeline.plan import FileSlice
from pubsub_cluster.pipeline.rejects import Rejects


def read_slice(
    one: FileSlice, expected: Mapping[str, pa.DataType], rejects: Rejects
) -> Iterator[tuple[int, pa.Table]]:
    """Give each row group of a slice, and the number of its first row in the file.

    Parameters
    ----------
    one : FileSlice
    expected : mapping of str to pyarrow.DataType
        Columns that are read; a file without one of them is left out.
    rejects : Rejects
        Gets what cannot be read; of a whole file, from its first slice alone.
    """
    try:
        file = open_file(one.path)
    except FILE_ERRORS as error:
        if one.start == 0:
            rejects.add(one.path, "the file cannot be read as Parquet", 0, None, error)
        return
    with file:
        lacking = lacking_columns(file.schema_arrow, expected)
        if lacking:
            if one.start == 0:
                rejects.add(one.path, lacking, file.metadata.num_rows)
            return
        first_row = 0
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if rows and one.has_rows(first_row, rows, file.metadata.num_rows):
                try:
                    table = file.read_row_group(group, columns=list(expected), use_threads=False)
                except FILE_ERRORS as error:
                    rejects.add(one.path, "a row group cannot be read", rows, f"row {first_row}", error)
                else:
                    yield first_row, table
            first_row += rows


def lacking_columns(schema: pa.Schema, expected: Mapping[str, pa.DataType]) -> str:
    """Say what a file lacks of the columns that all must have; empty where nothing."""
    missing = [name for name in expected if name not in schema.names]
    if missing:
        return f"the file has no column {', '.join(missing[:5])}"
    other = [name for name, kind in expected.items() if schema.field(name).type != kind]
    if other:
        name = other[0]
        return f"the column {name} is {schema.field(name).type}, in the first file {expected[name]}"
    return ""
