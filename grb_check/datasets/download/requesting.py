"""One HTTP request, with the errors of requests sorted into final ones and others, and retries."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import requests
import urllib3

Result = TypeVar("Result")

_ADDRESS: Final = re.compile(r"^(<[^>]*>|\w+\([^)]*\)): ")
_ANOTHER_TIME: Final = (408, 425, 429)


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


USUAL: Final = Retry()


class Refused(Exception):
    """A final failure."""


class Broken(Exception):
    """A failure after which to retry; `wait`: seconds that the server asks for."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


def send(
    session: requests.Session, method: str, url: str, retry: Retry, **arguments: Any
) -> requests.Response:
    """Return the response to one request, whatever its status.

    Args:
        session: which uses the environment's proxies.
        method: such as GET.
        url: http or https.
        retry: for its timeouts.
        arguments: of `requests.Session.request`.

    Raises:
        Refused: the request cannot be made at all.
        Broken: there was no answer, or half of one.
    """
    timeouts = (retry.connect_timeout, retry.read_timeout)
    try:
        return session.request(method, url, timeout=timeouts, **arguments)
    except requests.Timeout as error:
        raise Broken(f"no answer: {reason(error)}") from error
    except requests.exceptions.InvalidProxyURL as error:
        raise Refused(
            f"the proxy of the environment is not a URL: {printable_line(str(error))}"
        ) from error
    except requests.exceptions.ProxyError as error:
        raise Broken(f"no connection to the proxy: {reason(error)}") from error
    except (ValueError, requests.TooManyRedirects) as error:
        msg = f"the URL, or its redirection, cannot be used: {printable_line(str(error))}"
        raise Refused(msg) from error
    except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
        resolver = _cause(error).__cause__
        if isinstance(resolver, socket.gaierror) and resolver.errno != socket.EAI_AGAIN:
            raise Refused(f"no such host, or no network: {reason(error)}") from error
        raise Broken(f"no connection: {reason(error)}") from error
    except OSError as error:  # certificates that the environment names and that do not exist
        raise Refused(printable_line(str(error))) from error


def persist(run: Callable[[], Result], retry: Retry) -> Result:
    """Return what `run` returns, which is called again after each `Broken`.

    Raises:
        Refused: the failure is final.
        Broken: the last attempt failed too.
    """
    wait = retry.first_wait
    for left in reversed(range(retry.attempts)):
        try:
            return run()
        except Broken as error:
            if not left:
                tried = f" ({retry.attempts} attempts)" if retry.attempts > 1 else ""
                raise Broken(f"{error}{tried}") from error
            asked = error.wait
        retry.sleep(min(wait if asked is None else asked, retry.longest_wait))
        wait = min(2 * wait, retry.longest_wait)
    raise AssertionError  # there is at least one attempt


def is_temporary(status: int) -> bool:
    """Whether a request that was answered so may succeed later."""
    return status in _ANOTHER_TIME or status >= 500


def retry_after(response: requests.Response) -> float | None:
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


def reason(error: BaseException) -> str:
    """Return the innermost message, without the addresses of objects."""
    cause = _cause(error)
    return _ADDRESS.sub("", printable_line(str(cause))) or type(cause).__name__


def printable_line(text: str) -> str:
    """Return untrusted text as one line of at most 200 characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:200]
