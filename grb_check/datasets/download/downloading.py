"""Download one file over HTTP, whole or not at all, with retries and resumption."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from itertools import chain
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import msgspec
import requests
from msgspec import Meta

from grb_check.datasets.download.requesting import (
    USUAL,
    Broken,
    Refused,
    Retry,
    is_temporary,
    persist,
    printable_line,
    reason,
    retry_after,
    send,
)
from grb_check.datasets.download.sources import shown_url
from grb_check.errors import DataError
from grb_check.files.writing import writing

Report = Callable[[int, int | None], None]

LARGEST: Final = 16 << 30
_CHUNK: Final = 1 << 16
_CONTENT_RANGE: Final = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")
_HTML_STARTS: Final = (b"<!doctype", b"<html")
_TITLE: Final = re.compile(rb"<title[^>]*>(.{1,200}?)</title", re.IGNORECASE | re.DOTALL)


class DownloadError(DataError):
    """A file could not be downloaded; the message is one line, `URL: reason`."""


def download(
    url: str,
    target: Path,
    *,
    report: Report | None = None,
    retry: Retry = USUAL,
    largest: int = LARGEST,
) -> None:
    """Download a file, which appears under its name only when it is complete.

    An incomplete download is kept beside it as `<name>.part`, with its origin in
    `<name>.part.json`, and resumed by a later call if the file on the server is still the same (RFC
    9110, sections 13.1.5 and 14). The environment's proxies are used. If several processes may call
    this, the caller holds a lock.

    Args:
        url: http or https.
        target: the file; its directory exists.
        report: called with the bytes received, and the total or None. The first number falls when
            the download starts again.
        retry: for connection errors, timeouts, broken transfers and the statuses 408, 425, 429 and
            5xx; every other failure is final.
        largest: limit of the size in bytes.

    Raises:
        DownloadError: the file cannot be downloaded.
        UnwritableError: it cannot be written.
        After either, a valid part of the file is kept.
    """
    part = _Part(target.with_name(f"{target.name}.part"), shown_url(url))
    try:
        # Network errors become one of the two exceptions below, so that an OSError is the disk's.
        with writing(target), requests.Session() as session:
            transfer = _Transfer(session, url, part, report, retry, largest)
            persist(transfer.run, retry)
            os.replace(part.path, target)
            part.notes.unlink(missing_ok=True)
    except (Refused, Broken) as error:
        raise DownloadError(f"{shown_url(url)}: {error}") from error


@dataclass(frozen=True)
class _Begun:
    """An incomplete file.

    Attributes:
        size: bytes received.
        total: bytes of the whole file, if known.
        etag: header of the response.
        last_modified: header of the response.
    """

    size: int
    total: int | None
    etag: str | None
    last_modified: str | None

    @property
    def validator(self) -> str | None:
        """Value of `If-Range`: a strong entity tag, else a date."""
        weak = self.etag is None or self.etag.startswith("W/")
        return self.last_modified if weak else self.etag

    def is_continued_by(self, response: requests.Response) -> bool:
        """Whether a 206 has the rest of the same file; some servers ignore `If-Range`."""
        match = _content_range(response)
        if match is None or int(match[1]) != self.size or _is_encoded(response):
            return False
        same = (
            (self.total, self.total_after(response)),
            (self.etag, response.headers.get("ETag")),
            (self.last_modified, response.headers.get("Last-Modified")),
        )
        return all(old is None or new in (None, old) for old, new in same)

    def total_after(self, response: requests.Response) -> int | None:
        """Bytes of the whole file, from a 206 or else as known before."""
        match = _content_range(response)
        return self.total if match is None or match[2] == "*" else int(match[2])


_Header: TypeAlias = Annotated[str, Meta(pattern="^[\\x20-\\x7e]*$")]  # it is sent back


class _Notes(msgspec.Struct):
    """Notes for a later attempt on an unfinished file; see `_Begun`."""

    url: str
    total: Annotated[int, Meta(ge=0)] | None
    etag: _Header | None
    last_modified: _Header | None


# Made at import, since msgspec looks types up in sys.modules, which a test may have changed since.
_NOTES: Final = msgspec.json.Decoder(_Notes)


@dataclass(frozen=True)
class _Part:
    """The unfinished file and the notes on it."""

    path: Path
    url: str

    @property
    def notes(self) -> Path:
        return self.path.with_name(f"{self.path.name}.json")

    def begun(self) -> _Begun | None:
        """Return what can be resumed; None if there is nothing, or it is of another URL."""
        try:
            size = self.path.stat().st_size
            notes = _NOTES.decode(self.notes.read_bytes())
        except (FileNotFoundError, msgspec.MsgspecError, ValueError, RecursionError):
            return None
        begun = _Begun(size, notes.total, notes.etag, notes.last_modified)
        can_go_on = notes.url == self.url and size > 0 and begun.validator is not None
        return begun if can_go_on else None

    def discard(self) -> None:
        self.notes.unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)

    def begin(self, response: requests.Response, total: int | None) -> None:
        """Discard the file and write new notes; without notes (encoded body) it is not resumed."""
        self.discard()
        if _is_encoded(response):
            return
        headers = response.headers
        notes = _Notes(self.url, total, headers.get("ETag"), headers.get("Last-Modified"))
        self.notes.write_bytes(msgspec.json.encode(notes))


@dataclass(frozen=True)
class _Transfer:
    """One download; each `run` is an attempt."""

    session: requests.Session
    url: str
    part: _Part
    report: Report | None
    retry: Retry
    largest: int

    def run(self) -> None:
        begun = self.part.begun()
        if begun is not None and begun.size == begun.total:  # interrupted before renaming
            return
        response = self._get(begun)
        if begun and response.status_code in (206, 416) and not begun.is_continued_by(response):
            response.close()
            self.part.discard()
            begun = None
            response = self._get(None)
        with response:
            _check_status(response, (200,) if begun is None else (200, 206))
            body = _body(response)
            first = next(body, b"")
            _check_not_html(response, first)
            if response.status_code == 200:
                begun = None
            self._receive(response, chain([first], body), begun)

    def _get(self, begun: _Begun | None) -> requests.Response:
        headers = {"Accept-Encoding": "identity"}
        if begun is not None and begun.validator is not None:
            headers |= {"Range": f"bytes={begun.size}-", "If-Range": begun.validator}
        return send(self.session, "GET", self.url, self.retry, headers=headers, stream=True)

    def _receive(
        self, response: requests.Response, body: Iterator[bytes], begun: _Begun | None
    ) -> None:
        done = begun.size if begun else 0
        total = begun.total_after(response) if begun else _total(response)
        self._check_size(total or 0)
        if begun is None:
            self.part.begin(response, total)
        with self.part.path.open("ab") as sink:
            try:
                for chunk in body:
                    done += len(chunk)
                    self._check_size(done)
                    sink.write(chunk)
                    if self.report:
                        self.report(done, total)
            except Broken as error:
                raise Broken(f"truncated: {_amount(done, total)} received ({error})") from error
            sink.flush()
            os.fsync(sink.fileno())
        if total is not None and done != total:
            if done > total:
                self.part.discard()
            raise Broken(f"{_amount(done, total)} received")

    def _check_size(self, size: int) -> None:
        if size > self.largest:
            self.part.discard()
            raise Refused(f"too large: {size:,} bytes or more; the limit is {self.largest:,}")


def _body(response: requests.Response) -> Iterator[bytes]:
    """Yield the body in chunks; raise `Broken` if it ends too early."""
    try:
        yield from response.iter_content(_CHUNK)
    except requests.RequestException as error:
        raise Broken(reason(error)) from error


def _check_status(response: requests.Response, wanted: tuple[int, ...]) -> None:
    status = response.status_code
    if status in wanted:
        return
    phrase = HTTPStatus(status).phrase if status in set(HTTPStatus) else ""
    said = f"HTTP {status} {phrase}".rstrip() + f", expected a file{_via(response)}"
    if is_temporary(status):
        raise Broken(said, retry_after(response))
    raise Refused(said)


def _check_not_html(response: requests.Response, begin: bytes) -> None:
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    starts = begin[:1024].lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith(_HTML_STARTS)
    if not starts and kind not in ("text/html", "application/xhtml+xml"):
        return
    title = _TITLE.search(begin)
    text = html.unescape(title[1].decode("utf-8", "replace")) if title else ""
    named = f" titled {printable_line(text)!r}" if text else ""
    raise Refused(f"received a web page{named}, expected a file{_via(response)}")


def _via(response: requests.Response) -> str:
    return f" (redirected to {printable_line(shown_url(response.url))})" if response.history else ""


def _is_encoded(response: requests.Response) -> bool:
    return response.headers.get("Content-Encoding", "identity").lower() != "identity"


def _length(response: requests.Response) -> int | None:
    """Return the bytes of the encoded body, None if the server does not send their number."""
    text = response.headers.get("Content-Length", "")
    chunked = "chunked" in response.headers.get("Transfer-Encoding", "").lower()
    return int(text) if text.isdecimal() and not chunked else None


def _total(response: requests.Response) -> int | None:
    """Return the bytes of the file in a 200, None if the server does not send their number."""
    return None if _is_encoded(response) else _length(response)


def _content_range(response: requests.Response) -> re.Match[str] | None:
    return _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))


def _amount(done: int, total: int | None) -> str:
    return f"{done:,} of {total:,} bytes" if total is not None else f"{done:,} bytes"
