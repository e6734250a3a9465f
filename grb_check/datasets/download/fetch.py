"""Download a dataset from the first source that works, once for all processes, and verify it."""

from __future__ import annotations

import hashlib
import os
import shutil
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

import requests
from filelock import FileLock
from requests.adapters import HTTPAdapter
from tqdm import tqdm
from urllib3 import Retry
from urllib3.exceptions import HTTPError

from grb_check.datasets import lock, published
from grb_check.datasets.download.archives import extract
from grb_check.datasets.download.sources import shown_url, urls_for
from grb_check.datasets.source import DataNotice, Source
from grb_check.errors import DataError, count, one_line
from grb_check.files.outputs import UnwritableError, writing

if TYPE_CHECKING:
    from grb_check.datasets.dataset import Dataset


LARGEST: Final = 16 << 30  # bytes of an archive
TIMEOUTS: Final = (10.0, 60.0)  # seconds to connect, and without a byte
TEMPORARY: Final = (408, 425, 429, 500, 502, 503, 504)
USUAL: Final = Retry(
    3,
    backoff_factor=1.0,
    status_forcelist=TEMPORARY,
    raise_on_status=False,
    respect_retry_after_header=False,  # it may ask for hours
)
_CHUNK: Final = 1 << 16
_DIGEST_LENGTH: Final = 16
_LONGEST: Final = 200  # characters of what a server said


@dataclass(frozen=True)
class Fetched:
    """A downloaded dataset.

    Attributes:
        path: directory of all files.
        url: their source, without user name and password; None if they were present.
        failures: `URL: reason` of each source that failed before.
    """

    path: Path
    url: str | None
    failures: tuple[str, ...] = ()


def fetched(source: Source) -> Source:
    """Download a dataset's files into `source.path`, unless they are there, and verify them.

    Raises:
        DataError: no download source has files with the published figures, or they differ from
            those of the first use.

    Warns:
        DataNotice: a download source failed and the next one was used.
    """
    name, home, read = source.name, source.places.home, source.format.read
    forget = f"delete the entry {source.lock_key} there"

    def check(folder: Path) -> None:
        downloaded = replace(source, path=folder)
        files = source.format.files(downloaded)
        lock.compare(source.lock_key, files, home, where="the download", accept=forget)
        wrong = published.deviations(cast("Dataset", read(downloaded)))
        if wrong:
            raise DataError(f"this is not the {name} that is published: {wrong}")

    files = source.format.files(replace(source, pending=False))
    urls = urls_for(name, source.places.sources)
    result = fetch(name, home, urls=urls, files=tuple(files), check=check)
    for failure in result.failures:
        warnings.warn(failure, DataNotice, stacklevel=2)
    if result.url is not None:
        stamps = {file_name: lock.stamp(path) for file_name, path in files.items()}
        lock.record_first_use(source.lock_key, stamps, home, origin=result.url)
    return replace(source, pending=False)


def fetch(
    name: str,
    home: Path,
    *,
    urls: Sequence[str],
    files: Sequence[str],
    check: Callable[[Path], None],
    retry: Retry = USUAL,
    largest: int = LARGEST,
) -> Fetched:
    """Download a dataset's files into `home / name`, unless they are there.

    The sources are tried in their order; the directory appears whole, and only with files that
    passed `check`. Several processes may call this at once: one downloads, the others wait. An
    archive whose URL does not contain the dataset's name may contain several datasets and is kept
    in `.downloads`. The environment's proxies are used; a bar on stderr shows how far it is, if
    that is a terminal.

    Args:
        name: of the dataset, and of its directory.
        home: the data directory; created if missing.
        urls: of archives, see `archives.extract`.
        files: relative POSIX paths of the dataset's files.
        check: called with a directory of the files; raises `DataError` if they are not the dataset.
        retry: after connection errors, timeouts, broken transfers and `TEMPORARY` statuses; every
            other failure is final.
        largest: limit of the size of an archive in bytes.

    Raises:
        DataError: all sources failed (the message has one line for each), or `home / name` contains
            something else.
        UnwritableError: `home` cannot be written to.
    """
    job = _Download(name, home, tuple(files), check, retry, largest)
    if job.is_done():
        return Fetched(job.result, None)
    with _lock(home, name):
        if job.is_done():
            return Fetched(job.result, None)
        job.check_place()
        failures: list[str] = []
        for url in urls:
            try:
                _from_source(url, job)
            except UnwritableError:
                raise
            except DataError as error:
                reason = one_line(error).removeprefix(f"{job.archive(url)}: ")
                failures.append(f"{shown_url(url)}: {reason}")
            else:
                return Fetched(job.result, shown_url(url), tuple(failures))
        raise DataError(_all_failed(failures, job))


@dataclass(frozen=True)
class _Download:
    """A dataset to be downloaded."""

    name: str
    home: Path
    files: tuple[str, ...]
    check: Callable[[Path], None]
    retry: Retry
    largest: int

    @property
    def result(self) -> Path:
        return self.home / self.name

    def archive(self, url: str) -> Path:
        digest = hashlib.sha256(url.encode()).hexdigest()[:_DIGEST_LENGTH]
        return self.home / ".downloads" / digest

    def is_done(self) -> bool:
        return all((self.result / file).is_file() for file in self.files)

    def check_place(self) -> None:
        """Check that nothing of the user's would be overwritten."""
        missing = [file for file in self.files if not (self.result / file).is_file()]
        if missing and self.result.is_dir() and any(self.result.iterdir()):
            msg = f"{self.result} lacks {', '.join(missing)}; add what is missing or remove it"
            raise DataError(msg)
        if self.result.exists() and not self.result.is_dir():
            raise DataError(f"{self.result} is not a directory; remove it")


def _from_source(url: str, job: _Download) -> None:
    archive = job.archive(url)
    with _lock(job.home, archive.name):  # a process for another dataset may use the same archive
        if archive.is_file():
            try:
                return _install(archive, job)
            except UnwritableError:
                raise
            except DataError:  # the source may have a better one now
                archive.unlink()
        _download(url, archive, job)
        try:
            return _install(archive, job)
        finally:
            if job.name in url:
                archive.unlink(missing_ok=True)


def _install(archive: Path, job: _Download) -> None:
    """Extract the dataset's directory from an archive, and check it."""
    unpacked = job.home / f".{job.name}.unpacked"  # the dataset's lock makes its name unique
    with writing(job.home):
        _remove(unpacked)
        unpacked.mkdir()
    try:
        extract(archive, job.name, job.files, unpacked)
        job.check(unpacked)
        with writing(job.home):
            if job.result.is_dir():
                job.result.rmdir()
            os.replace(unpacked, job.result)
    finally:
        _remove(unpacked)


def _download(url: str, target: Path, job: _Download) -> None:
    """Download a file, which appears under its name only when it is complete."""
    part = target.with_name(f"{target.name}.part")
    left = job.retry.total or 0
    what = f"{job.name} from {urlsplit(url).hostname}"
    with writing(target), requests.Session() as session:
        for scheme in ("http://", "https://"):
            session.mount(scheme, HTTPAdapter(max_retries=job.retry))
        try:
            while True:
                try:
                    with tqdm(desc=what, unit="B", unit_scale=True, disable=None) as bar:
                        _receive(session, url, part, bar, job.largest)
                    break
                except (requests.RequestException, HTTPError, ValueError) as error:
                    broken = isinstance(error, (requests.ConnectionError, requests.Timeout))
                    broken = broken or isinstance(error, requests.exceptions.ChunkedEncodingError)
                    if not left or not broken:
                        raise DataError(f"no file came: {_innermost(error)}") from error
                    left -= 1
            os.replace(part, target)
        finally:
            part.unlink(missing_ok=True)


def _receive(session: requests.Session, url: str, part: Path, bar: Any, largest: int) -> None:
    """Write the body of an answer to a file.

    Raises:
        DataError: the answer is no file, or too large.
    """
    headers = {"Accept-Encoding": "identity"}
    with session.get(url, stream=True, timeout=TIMEOUTS, headers=headers) as response:
        if response.status_code != 200:
            raise DataError(f"HTTP {response.status_code} {response.reason}, expected a file")
        announced = response.headers.get("Content-Length", "")
        bar.total = int(announced) if announced.isdecimal() else None
        size = bar.total or 0
        with part.open("wb") as sink:
            for number, chunk in enumerate(response.iter_content(_CHUNK)):
                if not number and _is_page(response, chunk):
                    raise DataError("received a web page, expected a file")
                size = max(size, sink.tell() + len(chunk))
                if size > largest:
                    raise DataError(f"too large: {size:,} bytes or more; the limit is {largest:,}")
                sink.write(chunk)
                bar.update(len(chunk))


def _is_page(response: requests.Response, begin: bytes) -> bool:
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    starts = begin[:1024].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    return kind in ("text/html", "application/xhtml+xml") or starts.startswith(
        (b"<!doctype", b"<html")
    )


def _innermost(error: BaseException) -> str:
    """Return the innermost message of an error of requests, printable and on one line."""
    inner: BaseException | None = error
    while isinstance(inner, BaseException):
        error = inner
        inner = getattr(error, "reason", None) or (error.args[-1] if error.args else None)
    text = "".join(character if character.isprintable() else " " for character in one_line(error))
    return text.rpartition(">: ")[2][:_LONGEST] or type(error).__name__


@contextmanager
def _lock(home: Path, name: str) -> Iterator[None]:
    folder = home / ".locks"
    with writing(home):
        folder.mkdir(parents=True, exist_ok=True)
        (home / ".downloads").mkdir(exist_ok=True)
        held = FileLock(folder / f"{name}.lock")
        held.acquire()
    try:
        yield
    finally:
        held.release()


def _all_failed(failures: Sequence[str], job: _Download) -> str:
    number = f"{count(len(failures), 'source')} failed" if failures else "no source is known for it"
    return "\n".join(
        (
            f"dataset {job.name}: {number}{':' if failures else ''}",
            *(f"  {failure}" for failure in failures),
            f"Copy {', '.join(job.files)} into {job.result} by hand, name another source with "
            "the ini value grb_sources, or a proxy in the environment (HTTPS_PROXY).",
        )
    )


def _remove(folder: Path) -> None:
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)
