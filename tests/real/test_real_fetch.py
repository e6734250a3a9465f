"""From a misbehaving server to a verified dataset and a judged model, as a user would do it.

The files served have grb-cora's real graph and its published figures; only the features are noise.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
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


def run_pytest(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Pytest in a process, in the directory and the environment that `run` has prepared."""
    command = [sys.executable, "-m", "pytest", *arguments]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def row(shown: str, figure: str) -> list[str]:
    """Return the found and the published value of a figure in the output of `info`."""
    line = next(each for each in shown.splitlines() if each.startswith(f"{figure}  "))
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
            line = next(each for each in done.stderr.splitlines() if f"/{name}/" in each)
            assert reason in line
        again = run("fetch", "grb-cora", *sources)
        assert again.returncode == 0
        assert list(routes) == asked(server)
    listed = run("datasets").stdout
    line = next(each for each in listed.splitlines() if each.startswith("grb-cora"))
    assert line.endswith(f"in {tmp_path / 'home' / 'grb-cora'}, verified")
    assert server.url("/good/grb-cora.zip") in (tmp_path / "home" / LOCK_FILE).read_text()
    shown = run("info", "grb-cora").stdout
    assert row(shown, "average degree, medium") == ["2.96", "2.96"]
    assert "differs" not in shown


def test_files_that_changed_are_refused(
    tmp_path: Path, archives: dict[str, bytes], run: Command
) -> None:
    """By a second fetch, by info, and if a user's directory has another copy."""
    with serving(Answer(archives["grb-cora"])) as server:
        assert run("fetch", "grb-cora", f"--source={server.url()}").returncode == 0
    copy = tmp_path / "copy" / "grb-cora"
    shutil.copytree(tmp_path / "home" / "grb-cora", copy)
    with (copy / "labels.npz").open("ab") as stream:
        stream.write(b"\0")
    done = run("info", "grb-cora", f"--data={copy.parent}")
    assert done.returncode == 4
    assert f"{copy}: not the files that grb-cora was first used with" in done.stderr
    assert "labels.npz: expected sha256" in done.stderr


def test_all_sources_dead_is_one_message(run: Command) -> None:
    """The message has each source with its reason, and what to do."""
    with serving(HTML) as server:
        done = run("fetch", "grb-cora", f"--source={server.url()}")
    assert done.returncode == 1
    assert "1 source failed" in done.stderr
    assert "web page" in done.stderr
    assert "by hand" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_workers_of_pytest_download_once(archives: dict[str, bytes], run: Command) -> None:
    """`--grb-download` in the run itself; its worker, and who comes later, ask for nothing."""
    arguments = (
        "-q",
        "--grb-only",
        "--grb-model=grb_check.models:gcn",
        "--grb-dataset=grb-cora",
        "--grb-difficulty=easy",
        "--grb-attack=modification/rnd",
        "--grb-repeats=1",
        "--grb-max-drop=1",
        "--grb-min-clean=0",
    )
    refused = run_pytest(*arguments)
    assert refused.returncode == 4
    assert "--grb-download" in refused.stderr
    with serving(Answer(archives["grb-cora"])) as server:
        allowed = ("--grb-download", "-o", f"grb_sources={server.url('/{name}.zip')}")
        done = run_pytest(*arguments, "-n1", *allowed)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "1 passed" in done.stdout
        assert run("info", "grb-cora").returncode == 0
        assert asked(server) == ["/grb-cora.zip"]


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
