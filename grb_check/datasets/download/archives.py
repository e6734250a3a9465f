"""Archives of datasets: unpacked within limits, and the folder in them that has the dataset."""

from __future__ import annotations

import stat
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final

from grb_check.errors import DataError, one_line
from grb_check.files.outputs import writing

_ZIP: Final = (b"PK\x03\x04", b"PK\x05\x06")  # the second of an empty one
_PIECE: Final = 1 << 18
Folder = tuple[str, ...]


@dataclass(frozen=True)
class ArchiveLimits:
    """Limits of an archive's content.

    Attributes:
        members: entries of any type, of the archive or of one inside it.
        total_bytes: of all members together, as their headers say.
    """

    members: int = 10_000
    total_bytes: int = 8 << 30


def extract(
    archive: Path,
    name: str,
    files: Sequence[str],
    into: Path,
    limits: ArchiveLimits = ArchiveLimits(),
) -> None:
    """Copy a dataset's files out of an archive.

    The files are taken from, in this order: a directory called `name` that has all of them, at any
    depth; an archive `<name>.zip` inside the archive, read in the same way; the only directory that
    has them. Paths of the archive are compared, never used on disk; links, devices and the extra
    files of macOS are ignored. Checksums are verified if the format has them; a plain tar has none.

    Args:
        archive: a zip (stored or deflated), or a tar that may be packed with gzip, bzip2 or xz.
        name: of the dataset.
        files: relative POSIX paths, below that directory and below `into`.
        into: an empty directory. After an error its content is invalid.
        limits: of the archive's content.

    Raises:
        DataError: the archive is damaged, encrypted, of another type, exceeds the limits or lacks
            the files. The message names the archive.
        UnwritableError: a file cannot be written; the message names it.
    """
    try:
        with archive.open("rb") as stream:
            _extract(stream, name, files, into, limits, nested=False)
    except DataError:
        raise
    except _Unusable as error:
        raise DataError(f"{archive}: {error}") from error
    except OSError as error:
        raise DataError(f"{archive}: cannot be read: {error.strerror or error}") from error
    except Exception as error:  # zipfile, tarfile and the packers raise nearly anything on damage
        reason = one_line(error)
        raise DataError(f"{archive}: no zip or tar archive, or a damaged one ({reason})") from error


class _Unusable(Exception):
    """A fault of an archive; the message does not name the archive."""


@dataclass(frozen=True)
class _Member:
    """An entry of an archive: its path, its size, and a way to open it; None if it is no file."""

    parts: Folder
    size: int
    open: Callable[[], IO[bytes]] | None


def _extract(
    stream: IO[bytes],
    name: str,
    files: Sequence[str],
    into: Path,
    limits: ArchiveLimits,
    *,
    nested: bool,
) -> None:
    with _members(stream) as entries:
        members = list(_within(entries, limits))
        folders = _complete_folders(members, files)
        named = [folder for folder in folders if folder[-1:] == (name,)]
        inner = [member for member in members if member.parts[-1] == f"{name}.zip"]
        if not named and inner and not nested:
            with ExitStack() as stack:
                with writing(into):
                    copy = stack.enter_context(tempfile.TemporaryFile(dir=into))
                _copy(_only(inner, f"{name}.zip"), copy, into)
                copy.seek(0)
                return _extract(copy, name, files, into, limits, nested=True)
        chosen = folders[_the_one(named or list(folders), name, files)]
        for file in files:
            target = into / file
            with ExitStack() as stack:
                with writing(target):
                    target.parent.mkdir(parents=True, exist_ok=True)
                    sink = stack.enter_context(target.open("xb"))
                _copy(_only(chosen[file], file), sink, target)
    return None


@contextmanager
def _members(stream: IO[bytes]) -> Iterator[Iterator[_Member]]:
    """Yield the entries of an archive."""
    begin = stream.read(len(_ZIP[0]))
    stream.seek(0)
    if begin in _ZIP:
        with zipfile.ZipFile(stream) as archive:
            yield (_zipped(archive, info) for info in archive.infolist())
        return
    with tarfile.open(fileobj=stream, mode="r:*") as tar:
        yield (_tarred(tar, info) for info in tar)


def _zipped(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> _Member:
    regular = stat.S_IFMT(info.external_attr >> 16) in (0, stat.S_IFREG) and not info.is_dir()
    opened = partial(_open_zipped, archive, info) if regular else None
    return _Member(_parts(info.filename), info.file_size, opened)


def _open_zipped(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> IO[bytes]:
    # zipfile unpacks other methods without a limit: kilobytes may become gigabytes at once.
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise _Unusable(
            f"{info.filename!a} in it is compressed with method {info.compress_type}; a zip may "
            f"use deflate only"
        )
    return archive.open(info)


def _tarred(archive: tarfile.TarFile, info: tarfile.TarInfo) -> _Member:
    regular = info.type in (tarfile.REGTYPE, tarfile.AREGTYPE) and not info.issparse()
    opened: Any = partial(archive.extractfile, info) if regular else None
    return _Member(_parts(info.name), info.size, opened)


def _within(entries: Iterator[_Member], limits: ArchiveLimits) -> Iterator[_Member]:
    """Yield the regular files; a tar is unpacked up to the limits only."""
    total = 0
    for number, member in enumerate(entries, 1):
        total += member.size
        if number > limits.members:
            raise _Unusable(f"it has more than {limits.members:,} members, the limit")
        if total > limits.total_bytes:
            raise _Unusable(f"it has more than {limits.total_bytes:,} unpacked bytes, the limit")
        if member.open is not None and member.parts:
            yield member


def _parts(path: str) -> Folder:
    """Return the path of a member, for comparison only; empty for the extra files of macOS."""
    parts = tuple(part for part in path.replace("\\", "/").split("/") if part not in ("", "."))
    foreign = "__MACOSX" in parts or any(part.startswith("._") for part in parts[-1:])
    return () if foreign else parts


def _complete_folders(
    members: Sequence[_Member], files: Sequence[str]
) -> dict[Folder, dict[str, list[_Member]]]:
    """Return each directory that has all files -> file -> its members."""
    folders: dict[Folder, dict[str, list[_Member]]] = {}
    for file in files:
        path = PurePosixPath(file).parts
        for member in members:
            if member.parts[-len(path) :] == path:
                folder = folders.setdefault(member.parts[: -len(path)], {})
                folder.setdefault(file, []).append(member)
    return {folder: result for folder, result in folders.items() if len(result) == len(files)}


def _the_one(folders: Sequence[Folder], name: str, files: Sequence[str]) -> Folder:
    if not folders:
        raise _Unusable(f"no directory in it has all of {', '.join(files)}")
    if len(folders) > 1:
        paths = ", ".join(ascii("/".join(folder)) for folder in folders[:3])
        raise _Unusable(
            f"{len(folders)} directories in it have {', '.join(files)}, and none or several are "
            f"called {name}: {paths}"
        )
    return folders[0]


def _only(members: Sequence[_Member], what: str) -> _Member:
    if len(members) > 1:
        raise _Unusable(f"it has {what} {len(members)} times in the same directory")
    return members[0]


def _copy(member: _Member, sink: IO[bytes], where: Path) -> None:
    assert member.open is not None  # a regular file
    left = member.size  # zipfile and tarfile give no more, whatever the packed bytes hold
    with member.open() as source:
        while chunk := source.read(_PIECE):
            left -= len(chunk)
            if left < 0:
                raise _Unusable("a file in it is longer than its header says")
            with writing(where):
                sink.write(chunk)
                sink.flush()
