"""Download one file over HTTP, whole or not at all, with retries and resumption."""

from __future__ import annotations

import html
import os
import re
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from itertools import chain
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import msgspec
import requests
import urllib3
from msgspec import Meta

from grb_check.datasets.download.sources import shown_url
from grb_check.errors import DataError
from grb_check.files.writing import writing

Report = Callable[[int, int | None], None]

LARGEST: Final = 16 << 30
_CHUNK: Final = 1 << 16
_CONTENT_RANGE: Final = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")
_HTML_STARTS: Final = (b"<!doctype", b"<html")
_TITLE: Final = re.compile(rb"<title[^>]*>(.{1,200}?)</title", re.IGNORECASE | re.DOTALL)
_ADDRESS: Final = re.compile(r"^(<[^>]*>|\w+\([^)]*\)): ")
_ANOTHER_TIME: Final = (408, 425, 429)


class DownloadError(DataError):
    """A file could not be downloaded; the message is one line, `URL: reason`."""


@dataclass(frozen=True)
class Retry:
    """Times at which a failed request is retried.

    Attributes:
        attempts: number of requests, at least 1.
        first_wait: seconds before the second attempt; doubled before each further one.
        longest_wait: seconds; limits doubled waits and those that a server asks for
            (`Retry-After`).
        connect_timeout: seconds.
        read_timeout: seconds without a byte.
        sleep: waits for that many seconds.
    """

    attempts: int = 4
    first_wait: float = 1.0
    longest_wait: float = 30.0
    connect_timeout: float = 10.0
    read_timeout: float = 60.0
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        if self.attempts < 1:
            msg = f"attempts is {self.attempts}; at least 1 is needed"
            raise ValueError(msg)


def download(
    url: str,
    target: Path,
    *,
    report: Report | None = None,
    retry: Retry = Retry(),
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
            _persist(transfer.run, retry)
            os.replace(part.path, target)
            part.notes.unlink(missing_ok=True)
    except (_Refused, _Broken) as error:
        raise DownloadError(f"{shown_url(url)}: {error}") from error


class _Refused(Exception):
    """A final failure."""


class _Broken(Exception):
    """A failure after which to retry; `wait`: seconds that the server asks for."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


def _persist(run: Callable[[], None], retry: Retry) -> None:
    wait = retry.first_wait
    for left in reversed(range(retry.attempts)):
        try:
            run()
            return
        except _Broken as error:
            if not left:
                tried = f" ({retry.attempts} attempts)" if retry.attempts > 1 else ""
                raise _Broken(f"{error}{tried}") from error
            asked = error.wait
        retry.sleep(min(wait if asked is None else asked, retry.longest_wait))
        wait = min(2 * wait, retry.longest_wait)


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
    """What a later attempt has to know of an unfinished file; see `_Begun`."""

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
        timeouts = (self.retry.connect_timeout, self.retry.read_timeout)
        try:
            return self.session.get(self.url, headers=headers, stream=True, timeout=timeouts)
        except requests.Timeout as error:
            raise _Broken(f"no answer: {_reason(error)}") from error
        except requests.exceptions.InvalidProxyURL as error:
            raise _Refused(
                f"the proxy of the environment is not a URL: {_line(str(error))}"
            ) from error
        except requests.exceptions.ProxyError as error:
            raise _Broken(f"no connection to the proxy: {_reason(error)}") from error
        except (ValueError, requests.TooManyRedirects) as error:
            msg = f"the URL, or its redirection, cannot be used: {_line(str(error))}"
            raise _Refused(msg) from error
        except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
            resolver = _cause(error).__cause__
            if isinstance(resolver, socket.gaierror) and resolver.errno != socket.EAI_AGAIN:
                raise _Refused(f"no such host, or no network: {_reason(error)}") from error
            raise _Broken(f"no connection: {_reason(error)}") from error
        except OSError as error:  # certificates that the environment names and that do not exist
            raise _Refused(_line(str(error))) from error

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
            except _Broken as error:
                raise _Broken(f"truncated: {_amount(done, total)} received ({error})") from error
            sink.flush()
            os.fsync(sink.fileno())
        if total is not None and done != total:
            if done > total:
                self.part.discard()
            raise _Broken(f"{_amount(done, total)} received")

    def _check_size(self, size: int) -> None:
        if size > self.largest:
            self.part.discard()
            raise _Refused(f"too large: {size:,} bytes or more; the limit is {self.largest:,}")


def _body(response: requests.Response) -> Iterator[bytes]:
    """Yield the body in chunks; raise `_Broken` if it ends too early."""
    try:
        yield from response.iter_content(_CHUNK)
    except requests.RequestException as error:
        raise _Broken(_reason(error)) from error


def _check_status(response: requests.Response, wanted: tuple[int, ...]) -> None:
    status = response.status_code
    if status in wanted:
        return
    phrase = HTTPStatus(status).phrase if status in set(HTTPStatus) else ""
    said = f"HTTP {status} {phrase}".rstrip() + f", expected a file{_via(response)}"
    if status in _ANOTHER_TIME or status >= 500:
        raise _Broken(said, _retry_after(response))
    raise _Refused(said)


def _check_not_html(response: requests.Response, begin: bytes) -> None:
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    starts = begin[:1024].lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith(_HTML_STARTS)
    if not starts and kind not in ("text/html", "application/xhtml+xml"):
        return
    title = _TITLE.search(begin)
    text = html.unescape(title[1].decode("utf-8", "replace")) if title else ""
    named = f" titled {_line(text)!r}" if text else ""
    raise _Refused(f"received a web page{named}, expected a file{_via(response)}")


def _via(response: requests.Response) -> str:
    return f" (redirected to {_line(shown_url(response.url))})" if response.history else ""


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


def _retry_after(response: requests.Response) -> float | None:
    """Return seconds from a header of seconds or a date (RFC 9110, section 10.2.3)."""
    try:
        return urllib3.Retry().parse_retry_after(response.headers["Retry-After"])
    except (KeyError, ValueError, urllib3.exceptions.InvalidHeader):
        return None


def _cause(error: BaseException) -> BaseException:
    """Return the innermost error of an error of requests."""
    inner: BaseException | None = error
    while isinstance(inner, BaseException):
        error = inner
        inner = getattr(error, "reason", None) or (error.args[-1] if error.args else None)
    return error


def _reason(error: BaseException) -> str:
    """Return the innermost message, without the addresses of objects."""
    cause = _cause(error)
    return _ADDRESS.sub("", _line(str(cause))) or type(cause).__name__


def _amount(done: int, total: int | None) -> str:
    return f"{done:,} of {total:,} bytes" if total is not None else f"{done:,} bytes"


def _line(text: str) -> str:
    """Return untrusted text as one line of at most 200 characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:200]
