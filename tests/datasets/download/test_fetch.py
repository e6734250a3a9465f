"""Fetching a dataset: from source to directory, once, whole or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from bad_server import Answer, serving, zipped
from urllib3 import Retry

from grb_check.datasets.download import fetch as fetch_module
from grb_check.datasets.download.fetch import TEMPORARY, Fetched, fetch
from grb_check.errors import DataError

FILES = ("adj.npz", "raw/edge.csv.gz")
ONCE = Retry(0)
THRICE = Retry(2, backoff_factor=0, status_forcelist=TEMPORARY, raise_on_status=False)
NAME = "grb-cora"


def content_of(name: str) -> dict[str, bytes]:
    return {file: f"{name} {file}".encode() + os.urandom(50_000) for file in FILES}


def archive_of(name: str) -> bytes:
    return zipped({f"{name}/{file}": data for file, data in content_of(name).items()})


CORA = Answer(archive_of(NAME))
BOTH = Answer(
    zipped(
        {
            f"all/{name}/{file}": data
            for name in (NAME, "grb-citeseer")
            for file, data in content_of(name).items()
        }
    )
)


@dataclass
class Check:
    """Accepts the files of one dataset, and remembers where it was called."""

    name: str = NAME
    folders: list[Path] = field(default_factory=list)

    def __call__(self, folder: Path) -> None:
        self.folders.append(folder)
        begin = (folder / "adj.npz").read_bytes()
        if not begin.startswith(f"{self.name} ".encode()):
            raise DataError(f"{folder}: 12 nodes,\n  published are 2680")


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loopback is reached directly, whatever the environment says."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "not" / "there"


def get(
    home: Path, urls: Sequence[str], name: str = NAME, retry: Retry = ONCE, **rest: Any
) -> Fetched:
    return fetch(name, home, urls=urls, files=FILES, check=Check(name), retry=retry, **rest)


def refusal(home: Path, url: str, retry: Retry = ONCE, **rest: Any) -> str:
    """The reason why a source fails; no file of it is left."""
    with pytest.raises(DataError) as caught:
        get(home, [url], retry=retry, **rest)
    assert kept(home) == []
    assert visible(home) == set()
    return str(caught.value).splitlines()[1]


def is_complete(folder: Path) -> bool:
    return all((folder / file).is_file() for file in FILES)


def kept(home: Path) -> list[Path]:
    return sorted((home / ".downloads").iterdir())


def visible(home: Path) -> Iterable[str]:
    """Return the content of the directory besides locks and downloads."""
    return {path.name for path in home.iterdir()} - {".locks", ".downloads"}


def test_the_first_good_source_gives_the_folder(home: Path) -> None:
    """The directory has the files and nothing else; the archive is removed."""
    with serving(CORA) as server:
        url = server.url(f"/{NAME}.zip")
        assert get(home, [url, "http://never.invalid/"]) == Fetched(home / NAME, url)
    files = [path for path in (home / NAME).rglob("*") if path.is_file()]
    assert {home / NAME / file for file in FILES} == set(files)
    assert visible(home) == {NAME}
    assert kept(home) == []


def test_files_are_checked_before_they_are_there(home: Path) -> None:
    """The check is given another directory."""
    check = Check()
    with serving(CORA) as server:
        fetch(NAME, home, urls=[server.url()], files=FILES, check=check)
    assert len(check.folders) == 1
    assert check.folders[0] != home / NAME


def test_a_folder_that_is_there_is_taken(home: Path) -> None:
    """Without a request, a check, or a file written: the directory may be read-only."""
    for file in FILES:
        (home / NAME / file).parent.mkdir(parents=True, exist_ok=True)
        (home / NAME / file).write_bytes(b"")
    with serving(CORA) as server:
        assert get(home, [server.url()]) == Fetched(home / NAME, None)
    assert server.requests == []
    assert [home / NAME] == list(home.iterdir())


def test_a_shared_archive_with_a_wrong_dataset_is_asked_for_again(home: Path) -> None:
    """It may have been mended; meanwhile it is as good as it was for the others."""
    with serving(BOTH) as server:

        def refuse(folder: Path) -> None:
            raise DataError("not this one")

        for _ in range(2):
            with pytest.raises(DataError, match="not this one"):
                fetch(NAME, home, urls=[server.url("/all")], files=FILES, check=refuse)
        assert is_complete(get(home, [server.url("/all")], "grb-citeseer").path)
    assert len(server.requests) == 2


def test_a_kept_archive_that_is_damaged_is_fetched_again(home: Path) -> None:
    """So is one without the dataset: there may be a new one."""
    with serving(BOTH) as server:
        get(home, [server.url("/all")])
        (archive,) = kept(home)
        archive.write_bytes(BOTH.body[:-200])
        assert is_complete(get(home, [server.url("/all")], "grb-citeseer").path)
    assert len(server.requests) == 2
    assert archive.read_bytes() == BOTH.body


def test_an_empty_directory_is_replaced(home: Path) -> None:
    """Some make it by hand before they look for files."""
    (home / NAME).mkdir(parents=True)
    with serving(CORA) as server:
        assert is_complete(get(home, [server.url()]).path)


def test_what_a_user_put_there_is_not_touched(home: Path) -> None:
    """A directory with some of the files is an error before any request."""
    (home / NAME).mkdir(parents=True)
    (home / NAME / "adj.npz").write_bytes(b"mine")
    with serving(CORA) as server:
        with pytest.raises(DataError, match=r"grb-cora lacks raw/edge\.csv\.gz; add what is"):
            get(home, [server.url()])
        (home / "grb-citeseer").write_bytes(b"mine")
        with pytest.raises(DataError, match="grb-citeseer is not a directory"):
            get(home, [server.url()], "grb-citeseer")
    assert server.requests == []
    assert (home / NAME / "adj.npz").read_bytes() == b"mine"


def test_ctrl_c_leaves_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory left by a killed run is removed by the next call."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    url = f"/{NAME}.zip"
    with serving(CORA) as server:
        with monkeypatch.context() as patched:
            patched.setattr(fetch_module, "_is_page", stop)
            with pytest.raises(KeyboardInterrupt):
                get(home, [server.url(url)])
        assert visible(home) == set()
        assert kept(home) == []
        (home / f".{NAME}.unpacked").mkdir()
        (home / f".{NAME}.unpacked" / "adj.npz").write_bytes(b"of a killed run")
        assert is_complete(get(home, [server.url(url)]).path)
    assert visible(home) == {NAME}


@pytest.mark.parametrize(
    "answer",
    [CORA, replace(CORA, length=False), replace(CORA, chunked=True)],
    ids=["length", "no length", "chunked"],
)
def test_a_file_comes_whole(answer: Answer, home: Path) -> None:
    """Whether or not its length is announced."""
    with serving(answer) as server:
        assert is_complete(get(home, [server.url()]).path)
    assert server.requests[0].headers["Accept-Encoding"] == "identity"


@pytest.mark.parametrize(
    ("answer", "requests", "said"),
    [
        (Answer(b"", 404), 1, "HTTP 404 Not Found, expected a file"),
        (Answer(b"", 503), 3, "HTTP 503 Service Unavailable, expected a file"),
        (replace(CORA, cut=20_000), 3, "no file came: IncompleteRead"),
        (Answer(b"<!DOCTYPE html><title>Gone</title>"), 1, "received a web page"),
        (replace(CORA, headers={"Content-Type": "text/html; charset=utf-8"}), 1, "a web page"),
        (Answer(b"neither"), 1, "no zip or tar archive"),
        (BOTH, 1, "published are 2680"),
    ],
    ids=["404", "503", "cut", "page", "type", "no archive", "other"],
)
def test_a_source_that_fails_is_named_with_its_reason(
    answer: Answer, requests: int, said: str, home: Path
) -> None:
    """What may pass is tried again; the next source is asked after that."""
    with serving(answer) as server:
        url = server.url(f"/{NAME}.zip")
        if answer is BOTH:
            with pytest.raises(DataError, match=said):
                fetch(NAME, home, urls=[url], files=FILES, check=Check("other"), retry=THRICE)
        else:
            assert said in refusal(home, url, THRICE)
        assert len(server.requests) == requests
    with serving(answer) as bad, serving(CORA) as good:
        urls = [bad.url(f"/{NAME}.zip"), good.url()]
        result = get(home, urls) if answer is not BOTH else None
    assert result is None or (result.url, len(result.failures)) == (urls[1], 1)


@pytest.mark.parametrize("announced", [True, False])
def test_a_file_beyond_the_limit_is_refused(announced: bool, home: Path) -> None:
    """At once if the server says how long it is, otherwise when it gets there."""
    with serving(replace(CORA, length=announced)) as server:
        said = refusal(home, server.url(f"/{NAME}.zip"), THRICE, largest=50_000)
        assert "the limit is 50,000" in said
        assert len(server.requests) == 1
        get(home, [server.url()], largest=len(CORA.body))


def test_a_server_that_says_nothing_is_left(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not hold a run up."""
    monkeypatch.setattr(fetch_module, "TIMEOUTS", (10.0, 0.1))
    with serving(replace(CORA, pause=5.0)) as server:
        assert "timed out" in refusal(home, server.url(f"/{NAME}.zip"))


def test_a_proxy_of_the_environment_is_used(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked with the whole URL."""
    url = f"http://nowhere.invalid/{NAME}.zip"
    with serving(CORA) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url(""))
        assert is_complete(get(home, [url]).path)
        assert [url] == [request.path for request in proxy.requests]
    other = home.with_name("other")
    for address, said in (("http://", "proxy"), (proxy.url(""), "refused")):  # which is closed
        monkeypatch.setenv("HTTP_PROXY", address)
        assert said in refusal(other, url)


def test_credentials_are_sent_and_not_shown(home: Path) -> None:
    """Neither in messages nor in names of files."""
    with serving(replace(CORA, cut=1000)) as server:
        url = server.url(f"/{NAME}.zip").replace("://", "://me:secret@")
        assert "secret" not in refusal(home, url)
        assert server.requests[0].headers["Authorization"].startswith("Basic ")


WORKER = """
import sys
from pathlib import Path
from grb_check.datasets.download.fetch import fetch
name, home, url = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
got = fetch(name, Path(home), urls=[url], files={files}, check=lambda folder: None)
print(got.url)
"""


def run_together(home: Path, url: str, names: Sequence[str]) -> list[str]:
    """The URLs that processes name which begin at the same moment."""
    code = WORKER.format(files=FILES)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, name, str(home), url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]
    for process in processes:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
    said = [process.communicate()[0].strip() for process in processes]
    assert [0] * len(names) == [process.returncode for process in processes]
    return said


def test_several_processes_fetch_once(home: Path) -> None:
    """One gets the files from the source, the others find them there."""
    with serving(replace(CORA, pause=0.1)) as server:
        url = server.url(f"/{NAME}.zip")
        assert sorted(["None", "None", url]) == sorted(run_together(home, url, [NAME] * 3))
    assert len(server.requests) == 1
    assert is_complete(home / NAME)
