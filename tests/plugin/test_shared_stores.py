"""Runs on several machines that share a store behind a URL."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from faulty_s3 import ENVIRONMENT, Server, serving

URL = "s3://bucket/runs"
BASE = (
    "--grb-only",
    "--grb-model=attacks:brittle",  # needs no training
    "--grb-min-clean=0",
    "--grb-dataset=./tiny",
    "--grb-difficulty=easy",
    "--grb-attack=injection/rnd",
    "--grb-repeats=1",
    "--grb-max-drop=1",
    "--grb-json=out.json",
    f"--grb-store={URL}",
)


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with serving() as server:
        for name, value in {**ENVIRONMENT, "AWS_ENDPOINT_URL": server.url}.items():
            monkeypatch.setenv(name, value)
        yield server


def run_on(
    project: pytest.Pytester, machine: str, url: str = URL
) -> tuple[str, bool, dict[str, int]]:
    """Run on a machine with its own cache; the output, and whether the store had the attack."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRB_CHECK_DATA", str(project.path / machine))
        result = project.runpytest(*BASE, f"--grb-store={url}")
    (case,) = json.loads((project.path / "out.json").read_text())["cases"]
    repeat = case["outcome"]["repeats"][0]
    return str(result.stdout), repeat["from_store"], result.parseoutcomes()


@pytest.mark.slow
def test_a_run_reads_what_another_machine_has_stored(project: pytest.Pytester, s3: Server) -> None:
    """With an empty cache; then from its own. A run adds nothing but its measurements."""
    shown, from_store, outcomes = run_on(project, "first")
    assert f"store: {URL} (command line)" in shown
    assert (from_store, outcomes) == (False, {"passed": 1})
    stored = set(s3.objects)
    assert stored
    s3.asked.clear()
    assert run_on(project, "second")[1:] == (True, {"passed": 1})
    assert {path.partition("?")[0] for method, path in s3.asked if method == "GET"} < stored
    assert set(s3.objects) == stored
    s3.asked.clear()
    assert run_on(project, "second")[1:] == (True, {"passed": 1})
    assert "GET" not in {method for method, _ in s3.asked}
    assert not (project.path / ".grb_check").exists()


@pytest.mark.slow
def test_a_run_passes_without_the_server_and_says_so_once(
    project: pytest.Pytester, s3: Server
) -> None:
    """Whatever is wrong with it."""
    s3.fault = lambda handler: not handler.error(500, "InternalError")
    shown, *found = run_on(project, "first")
    assert found == [False, {"passed": 1, "warnings": 1}]
    assert shown.count("the run continues without it") == 1
