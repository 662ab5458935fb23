"""Rule documents from files, folders and zip archives, with a bound on what one of them may take."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

SUFFIXES = frozenset({".yml", ".yaml"})
FILE_SIZE_BYTES_MAX = 4 << 20
UNREADABLE = (OSError, EOFError, zlib.error, zipfile.BadZipFile, NotImplementedError, RuntimeError)
"""What reading a packed file raises: it is torn or damaged, packed in an unknown way (`NotImplementedError`),
or has a password (`RuntimeError`)."""


class Document(NamedTuple):
    """One YAML document.

    Attributes
    ----------
    where : str
        File, member within an archive, number of the document where a file has several.
    body : object
        As a YAML 1.1 reader has it; None with a problem.
    problem : str
        Why it cannot be read; else empty.
    """

    where: str
    body: Any
    problem: str = ""


def read_documents(paths: Iterable[Path | str]) -> Iterator[Document]:
    """Give the documents of rule files, of folders (``*.yml``, ``*.yaml``, by name) and of zip archives.

    A file that is named is read whatever it is called. Entries of an archive's `__MACOSX` are no data.

    Raises
    ------
    OSError
        A path does not exist or cannot be read.
    """
    for path in map(Path, paths):
        if path.is_dir():
            files = [file for file in sorted(path.rglob("*")) if file.suffix.lower() in SUFFIXES]
            for file in files:
                yield from _file(file)
        elif zipfile.is_zipfile(path):
            yield from _archive(path)
        elif path.suffix.lower() == ".zip" and path.exists():
            yield Document(str(path), None, "it is no zip archive, or only the beginning of one")
        else:
            yield from _file(path)


def _file(path: Path) -> Iterator[Document]:
    size_bytes = path.stat().st_size
    if size_bytes > FILE_SIZE_BYTES_MAX:
        yield Document(str(path), None, _too_large(size_bytes))
    else:
        yield from _documents(str(path), path.read_bytes())


def _archive(path: Path) -> Iterator[Document]:
    with zipfile.ZipFile(path) as archive:
        for member in sorted(archive.infolist(), key=lambda member: member.filename):
            name = PurePosixPath(member.filename)
            if member.is_dir() or name.suffix.lower() not in SUFFIXES or "__MACOSX" in name.parts:
                continue
            where = f"{path}:{name}"
            if member.file_size > FILE_SIZE_BYTES_MAX:
                yield Document(where, None, _too_large(member.file_size))
                continue
            try:
                data = archive.read(member)  # no more than its `file_size`, whatever it is unpacked to
            except UNREADABLE as error:
                yield Document(where, None, f"the archive cannot give it: {error}")
                continue
            yield from _documents(where, data)


def _documents(where: str, data: bytes) -> Iterator[Document]:
    """Give the documents of one file; what cannot be read ends it."""
    import yaml
    from sigma.rule.base import SigmaYAMLLoader

    number, body = 0, None
    try:
        for number, body in enumerate(yaml.load_all(data, Loader=SigmaYAMLLoader), start=1):
            if body is not None:
                yield Document(where if number == 1 else f"{where} (document {number})", body)
    except (yaml.YAMLError, UnicodeDecodeError, ValueError) as error:
        problem = " ".join(f"it is not YAML: {error}".split())
        yield Document(where if number == 0 else f"{where} (document {number + 1})", None, problem)
    except RecursionError:
        yield Document(where, None, "it is nested too deeply")


def _too_large(size_bytes: int) -> str:
    return f"the file is too large: {size_bytes:,} bytes; allowed {FILE_SIZE_BYTES_MAX:,}"
