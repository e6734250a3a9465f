"""Extract a dataset's files, and nothing else, from an untrusted zip or tar archive."""

from __future__ import annotations

import bz2
import gzip
import lzma
import stat
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final

from grb_check.errors import DataError, one_line
from grb_check.files.writing import writing

_CHUNK: Final = 1 << 18
_LONGEST_READ: Final = 1 << 20
_ZIP: Final = (b"PK\x03\x04", b"PK\x05\x06")
_PACKERS: Final[dict[bytes, Callable[[IO[bytes]], Any]]] = {
    b"\x1f\x8b": lambda stream: gzip.GzipFile(fileobj=stream),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
}
_TAR_MAGIC: Final = slice(257, 262)


@dataclass(frozen=True)
class Limits:
    """Limits of an archive's content.

    Attributes:
        members: entries of any type, of the archive and of one inside it together.
        total_bytes: unpacked bytes, counted while they are read, whatever the headers say. For a
            tar this includes skipped members, which have to be unpacked as well.
    """

    members: int = 10_000
    total_bytes: int = 8 << 30


def extract(
    archive: Path, name: str, files: Sequence[str], into: Path, limits: Limits = Limits()
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
    with _explained(archive), _read(archive) as stream:
        _extract(stream, _Order(name, tuple(files), into, _Budget(limits)), nested=False)


class _Unusable(Exception):
    """A fault of an archive; the message does not name the archive."""


@dataclass
class _Budget:
    """Counts unpacked bytes and members against the limits."""

    limits: Limits
    _bytes: int = field(default=0, init=False)
    _members: int = field(default=0, init=False)

    def spend(self, count: int) -> None:
        self._bytes += count
        if self._bytes > self.limits.total_bytes:
            raise _Unusable(_too_long(self.limits))

    def count_member(self) -> None:
        self._members += 1
        if self._members > self.limits.members:
            raise _Unusable(f"it has more than {self.limits.members:,} members, the limit")


@dataclass(frozen=True)
class _Order:
    """Files to extract, their target directory, and the budget."""

    name: str
    files: tuple[str, ...]
    into: Path
    budget: _Budget


@dataclass(frozen=True)
class _Member:
    """A regular file of an archive: path, position in the archive, and a way to open it."""

    parts: tuple[str, ...]
    place: int
    open: Callable[[], IO[bytes]]


@contextmanager
def _explained(archive: Path) -> Iterator[None]:
    try:
        yield
    except DataError:
        raise
    except _Unusable as error:
        raise DataError(f"{archive}: {error}") from error
    except Exception as error:  # zipfile, tarfile and the packers raise nearly anything on damage
        reason = one_line(error)
        raise DataError(f"{archive}: a damaged or incomplete archive ({reason})") from error


def _read(archive: Path) -> IO[bytes]:
    try:
        return archive.open("rb")
    except OSError as error:
        raise _Unusable(f"cannot be read: {error.strerror or error}") from error


def _extract(stream: IO[bytes], order: _Order, *, nested: bool) -> None:
    with _opened(stream, order.budget) as members:
        folders = _complete_folders(members, order.files)
        named = [folder for folder in folders if folder[-1:] == (order.name,)]
        inner = [] if nested else [m for m in members if m.parts[-1] == f"{order.name}.zip"]
        if not named and inner:
            _extract_inner(inner, order)
            return
        chosen = _the_one(named or list(folders), order)
        wanted = [(_only(found, file), file) for file, found in folders[chosen].items()]
        for member, file in sorted(wanted, key=lambda pair: pair[0].place):
            _copy_to_file(member, order.into / file, order.budget)


def _extract_inner(found: list[_Member], order: _Order) -> None:
    member = _only(found, f"{order.name}.zip")
    with ExitStack() as stack:
        with writing(order.into):
            copy = stack.enter_context(tempfile.TemporaryFile(dir=order.into))
        _copy(member, copy, order.into, order.budget)
        copy.seek(0)
        _extract(copy, order, nested=True)


def _complete_folders(
    members: list[_Member], files: Sequence[str]
) -> dict[tuple[str, ...], dict[str, list[_Member]]]:
    """Return each directory that has all files -> file -> its members."""
    folders: dict[tuple[str, ...], dict[str, list[_Member]]] = {}
    for file in files:
        path = PurePosixPath(file).parts
        for member in members:
            if member.parts[-len(path) :] == path:
                folder = folders.setdefault(member.parts[: -len(path)], {})
                folder.setdefault(file, []).append(member)
    return {folder: found for folder, found in folders.items() if len(found) == len(files)}


def _the_one(folders: list[tuple[str, ...]], order: _Order) -> tuple[str, ...]:
    if not folders:
        raise _Unusable(f"no directory in it has all of {', '.join(order.files)}")
    if len(folders) > 1:
        paths = ", ".join(ascii("/".join(folder)) for folder in folders[:3])
        msg = (
            f"{len(folders)} directories in it have {', '.join(order.files)}, and none or several "
            f"are called {order.name}: {paths}"
        )
        raise _Unusable(msg)
    return folders[0]


def _only(found: list[_Member], what: str) -> _Member:
    if len(found) > 1:
        raise _Unusable(f"it has {what} {len(found)} times in the same directory")
    return found[0]


@contextmanager
def _opened(stream: IO[bytes], budget: _Budget) -> Iterator[list[_Member]]:
    """Yield the regular files of an archive; check its end, if it has checksums, on closing."""
    head = stream.read(_TAR_MAGIC.stop)
    stream.seek(0)
    if head.startswith(_ZIP):
        with zipfile.ZipFile(stream) as archive:
            yield list(_zip_members(archive, budget))
        return
    packer = next((packer for magic, packer in _PACKERS.items() if head.startswith(magic)), None)
    if packer is None and head[_TAR_MAGIC] != b"ustar":
        begin = f"begins with {head[:8]!r}" if head else "is empty"
        raise _Unusable(f"neither a zip nor a tar archive: it {begin}")
    unpacked = _Unpacked(packer(stream) if packer else stream, budget.limits)
    with tarfile.open(fileobj=unpacked, mode="r:") as archive:  # type: ignore[call-overload]
        yield list(_tar_members(archive, budget))
    unpacked.finish()


def _zip_members(archive: zipfile.ZipFile, budget: _Budget) -> Iterator[_Member]:
    for place, info in enumerate(archive.infolist()):
        budget.count_member()
        parts = _parts(info.filename)
        is_regular = stat.S_IFMT(info.external_attr >> 16) in (0, stat.S_IFREG)
        if is_regular and not info.is_dir() and parts:
            yield _Member(parts, place, partial(_open_zipped, archive, info))


def _open_zipped(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> IO[bytes]:
    if info.flag_bits & 1:
        raise _Unusable(f"{info.filename!a} in it is encrypted")
    # zipfile unpacks other methods without a limit: kilobytes may become gigabytes at once.
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        msg = (
            f"{info.filename!a} in it is compressed with method {info.compress_type}; "
            "a zip may use deflate only"
        )
        raise _Unusable(msg)
    return archive.open(info)


def _tar_members(archive: tarfile.TarFile, budget: _Budget) -> Iterator[_Member]:
    for info in archive:
        budget.count_member()
        parts = _parts(info.name)
        is_regular = info.type in (tarfile.REGTYPE, tarfile.AREGTYPE) and not info.issparse()
        if is_regular and parts:
            yield _Member(parts, info.offset_data, partial(_open_tarred, archive, info))


def _open_tarred(archive: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    source = archive.extractfile(info)
    assert source is not None  # a regular file
    return source


def _parts(path: str) -> tuple[str, ...]:
    """Return the path of a member, for comparison only; empty for the extra files of macOS."""
    parts = tuple(part for part in path.replace("\\", "/").split("/") if part not in ("", "."))
    if not parts or "__MACOSX" in parts or parts[-1].startswith("._"):
        return ()
    return parts


@dataclass
class _Unpacked:
    """An unpacked tar stream for `tarfile` that limits single reads and the total.

    `tarfile` reads an extended header at once, whatever length it announces.
    """

    stream: IO[bytes]
    limits: Limits
    _position: int = field(default=0, init=False)
    _reached: int = field(default=0, init=False)

    def read(self, size: int) -> bytes:
        if not 0 <= size <= _LONGEST_READ:
            raise _Unusable(f"a header in it announces {size:,} bytes")
        data = self.stream.read(size)
        self._position += len(data)
        self._reached = max(self._reached, self._position)
        if self._reached > self.limits.total_bytes:
            raise _Unusable(_too_long(self.limits))
        return data

    def seek(self, position: int) -> int:
        if position < self._position:
            self._position = self.stream.seek(position)
        while self._position < position and self.read(min(_CHUNK, position - self._position)):
            pass
        return self._position

    def tell(self) -> int:
        return self._position

    def finish(self) -> None:
        """Read to the end, where gzip and xz have checksums."""
        self.seek(self._reached)
        while self.read(_CHUNK):
            pass


def _copy_to_file(member: _Member, target: Path, budget: _Budget) -> None:
    with ExitStack() as stack:
        with writing(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            sink = stack.enter_context(target.open("xb"))
        _copy(member, sink, target, budget)


def _copy(member: _Member, sink: IO[bytes], where: Path, budget: _Budget) -> None:
    with member.open() as source:
        while chunk := source.read(_CHUNK):
            budget.spend(len(chunk))
            with writing(where):
                sink.write(chunk)
                sink.flush()


def _too_long(limits: Limits) -> str:
    return f"it has more than {limits.total_bytes:,} unpacked bytes, the limit"
