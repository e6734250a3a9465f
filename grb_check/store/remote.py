"""Objects of a store behind a URL of fsspec, which may fail at any time without failing a run.

Imports fsspec, and what the URL's protocol needs, at the first access.
"""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from functools import cached_property
from threading import Thread
from typing import Any, Final, TypeVar

from grb_check.errors import StoreWarning
from grb_check.files.text import fit_line

Result = TypeVar("Result")

_S3: Final = ("s3", "s3a")
# They have no directories: there is none to make, and making one would make a missing bucket.
_OBJECT_STORES: Final = (*_S3, "gs", "gcs", "abfs", "abfss", "az")
# Of botocore, whose own retries take 10 s to find that nobody listens.
_S3_CONFIG: Final = {"retries": {"total_max_attempts": 2, "mode": "standard"}}
_PROMPT: Final = 1.0  # seconds of each request that do not count as waiting
_LONGEST: Final = 300  # characters of a message from outside


class Remote:
    """Objects below a URL.

    Nothing raises. The first trouble causes a `StoreWarning`, further ones none. After a request
    that failed or took too long nothing is asked any more, so that a server that hangs costs a run
    seconds. A missing permission to read does not end reading, since S3 also answers 403 for a
    missing object if it may not be listed; a missing permission to write ends writing.

    Args:
        url: of the directory.
        read_only: whether nothing is written or removed.
        deadline: seconds that one request may take.
        patience: seconds that all requests may take, beyond the first second of each.
    """

    def __init__(
        self, url: str, *, read_only: bool = False, deadline: float = 10.0, patience: float = 20.0
    ) -> None:
        self.url = url
        self._reads = True
        self._writes = not read_only
        self._deadline = deadline
        self._patience = patience
        self._warned = False

    def read(self, name: str) -> bytes | None:
        """Return the content of an object; None if it is missing or cannot be read."""
        if not self._reads:
            return None
        with self._bounded(f"reading {name}"):
            try:
                return bytes(self._call(lambda files, root: files.cat_file(f"{root}/{name}")))
            except FileNotFoundError as error:
                if _lacks_bucket(error):
                    raise
            except Exception as error:  # that of HTTP is no PermissionError
                if not isinstance(error, PermissionError) and getattr(error, "status", 0) != 403:
                    raise
                self._warn(f"reading {name}: {_line(error)}; what cannot be read is recomputed")
        return None

    def write(self, name: str, content: bytes) -> None:
        """Write an object, in one step where the file system has one."""
        if not self._writes:
            return
        with self._bounded(f"writing {name}"):
            try:
                self._call(lambda files, root: self._write(files, f"{root}/{name}", content))
            except (PermissionError, NotImplementedError) as error:
                self._writes = False
                self._warn(
                    f"writing {name}: {_line(error)}; nothing is added to it. If it is to be read "
                    f"only, add ?mode=read to its URL"
                )

    def discard(self, name: str, reason: str) -> None:
        """Remove an object that cannot be used; it stays if nothing is written."""
        if not self._writes:
            self._warn(f"{name}: {reason}; ignored, it is recomputed")
            return
        self._warn(f"{name}: {reason}; discarded, it will be recomputed")
        with self._bounded(f"removing {name}"), suppress(FileNotFoundError, PermissionError):
            self._call(lambda files, root: files.rm_file(f"{root}/{name}"))

    def _warn(self, message: str) -> None:
        if not self._warned:
            self._warned = True
            text = f"the store {self.url}: {message}; its further errors are not reported"
            warnings.warn(fit_line(text), StoreWarning, stacklevel=3)

    @contextmanager
    def _bounded(self, what: str) -> Iterator[None]:
        """Make a failure, or the end of the patience, the last request."""
        try:
            yield
            if self._patience <= 0:
                raise TimeoutError("its answers are too slow")
        except StoreWarning:  # made an error by the user
            raise
        except Exception as error:  # of any file system, library and way to find credentials
            self._reads = self._writes = False
            self._warn(f"{what}: {_line(error)}; the run continues without it")

    def _call(self, request: Callable[[Any, str], Result]) -> Result:
        """Return the result of a request, which is given the file system and its path of the URL.

        It runs in a thread that is left behind at the deadline, since the timeouts of no file
        system cover an answer that arrives byte by byte.
        """
        from fsspec import get_filesystem_class

        get_filesystem_class(self._protocol)  # imports it; that is no waiting for a server
        answer: Future[Result] = Future()

        def work() -> None:
            try:
                answer.set_result(request(*self._root))
            except BaseException as error:
                answer.set_exception(error)

        Thread(target=work, name="grb_check store", daemon=True).start()
        limit = min(self._deadline, self._patience + _PROMPT)
        began = time.monotonic()
        if not wait([answer], limit).done:
            raise TimeoutError(f"no answer within {limit:g} s")
        self._patience -= max(0.0, time.monotonic() - began - _PROMPT)
        return answer.result()

    def _write(self, files: Any, path: str, content: bytes) -> None:
        try:
            files.pipe_file(path, content)
        except FileNotFoundError:
            if self._protocol in _OBJECT_STORES:
                raise
            files.makedirs(path.rpartition("/")[0], exist_ok=True)
            files.pipe_file(path, content)

    @property
    def _protocol(self) -> str:
        return self.url.partition("://")[0]

    @cached_property
    def _root(self) -> tuple[Any, str]:
        from fsspec.config import conf
        from fsspec.core import url_to_fs

        options: dict[str, Any] = {"skip_instance_cache": True}  # credentials may have changed
        if self._protocol in _S3:
            given = conf.get(self._protocol, {}).get("config_kwargs", {})
            # With more, s3fs asks for the size first, and lists the directory if there is none.
            options |= {"max_concurrency": 1, "config_kwargs": {**_S3_CONFIG, **given}}
        files, root = url_to_fs(self.url, **options)
        if self._protocol in _S3:
            files.retries = 2  # of s3fs itself, which multiply with those of botocore
        return files, root.rstrip("/")


def _lacks_bucket(error: FileNotFoundError) -> bool:
    """Whether S3 has no such bucket, rather than no such object."""
    answer = getattr(error.__cause__, "response", None)
    return isinstance(answer, dict) and answer.get("Error", {}).get("Code") == "NoSuchBucket"


def _line(error: BaseException) -> str:
    text = re.sub(r"(\w+://[^\s?]+)\?\S+", r"\1?...", " ".join(str(error).split()))
    return f"{type(error).__name__}: {text[:_LONGEST]}"
