"""A catalogue and its layouts as files: built anywhere, mapped by whoever matches, with one copy per host.

    DIR/current.json                          which generation is in force
    DIR/generation-000001/manifest.json       schema, parts, how they were made
    DIR/generation-000001/part-00000.packed   live rows of a part of the catalogue, and the layout of them
    DIR/generation-000001/changes-00000.packed  the changes that make subscriptions: what their owners wrote
    DIR/generation-000001/refused/            rows that were put aside, and why

A part is complete in itself: its rows, and an index of exactly these. A catalogue that fits a host is one
part. Files are packed (`shm.packed_file`): a part that is damaged, or of another version, is refused. A
generation is written beside the others and becomes the one in force by a rename; the last few are kept for
those who still read them. Whoever only matches reads parts alone; a cluster that starts from a folder
(`coordinator.adopting`) takes the changes into its table.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import orjson

from pubsub_cluster.language.errors import StoreError
from pubsub_cluster.language.schema import Schema
from pubsub_cluster.shm.catalogue_packed import PackedCatalogue
from pubsub_cluster.shm.catalogue_reader import CatalogueReader
from pubsub_cluster.shm.catalogue_store import U8, CatalogueColumns, CatalogueCounts
from pubsub_cluster.shm.change_groups import Change, read_groups, write_groups
from pubsub_cluster.shm.column_plan import layout_version
from pubsub_cluster.shm.layout import LayoutView
from pubsub_cluster.shm.packed_file import PART_SUFFIX, PackedFile, PackedWriter, opened, put_in_place

FOLDER_FORMAT = 1
PART_KIND, CHANGES_KIND = "layout", "changes"
CURRENT_FILE, MANIFEST_FILE = "current.json", "manifest.json"
GENERATIONS_KEPT = 3
_CATALOGUE, _LAYOUT = "catalogue.", "layout."
_CATALOGUE_COLUMNS = [name for name in CatalogueColumns._fields if name != "removed_version"]


class PartFacts(NamedTuple):
    """What the manifest says of a part.

    Attributes
    ----------
    file : str
        Name within the generation's folder.
    subscriptions : int
    size_bytes : int
        Of the file.
    """

    file: str
    subscriptions: int
    size_bytes: int


class ChangesFacts(NamedTuple):
    """What the manifest says of a file of changes.

    Attributes
    ----------
    file : str
    subscriptions : int
    size_bytes : int
    """

    file: str
    subscriptions: int
    size_bytes: int


class LayoutGeneration(NamedTuple):
    """One generation of a folder.

    Attributes
    ----------
    folder : Path
        Its own folder.
    generation : int
    schema : Schema
    parts : tuple of PartFacts
    facts : dict
        What else the builder has to say.
    changes : tuple of ChangesFacts
        In the order of their versions; none where a folder is for matching alone.
    """

    folder: Path
    generation: int
    schema: Schema
    parts: tuple[PartFacts, ...]
    facts: dict[str, Any]
    changes: tuple[ChangesFacts, ...] = ()

    @property
    def paths(self) -> list[Path]:
        """Paths of the parts."""
        return [self.folder / part.file for part in self.parts]

    @property
    def size_bytes(self) -> int:
        """Bytes of all parts."""
        return sum(part.size_bytes for part in self.parts)

    @property
    def subscriptions(self) -> int:
        """Live subscriptions in all parts."""
        return sum(part.subscriptions for part in self.parts)


class MappedPart(NamedTuple):
    """A part, mapped; its arrays keep the map alive.

    Attributes
    ----------
    catalogue : CatalogueReader
    layout : LayoutView
    """

    catalogue: CatalogueReader
    layout: LayoutView


class MappedChanges(NamedTuple):
    """A file of changes, mapped.

    Attributes
    ----------
    groups : iterator of (bytes, list of Change)
        As in a change table.
    handle : uint64[n]
        Of each change.
    metadata : dict of str to bytes
        By id, of subscriptions that have any.
    """

    groups: Iterator[tuple[bytes, list[Change]]]
    handle: U8
    metadata: dict[str, bytes]


def write_part(path: Path, catalogue: PackedCatalogue, layout: LayoutView) -> PartFacts:
    """Write a part; complete when this returns, absent when it raises.

    Parameters
    ----------
    path : Path
    catalogue : PackedCatalogue
    layout : LayoutView
        Of exactly these rows, as `CatalogueReader.over` reads them.

    Raises
    ------
    OSError
        The disk is full, say.
    """
    with PackedWriter(path, PART_KIND) as file:
        for name in _CATALOGUE_COLUMNS:
            file.add(_CATALOGUE + name, catalogue.columns[name])
        for name, column in layout._asdict().items():
            file.add(_LAYOUT + name, column)
        size_bytes = file.finish({"counts": list(catalogue.counts), "versions": _versions()})
    return PartFacts(path.name, catalogue.counts.rows, size_bytes)


def map_part(path: Path) -> MappedPart:
    """Map a part after checking every byte of it.

    Raises
    ------
    StoreError
        Missing, damaged, or of another version.
    """
    with opened(path, PART_KIND) as file:
        _check_version(file)
        packed = PackedCatalogue(
            CatalogueCounts(*file.facts["counts"]), _columns(file, _CATALOGUE, _CATALOGUE_COLUMNS)
        )
        layout = LayoutView(**_columns(file, _LAYOUT, LayoutView._fields))
        return MappedPart(CatalogueReader.over(packed), layout)


def write_changes(
    path: Path, groups: Iterable[list[Change]], handle: U8, metadata: dict[str, bytes]
) -> ChangesFacts:
    """Write the changes that make subscriptions; parameters as in `MappedChanges`."""
    with PackedWriter(path, CHANGES_KIND) as file:
        write_groups(file, groups)
        file.add("handle", handle)
        file.add("metadata", np.frombuffer(msgspec.msgpack.encode(metadata), np.uint8))
        size_bytes = file.finish({"subscriptions": len(handle)})
    return ChangesFacts(path.name, len(handle), size_bytes)


def map_changes(path: Path) -> MappedChanges:
    """Map a file of changes; raises `StoreError`, of a damaged group when its turn comes."""
    with opened(path, CHANGES_KIND) as file:
        metadata = msgspec.msgpack.decode(file.column("metadata").tobytes(), type=dict[str, bytes])
        return MappedChanges(read_groups(file), file.column("handle"), metadata)


def part_attributes(path: Path) -> list[str]:
    """Return the names of the attributes that a part asks for; little more than these is read.

    Raises
    ------
    StoreError
        As `map_part`.
    """
    with opened(path, PART_KIND) as file:
        _check_version(file)
        start, size, heap = (
            file.column(_CATALOGUE + name) for name in ("attribute_name_start", "attribute_name_size", "heap")
        )
        bounds = zip(start.tolist(), size.tolist(), strict=True)
        return [heap[first : first + length].tobytes().decode() for first, length in bounds]


def _check_version(file: PackedFile) -> None:
    if file.facts["versions"] != _versions():
        raise StoreError(
            f"the layout file {file.path.name} is of another version of pubsub-cluster",
            seen=file.facts["versions"],
            limit=_versions(),
            remedy="Build it again with this version: pubsub-cluster pipeline build",
            path=str(file.path),
        )


def _columns(file: PackedFile, prefix: str, names: Any) -> dict[str, Any]:
    return {name: file.column(prefix + name) for name in names}


def _versions() -> list[int]:
    return [layout_version("catalogue"), layout_version("layout")]


def begin_generation(root: Path) -> tuple[int, Path]:
    """Make the folder of the next generation; return its number and path."""
    root.mkdir(parents=True, exist_ok=True)
    known = [int(path.name.partition("-")[2]) for path in root.glob("generation-*")]
    generation = max(known, default=0) + 1
    folder = root / f"generation-{generation:06d}"
    folder.mkdir()
    return generation, folder


def publish_generation(root: Path, made: LayoutGeneration) -> None:
    """Put a complete generation into force; take away those that are older than the last few."""
    body = {
        "format": FOLDER_FORMAT,
        "generation": made.generation,
        "schema": made.schema.to_json(),
        "parts": [part._asdict() for part in made.parts],
        "changes": [one._asdict() for one in made.changes],
        "facts": made.facts,
    }
    write_json(made.folder / MANIFEST_FILE, body)
    write_json(root / CURRENT_FILE, {"format": FOLDER_FORMAT, "generation": made.generation})
    for folder in sorted(root.glob("generation-*"))[:-GENERATIONS_KEPT]:
        shutil.rmtree(folder, ignore_errors=True)


def write_json(path: Path, body: dict[str, Any]) -> None:
    """Write a small JSON file; it is durable and complete when this returns, and replaces what was there."""
    part = path.with_name(path.name + PART_SUFFIX)
    with part.open("wb") as file:
        file.write(orjson.dumps(body, option=orjson.OPT_INDENT_2))
        file.flush()
        os.fsync(file.fileno())
    put_in_place(part, path)


def open_folder(root: Path, generation: int | None = None) -> LayoutGeneration:
    """Return what a folder holds.

    Parameters
    ----------
    root : Path
    generation : int, optional
        The one in force by default.

    Raises
    ------
    StoreError
        There is no such folder or generation, or it is of another version.
    """
    if generation is None:
        generation = _read(root / CURRENT_FILE)["generation"]
    folder = root / f"generation-{generation:06d}"
    body = _read(folder / MANIFEST_FILE)
    return LayoutGeneration(
        folder,
        body["generation"],
        Schema.from_json(body["schema"]),
        tuple(PartFacts(**part) for part in body["parts"]),
        body["facts"],
        tuple(ChangesFacts(**one) for one in body.get("changes", ())),
    )


def _read(path: Path) -> dict[str, Any]:
    remedy = "Build it: pubsub-cluster pipeline build"
    try:
        body: dict[str, Any] = orjson.loads(path.read_bytes())
    except OSError as error:
        raise StoreError(
            "this is no layout folder, or the generation is gone",
            seen=f"{path}: {error.strerror}",
            remedy=remedy,
        ) from None
    except ValueError as error:
        raise StoreError("the layout folder is damaged", seen=f"{path}: {error}", remedy=remedy) from None
    if body.get("format") != FOLDER_FORMAT:
        raise StoreError(
            "the layout folder is of another version",
            seen=body.get("format"),
            limit=FOLDER_FORMAT,
            remedy=remedy,
            path=str(path),
        )
    return body
