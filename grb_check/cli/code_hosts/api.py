"""Requests to the JSON API of a code host, with a token that no message shows."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, TypeVar
from urllib.parse import urlencode, urlsplit

import msgspec
import requests
from requests.auth import AuthBase

from grb_check import __version__
from grb_check.datasets.download.requesting import (
    USUAL,
    Broken,
    Refused,
    Retry,
    is_temporary,
    printable_line,
    retry_after,
    send,
)
from grb_check.datasets.download.sources import shown_url
from grb_check.errors import UsageError

Content = TypeVar("Content")

MOST_PAGES: Final = 300
NO_QUERY: Final[Mapping[str, str]] = MappingProxyType({})
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


class Denied(Refused):
    """The token is not valid, or may not do what was asked."""


class _Bearer(AuthBase):
    """The token as `Authorization`, which requests removes when it is redirected to another host.

    Given as `auth`, it also keeps requests from sending a password of ~/.netrc instead.
    """

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request


@dataclass(frozen=True)
class Api:
    """The API of a code host.

    Attributes:
        url: of its root, http or https.
        token: of printable ASCII characters.
        host: name of the service, for messages.
        headers: of each request.
        retry: for its timeouts.

    Raises:
        UsageError: the URL is not one.
        Denied: the token has characters that no token has.
    """

    url: str
    token: str = field(repr=False)
    host: str
    headers: dict[str, str] = field(default_factory=dict)
    retry: Retry = USUAL

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(
                f"the URL of {self.host}'s API is {shown_url(self.url)!r}; it has to begin with "
                "http:// or https:// and a host: see the environment of the CI job"
            )
        if not _TOKEN.fullmatch(self.token):
            raise Denied(
                f"the token for {self.host} has spaces or characters that no token has; set the "
                "variable to the token alone"
            )

    def pages(
        self, path: str, kind: type[list[Content]], query: Mapping[str, str] = NO_QUERY
    ) -> Iterator[Content]:
        """Yield the entries of a list, page by page.

        Args:
            path: below the root.
            kind: of a page.
            query: of the path.
        """
        for number in range(1, MOST_PAGES + 1):
            paged = {**query, "per_page": "100", "page": str(number)}
            response = self.request("GET", f"{path}?{urlencode(paged)}")
            yield from decoded(response, kind)
            if "next" not in response.links and not response.headers.get("X-Next-Page"):
                return

    def request(self, method: str, path: str, body: Any = None) -> requests.Response:
        """Return the response to a request that succeeded.

        Raises:
            Broken: no answer, or one that may be another one later.
            Denied: 401, 403 or 404.
            Refused: another failure.
        """
        headers = {"User-Agent": f"grb_check/{__version__}", **self.headers}
        with requests.Session() as session:
            session.auth = _Bearer(self.token)
            url = f"{self.url.rstrip('/')}{path}"
            try:
                response = send(session, method, url, self.retry, headers=headers, json=body)
            except Refused as error:  # no such host: the network may be back later
                raise Broken(self._without_token(f"{self.host}: {error}")) from None
            except Broken as error:
                raise Broken(self._without_token(f"{self.host}: {error}")) from None
        self._check(response, method)
        return response

    def _check(self, response: requests.Response, method: str) -> None:
        status = response.status_code
        if status == (201 if method == "POST" else 200):
            return
        said = self._without_token(f"{self.host} answered HTTP {status}{_message(response)}")
        limited = status == 403 and (
            "Retry-After" in response.headers
            or response.headers.get("X-RateLimit-Remaining") == "0"
            or "rate limit" in said.lower()  # GitHub's secondary one may come without headers
        )
        if limited or is_temporary(status) or status < 400:
            raise Broken(said, _wait(response))
        raise (Denied if status in (401, 403, 404) else Refused)(said)

    def _without_token(self, text: str) -> str:
        return text.replace(self.token, "***")


def is_readable_on_the_way(url: str) -> bool:
    """Whether a token for an API leaves this machine without encryption."""
    parts = urlsplit(url)
    return parts.scheme == "http" and parts.hostname not in _LOOPBACK


def decoded(response: requests.Response, kind: type[Content]) -> Content:
    """Return the content of a response; fields that `kind` lacks are ignored.

    Raises:
        Broken: it is something else, such as the page of a proxy, or cut short.
    """
    try:
        return msgspec.json.decode(response.content, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        text = response.headers.get("Content-Type", "without a type").partition(";")[0]
        shown = printable_line(text)
        raise Broken(f"the answer ({shown}) is not what the API documents") from None


def _message(response: requests.Response) -> str:
    """Return `: text` if the service gave a reason."""
    try:
        found = msgspec.json.decode(response.content)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return ""
    message = found.get("message") if isinstance(found, dict) else None
    return f": {printable_line(message)}" if isinstance(message, str) else ""


def _wait(response: requests.Response) -> float | None:
    """Return the seconds that a service asks for: `Retry-After`, or when its limit is lifted."""
    reset = response.headers.get("X-RateLimit-Reset", "")
    asked = retry_after(response)
    if asked is None and response.headers.get("X-RateLimit-Remaining") == "0" and reset.isdecimal():
        return max(0.0, float(reset[:15]) - time.time())
    return asked
