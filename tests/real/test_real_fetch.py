"""From a misbehaving server to a verified dataset and a judged model, as a user would do it.

The files served have grb-cora's real graph and its published figures; only the features are noise.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from bad_server import Answer, Server, serving
from grb_stand_ins import make, zipped

from grb_check.__main__ import main
from grb_check.datasets.lock import LOCK_FILE

pytestmark = pytest.mark.real

Command = Callable[..., "subprocess.CompletedProcess[str]"]

HTML = Answer(b"<!doctype html><title>Link expired</title>", headers={"Content-Type": "text/html"})


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory, real_data: Path) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("stand-ins")
    return {
        name: zipped(make(name, real_data, folder / name), name)
        for name in ("grb-cora", "grb-citeseer")
    }


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """`python -m grb_check` in this process, with a data directory of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRB_CHECK_DATA", str(tmp_path / "home"))
    monkeypatch.delenv("GRB_CHECK_SOURCES", raising=False)

    def command(*arguments: str) -> subprocess.CompletedProcess[str]:
        capsys.readouterr()
        code = main(arguments)
        return subprocess.CompletedProcess(arguments, code, *capsys.readouterr())

    return command


def row(shown: str, figure: str) -> list[str]:
    """Return the found and the published value of a figure in the output of `info`."""
    line = next(text for text in shown.splitlines() if text.startswith(f"{figure}  "))
    return line.removeprefix(figure).split()


def asked(server: Server) -> list[str]:
    return [request.path for request in server.requests]


def test_one_command_gives_a_verified_dataset(
    tmp_path: Path, archives: dict[str, bytes], run: Command
) -> None:
    """Dead and wrong sources are named and skipped; the download is compared with Tables 2 and 4.

    The order: not found, an expired link's web page, half an archive, another dataset, the right
    one.
    """
    good, other = archives["grb-cora"], archives["grb-citeseer"]
    routes = {
        "/404/grb-cora.zip": Answer(status=404),
        "/html/grb-cora.zip": HTML,
        "/half/grb-cora.zip": Answer(good[: len(good) // 2]),
        "/other/grb-cora.zip": Answer(other),
        "/good/grb-cora.zip": Answer(good),
    }
    with serving(Answer(status=500), routes=routes) as server:
        names = ("404", "html", "half", "other", "good")
        sources = [f"--source={server.url(f'/{name}/{{name}}.zip')}" for name in names]
        done = run("fetch", "grb-cora", *sources)
        assert done.returncode == 0, done.stderr
        assert "grb-cora: 2,680 nodes, 5,148 edges, as published" in done.stdout
        assert list(routes) == asked(server)
        for name, reason in {
            "404": "404",
            "html": "web page",
            "half": "archive",
            "other": "not the grb-cora that is published: nodes: expected 2,680, found 3,191",
        }.items():
            line = next(text for text in done.stderr.splitlines() if f"/{name}/" in text)
            assert reason in line
        again = run("fetch", "grb-cora", *sources)
        assert again.returncode == 0
        assert list(routes) == asked(server)
    listed = run("datasets").stdout
    line = next(text for text in listed.splitlines() if text.startswith("grb-cora"))
    assert line.endswith(f"in {tmp_path / 'home' / 'grb-cora'}, verified")
    assert server.url("/good/grb-cora.zip") in (tmp_path / "home" / LOCK_FILE).read_text()
    shown = run("info", "grb-cora").stdout
    assert row(shown, "average degree, medium") == ["2.96", "2.96"]
    assert "differs" not in shown


def test_copied_zip_needs_no_network(
    tmp_path: Path, archives: dict[str, bytes], run: Command
) -> None:
    """A copied archive in a data directory, or given by its path."""
    folder = tmp_path / "from-a-colleague"
    folder.mkdir()
    (folder / "grb-citeseer.zip").write_bytes(archives["grb-citeseer"])
    for arguments in (
        ("grb-citeseer", f"--data={folder}"),
        (str(folder / "grb-citeseer.zip"),),
    ):
        done = run("info", *arguments)
        assert done.returncode == 0, done.stderr
        assert row(done.stdout, "nodes") == ["3,191", "3,191"]
