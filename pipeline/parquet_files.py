"""Parquet files as workers read them: found by the driver, opened anywhere, refused with a reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from pubsub_cluster.language.errors import CallerError
from pubsub_cluster.pipeline.places import absolute

SUFFIX = ".parquet"
FILE_ERRORS = (pa.ArrowException, OSError, EOFError)


class ParquetFiles(NamedTuple):
    """Files of events.

    Attributes
    ----------
    sizes : dict of str to int
        Bytes by path, in the order of paths.
    """

    sizes: dict[str, int]

    def schema(self) -> pa.Schema:
        """Return the schema of the first file that can be read.

        Raises
        ------
        CallerError
            None can.
        """
        errors = []
        for path in self.sizes:
            try:
                with open_file(path) as file:
                    return file.schema_arrow
            except FILE_ERRORS as error:
                errors.append(f"{path}: {error}")
        raise CallerError(
            "none of the files can be read as Parquet", seen=errors[0], remedy="Give files of Parquet."
        )


def find_files(paths: Sequence[str]) -> ParquetFiles:
    """Return the files at some paths: files as they are, of folders what ends in ``.parquet``.

    Raises
    ------
    CallerError
        There are none.
    """
    sizes: dict[str, int] = {}
    for path in map(absolute, paths):
        system, place, prefix = _system(path)
        info = system.get_file_info(place)
        if info.type == pafs.FileType.File:
            sizes[path] = info.size
            continue
        found = system.get_file_info(pafs.FileSelector(place, allow_not_found=True, recursive=True))
        for entry in found:
            if entry.type == pafs.FileType.File and entry.base_name.endswith(SUFFIX):
                sizes[prefix + entry.path] = entry.size
    if not sizes:
        raise CallerError(
            "there are no Parquet files", seen=list(paths), remedy="Give files, or folders with *.parquet."
        )
    return ParquetFiles(dict(sorted(sizes.items())))


def open_file(path: str) -> pq.ParquetFile:
    """Open a file; raises what is in `FILE_ERRORS`."""
    system, place, _ = _system(path)
    return pq.ParquetFile(system.open_input_file(place), pre_buffer=False)


def _system(path: str) -> tuple[Any, str, str]:
    """Return the file system of a path, the path there, and what to put in front of others there."""
    if "://" not in path:
        return pafs.LocalFileSystem(), path, ""
    system, place = pafs.FileSystem.from_uri(path)
    return system, place, path[: len(path) - len(place)]
