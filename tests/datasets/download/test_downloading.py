"""Tests of downloads: the real client against a server that misbehaves."""

from __future__ import annotations

import random
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from bad_server import Answer, Server, serving

from grb_check.datasets.download.downloading import DownloadError, download
from grb_check.datasets.download.requesting import Retry

BODY = random.Random(0).randbytes(300_000)
OTHER = random.Random(1).randbytes(300_000)
WHOLE = Answer(BODY, etag='"one"')
CUT = replace(WHOLE, cut=200_000)
NO_TIME = Retry(sleep=lambda seconds: None)
ONCE = replace(NO_TIME, attempts=1)


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loopback is reached directly, whatever the environment says."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "file"


def part_of(target: Path) -> Path:
    return target.with_name("file.part")


def refusal(server: Server, target: Path, retry: Retry = NO_TIME) -> str:
    """The reason why a download fails, which is one line, and leaves no file."""
    url = server.url()
    with pytest.raises(DownloadError) as caught:
        download(url, target, retry=retry)
    assert not target.exists()
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{url}: ")
    return str(caught.value).removeprefix(f"{url}: ")


def interrupted(target: Path, answer: Answer = CUT) -> None:
    """Leave the files of an interrupted download."""
    with serving(answer) as server:
        refusal(server, target, ONCE)
        notes = part_of(target).with_name("file.part.json")
        if notes.exists():  # the next server has another port
            text = notes.read_text().replace(server.url(), "URL")
            notes.write_text(text)


def resumed(target: Path, server: Server) -> None:
    """Resume the download that `interrupted` left, as if it came from this server."""
    notes = part_of(target).with_name("file.part.json")
    if notes.exists():
        notes.write_bytes(notes.read_bytes().replace(b"URL", server.url().encode()))
    download(server.url(), target, retry=ONCE)


@pytest.mark.parametrize(
    "answer",
    [
        WHOLE,
        replace(WHOLE, length=False),
        replace(WHOLE, chunked=True),
        Answer(BODY),
        Answer(b""),
        replace(WHOLE, ranges=False),
    ],
)
def test_a_file_comes_whole(answer: Answer, target: Path) -> None:
    """Whether or not its length is announced; nothing is left beside it."""
    with serving(answer) as server:
        download(server.url(), target, retry=ONCE)
    assert target.read_bytes() == answer.body
    assert [target] == list(target.parent.iterdir())
    assert server.requests[0].headers["Accept-Encoding"] == "identity"


def test_a_later_call_continues(target: Path) -> None:
    """Only the rest is requested, on condition that the file is the same."""
    interrupted(target)
    had = part_of(target).stat().st_size
    assert 0 < had <= 200_000
    with serving(WHOLE) as server:
        resumed(target, server)
    assert server.ranges() == [f"bytes={had}-"]
    assert server.requests[0].headers["If-Range"] == '"one"'
    assert target.read_bytes() == BODY
    assert [target] == list(target.parent.iterdir())


@pytest.mark.parametrize(
    ("answer", "requests"),
    [
        (replace(WHOLE, ranges=False), 1),
        (Answer(OTHER, etag='"two"'), 1),
        (Answer(OTHER, etag='"two"', heeds_if_range=False), 2),
        (Answer(OTHER[:250_000], etag='"one"'), 2),
        (Answer(OTHER[:100], etag='"one"'), 2),
        (replace(WHOLE, content_range="bytes 0-299999/300000"), 2),
        (replace(WHOLE, content_range="rubbish"), 2),
        (replace(WHOLE, headers={"Content-Encoding": "x"}), 2),
    ],
    ids=["200", "new tag", "ignored", "other length", "416", "other range", "no range", "encoded"],
)
def test_what_cannot_be_continued_is_begun_again(
    answer: Answer, requests: int, target: Path
) -> None:
    """Never is a file put together from two."""
    interrupted(target)
    with serving(answer) as server:
        resumed(target, server)
    assert server.ranges()[0] is not None
    assert [None] * (requests - 1) == server.ranges()[1:]
    assert target.read_bytes() == answer.body


def waits(answer: Answer, target: Path, **settings: float) -> list[float]:
    """The waits between five attempts that get the same answer."""
    slept: list[float] = []
    with serving(answer) as server:
        refusal(server, target, replace(NO_TIME, attempts=5, sleep=slept.append, **settings))
    return slept


def test_waits_are_doubled_up_to_the_longest(target: Path) -> None:
    """Seconds; none after the last attempt."""
    assert waits(Answer(b"", 500), target, longest_wait=5.0) == [1.0, 2.0, 4.0, 5.0]


def test_more_than_a_range_announced_is_not_kept(target: Path) -> None:
    """A range of wrong bytes makes the partial file invalid."""
    interrupted(target)
    had = part_of(target).stat().st_size
    right = f"bytes {had}-299999/300000"
    too_much = Answer(BODY + bytes(1000), etag='"one"', length=False, content_range=right)
    with serving(too_much) as server, pytest.raises(DownloadError, match="301,000 of 300,000"):
        resumed(target, server)
    assert list(target.parent.iterdir()) == []


@pytest.mark.parametrize("announced", [True, False])
def test_a_file_beyond_the_limit_is_refused(announced: bool, target: Path) -> None:
    """At once if the server says how long it is, otherwise when it gets there; nothing is left."""
    with serving(replace(WHOLE, length=announced)) as server:
        with pytest.raises(DownloadError, match=r"too large: .* the limit is 100,000"):
            download(server.url(), target, retry=NO_TIME, largest=100_000)
        assert len(server.requests) == 1
        assert list(target.parent.iterdir()) == []
        download(server.url(), target, largest=len(BODY))


def test_a_server_that_says_nothing_is_left(target: Path) -> None:
    """Neither headers without a body nor a connection without headers hold a run up."""
    impatient = replace(NO_TIME, attempts=2, read_timeout=0.1)
    with serving(replace(WHOLE, pause=5.0)) as server:
        assert "timed out" in refusal(server, target, impatient)
        assert len(server.requests) == 2
    with socket.create_server(("127.0.0.1", 0)) as mute:
        silent = Server(mute.getsockname()[1], [])
        assert "no answer: Read timed out" in refusal(silent, target, impatient)


def test_a_proxy_of_the_environment_is_used(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked with the whole URL."""
    url = "http://nowhere.invalid/file.zip"
    with serving(WHOLE) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url(""))
        download(url, target, retry=ONCE)
        assert [url] == [request.path for request in proxy.requests]
    monkeypatch.setenv("HTTP_PROXY", "http://")
    with pytest.raises(DownloadError, match="proxy"):
        download(url, target.with_name("other"), retry=NO_TIME)
    monkeypatch.setenv("HTTP_PROXY", proxy.url(""))  # which is closed
    with pytest.raises(DownloadError, match=r"no connection to the proxy: .*refused"):
        download(url, target.with_name("other"), retry=ONCE)


def test_credentials_are_sent_and_not_shown(target: Path) -> None:
    """Not in messages, and not in the notes beside the part."""
    with serving(CUT) as server:
        url = server.url().replace("://", "://me:secret@")
        with pytest.raises(DownloadError) as caught:
            download(url, target, retry=ONCE)
        assert server.requests[0].headers["Authorization"].startswith("Basic ")
    assert "secret" not in str(caught.value)
    assert "secret" not in part_of(target).with_name("file.part.json").read_text()


def test_no_attempts_are_refused() -> None:
    """A download that tries nothing would look like one that succeeded."""
    with pytest.raises(ValueError, match="attempts is 0"):
        Retry(attempts=0)
