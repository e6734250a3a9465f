"""Download a dataset from the first source that works, once for all processes."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from filelock import FileLock
from tqdm import tqdm

from grb_check.datasets.download.archives import extract
from grb_check.datasets.download.downloading import DownloadError, Report, download
from grb_check.datasets.download.requesting import USUAL, Retry
from grb_check.datasets.download.sources import shown_url
from grb_check.errors import DataError, count
from grb_check.files.writing import UnwritableError, writing

_DIGEST_LENGTH: Final = 16


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


def fetch(
    name: str,
    home: Path,
    *,
    urls: Sequence[str],
    files: Sequence[str],
    check: Callable[[Path], None],
    retry: Retry = USUAL,
    report: Report | None = None,
) -> Fetched:
    """Download a dataset's files into `home / name`, unless they are there.

    The sources are tried in their order; the directory appears whole, and only with files that
    passed `check`. Several processes may call this at once: one downloads, the others wait. After
    an interrupted run, downloads are resumed (in `.downloads`) and directories removed. An archive
    whose URL does not contain the dataset's name may contain several datasets and is kept in
    `.downloads`.

    Args:
        name: of the dataset, and of its directory.
        home: the data directory; created if missing.
        urls: of archives, see `archives.extract`.
        files: relative POSIX paths of the dataset's files.
        check: called with a directory of the files; raises `DataError` if they are not the dataset.
        retry: see `download`.
        report: see `download`; by default a bar on stderr, if that is a terminal.

    Raises:
        DataError: all sources failed (the message has one line for each), or `home / name` contains
            something else.
        UnwritableError: `home` cannot be written to.
    """
    job = _Job(name, home, tuple(files), check, retry, report)
    if job.is_done():
        return Fetched(job.result, None)
    with _lock(home, name):
        if job.is_done():
            return Fetched(job.result, None)
        job.check_place()
        return _first_of(urls, job)


@dataclass(frozen=True)
class _Job:
    """A dataset to be downloaded."""

    name: str
    home: Path
    files: tuple[str, ...]
    check: Callable[[Path], None]
    retry: Retry
    report: Report | None

    @property
    def result(self) -> Path:
        return self.home / self.name

    @property
    def unpacked(self) -> Path:
        """Directory of files to be checked; the dataset's lock makes its name unique."""
        return self.home / f".{self.name}.unpacked"

    def archive(self, url: str) -> Path:
        return self.home / ".downloads" / _digest(url)

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


def _first_of(urls: Sequence[str], job: _Job) -> Fetched:
    failures = []
    for url in urls:
        try:
            _from_source(url, job)
        except UnwritableError:
            raise
        except DownloadError as error:
            failures.append(str(error))
        except DataError as error:
            reason = str(error).removeprefix(f"{job.archive(url)}: ")
            failures.append(f"{shown_url(url)}: {' '.join(reason.split())}")
        else:
            _clean_up(urls, job)
            return Fetched(job.result, shown_url(url), tuple(failures))
    raise DataError(_all_failed(failures, job))


def _from_source(url: str, job: _Job) -> None:
    archive = job.archive(url)
    with _lock(job.home, archive.name):  # a process for another dataset may use the same archive
        if archive.is_file():
            try:
                return _install(archive, url, job)
            except UnwritableError:
                raise
            except DataError:  # the source may have a better one now
                pass
        with _reporting(url, job) as report:
            download(url, archive, report=report, retry=job.retry)
        return _install(archive, url, job)


def _install(archive: Path, url: str, job: _Job) -> None:
    """Extract the dataset's directory from an archive.

    An archive that cannot be extracted is removed, and so is one with other files than the
    dataset's, unless it may contain several datasets.
    """
    with writing(job.home):
        _remove(job.unpacked)
        job.unpacked.mkdir()
    try:
        _extract(archive, job)
        try:
            job.check(job.unpacked)
        except DataError:
            if job.name in url:
                archive.unlink(missing_ok=True)
            raise
        with writing(job.home):
            if job.result.is_dir():
                job.result.rmdir()
            os.replace(job.unpacked, job.result)
    finally:
        _remove(job.unpacked)


def _extract(archive: Path, job: _Job) -> None:
    try:
        extract(archive, job.name, job.files, job.unpacked)
    except UnwritableError:
        raise
    except DataError:
        archive.unlink(missing_ok=True)
        raise


def _clean_up(urls: Sequence[str], job: _Job) -> None:
    """Remove complete and partial downloads that only this dataset can use."""
    for url in urls:
        if job.name in url:
            archive = job.archive(url)
            with suppress(OSError):
                for path in archive.parent.glob(f"{archive.name}*"):
                    path.unlink()


@contextmanager
def _lock(home: Path, name: str) -> Iterator[None]:
    folder = home / ".locks"
    with writing(home):
        folder.mkdir(parents=True, exist_ok=True)
        (home / ".downloads").mkdir(exist_ok=True)
        lock = FileLock(folder / f"{name}.lock")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _reporting(url: str, job: _Job) -> Iterator[Report]:
    """Yield the caller's report, or a progress bar, which is hidden if stderr is not a terminal."""
    if job.report is not None:
        yield job.report
        return
    what = f"{job.name} from {urlsplit(url).hostname}"
    with tqdm(desc=what, unit="B", unit_scale=True, disable=None) as bar:
        yield lambda done, total: _move(bar, done, total)


def _move(bar: Any, done: int, total: int | None) -> None:
    bar.total = total
    bar.update(done - bar.n)  # backwards when the download starts again


def _all_failed(failures: Sequence[str], job: _Job) -> str:
    number = f"{count(len(failures), 'source')} failed" if failures else "no source is known for it"
    return "\n".join(
        (
            f"dataset {job.name}: {number}{':' if failures else ''}",
            *(f"  {failure}" for failure in failures),
            f"Copy {', '.join(job.files)} into {job.result} by hand, name another source with "
            "the ini value grb_sources, or a proxy in the environment (HTTPS_PROXY).",
        )
    )


def _digest(url: str) -> str:
    return hashlib.sha256(url.encode()).hexdigest()[:_DIGEST_LENGTH]


def _remove(folder: Path) -> None:
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)
