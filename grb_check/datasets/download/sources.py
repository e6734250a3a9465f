"""Download sources of datasets: the built-in list, or the user's."""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Sequence
from importlib import resources
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from grb_check.errors import UsageError

VARIABLE: Final = "GRB_CHECK_SOURCES"
_DEFAULT: Final = "default"
_PLACEHOLDER: Final = "{name}"
_FORMS: Final = (
    f"allowed are URL, NAME=URL (for that dataset only) and {_DEFAULT!r} (the built-in sources), "
    f"where URL begins with http:// or https:// and may contain {_PLACEHOLDER}"
)
# URLs may contain commas: a comma ends an entry only if another entry follows.
_BETWEEN: Final = re.compile(r"\s*,(?=\s|$|default\b|(?:[\w.-]+=)?https?://)\s*|\s+", re.IGNORECASE)
# A name has no ':' or '/', so that the '=' of a query (`?dl=1`) never ends a name.
_ENTRY: Final = re.compile(r"(?:(?P<name>[A-Za-z0-9._-]+)=)?(?P<url>https?://\S+)", re.IGNORECASE)


def urls_for(name: str, given: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the URLs to try for a dataset, in this order, each once.

    Args:
        name: of the dataset; it replaces `{name}` in a URL.
        given: the user's list of `URL`, `NAME=URL` (only for that dataset) and `default` (for the
            built-in sources). Without `default` the list replaces them; an empty list means
            `default`.

    Raises:
        UsageError: an entry has another form, or is for a dataset that is never downloaded.
    """
    check_sources(given)
    urls: list[str] = []
    for entry in given or (_DEFAULT,):
        if entry == _DEFAULT:
            urls += [url for url, datasets in _built_in() if name in datasets]
            continue
        only, url = _parts(entry)
        if only in (None, name):
            urls.append(url)
    return tuple(dict.fromkeys(url.replace(_PLACEHOLDER, name) for url in urls))


def hosts_of(name: str, given: Sequence[str] = ()) -> str:
    """Return the hosts of `urls_for`, for messages."""
    hosts = [urlsplit(url).hostname or url for url in urls_for(name, given)]
    return ", ".join(hosts) or "nowhere"


def named_sources(given: Sequence[str] | None = None) -> tuple[str, ...]:
    """Return a user's list, from texts of several entries separated by spaces or commas.

    Args:
        given: texts of a command line or ini file; None for the value of `$GRB_CHECK_SOURCES`.

    Raises:
        UsageError: an entry has another form.
    """
    texts = [os.environ.get(VARIABLE, "")] if given is None else given
    entries = tuple(entry for text in texts for entry in _BETWEEN.split(text) if entry)
    check_sources(entries)
    return entries


def check_sources(given: Sequence[str]) -> None:
    """Check the form of every entry of a user's list; see `urls_for`.

    Raises:
        UsageError: names the first invalid entry and the allowed forms.
    """
    for entry in given:
        if entry != _DEFAULT:
            _parts(entry)


def shown_url(url: str) -> str:
    """Return a URL without user name and password, for messages and files."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _parts(entry: str) -> tuple[str | None, str]:
    """Return the dataset, if any, and the URL of an entry other than `default`."""
    match = _ENTRY.fullmatch(entry)
    if match is None:
        raise UsageError(f"source {entry!r}: {_FORMS}")
    name, url = match["name"], match["url"]
    if name is not None and name not in _datasets():
        known = ", ".join(_datasets())
        raise UsageError(f"source {entry!r}: {name} is never downloaded; the datasets are {known}")
    if not _is_sound(url.replace(_PLACEHOLDER, "name")):
        raise UsageError(f"source {entry!r}: {url!r} is not a complete URL; {_FORMS}")
    return name, url


def _is_sound(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0 and not set("{}") & set(url)
    except ValueError:
        return False


@functools.cache
def _built_in() -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return each built-in URL with its datasets."""
    text = (
        resources.files("grb_check")
        .joinpath("datasets/paper_figures/sources.json")
        .read_text("utf-8")
    )
    return tuple((row["url"], tuple(row["datasets"])) for row in json.loads(text)["sources"])


def _datasets() -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for _, datasets in _built_in() for name in datasets))
