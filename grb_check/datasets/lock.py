"""The lock file: digests of a dataset's files at their first use, with which later uses compare.

GRB publishes no checksums. The first use of a dataset records the SHA-256 of each of its files in
`grb_check.lock.json` in the data directory; every later use compares.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from filelock import FileLock
from msgspec import Meta

from grb_check.datasets.source import DataNotice
from grb_check.errors import DataError, one_line
from grb_check.files.outputs import UnwritableError, write_whole, writing
from grb_check.files.text import without_mark

LOCK_FILE: Final = "grb_check.lock.json"
FORMAT: Final[Literal[1]] = 1
_CHUNK: Final = 1 << 20


@dataclass(frozen=True)
class Stamp:
    """Digest and size of a file."""

    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    size: Annotated[int, Meta(ge=0)]  # bytes


class _Entry(msgspec.Struct):
    recorded: str  # date
    origin: str
    files: dict[str, Stamp]


class _LockFile(msgspec.Struct):
    format: Literal[1]
    datasets: dict[str, _Entry]


# Made at import, since msgspec looks types up in sys.modules, which a test may have changed since.
_DECODER: Final = msgspec.json.Decoder(_LockFile)


def stamp(path: Path) -> Stamp:
    """Return the stamp of a file.

    Raises:
        DataError: it cannot be read.
    """
    sha = hashlib.sha256()
    try:
        with path.open("rb") as stream:
            while chunk := stream.read(_CHUNK):
                sha.update(chunk)
            return Stamp(sha.hexdigest(), stream.tell())
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None


def compare(
    key: str, files: Mapping[str, Path], home: Path, *, where: str, accept: str
) -> dict[str, Stamp]:
    """Compare files with the record of their first use, if there is one.

    Args:
        key: name or path of the dataset that the files belong to.
        files: name in the record -> file.
        home: holds the lock file.
        where: the directory, archive or download that they are in, for the message.
        accept: what to do to accept a change, for the message.

    Returns:
        The present stamps, for `record`.

    Raises:
        DataError: files have changed; lists each with the expected and the found digest.
    """
    result = {name: stamp(path) for name, path in sorted(files.items())}
    expected = recorded(key, home)
    if expected is None or expected == result:
        return result
    changed = [
        f"{name}: expected {_text(expected.get(name))}, found {_text(result.get(name))}"
        for name in sorted({*expected, *result})
        if expected.get(name) != result.get(name)
    ]
    raise DataError(
        f"{where}: not the files that {key} was first used with (see {home / LOCK_FILE}): "
        f"{'; '.join(changed)}; if the change is intended, {accept}"
    )


def recorded(key: str, home: Path) -> dict[str, Stamp] | None:
    """Return the recorded files of a dataset; None if it was never used.

    Raises:
        DataError: the lock file cannot be read.
    """
    entry = _read(home).get(key)
    return None if entry is None else entry.files


def record(key: str, files: Mapping[str, Stamp], home: Path, *, origin: str) -> None:
    """Record files that were read without an error.

    Args:
        key: see `compare`.
        files: name in the record -> stamp.
        home: holds the lock file; created if missing.
        origin: where the files came from.

    Raises:
        DataError: the present lock file cannot be read.
        UnwritableError: the directory cannot be written to.
    """
    today = datetime.now(timezone.utc).date().isoformat()
    with writing(home / LOCK_FILE), _exclusive(home):
        entries = _read(home) | {key: _Entry(today, origin, dict(files))}
        content = msgspec.json.encode(_LockFile(FORMAT, dict(sorted(entries.items()))))
        write_whole(home / LOCK_FILE, msgspec.json.format(content, indent=1) + b"\n")


def record_first_use(key: str, files: Mapping[str, Stamp], home: Path, *, origin: str) -> None:
    """Record files as `record` does, unless there is a record.

    Raises:
        DataError: the lock file cannot be read.

    Warns:
        DataNotice: the directory cannot be written to.
    """
    if recorded(key, home) is not None:
        return
    try:
        record(key, files, home, origin=origin)
    except UnwritableError as error:
        warnings.warn(f"the checksums of {key} are not kept: {error}", DataNotice, stacklevel=2)


@contextmanager
def _exclusive(home: Path) -> Iterator[None]:
    (home / ".locks").mkdir(parents=True, exist_ok=True)
    with FileLock(home / ".locks" / "checksums.lock"):
        yield


def _read(home: Path) -> dict[str, _Entry]:
    path = home / LOCK_FILE
    try:
        return _DECODER.decode(without_mark(path.read_bytes())).datasets
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise DataError(
            f"{path}: not a lock file of format {FORMAT} ({one_line(error)}); delete it to record "
            f"checksums again"
        ) from None


def _text(stamp: Stamp | None) -> str:
    return "no file" if stamp is None else f"sha256 {stamp.sha256[:16]}... ({stamp.size:,} bytes)"
