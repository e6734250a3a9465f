"""The action of GitHub: its form, and its steps run here."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ci_steps import (
    ACTION,
    ONLY_RECORD,
    action,
    calls,
    run_action,
)
from tiny import write_dataset

from grb_check.reports.record_file import read

MODEL = """
import torch
import grb_check


class Net(torch.nn.Module):
    def __init__(self, num_features, num_classes, width):
        super().__init__()
        self.linear = torch.nn.Linear(num_features, num_classes)

    def forward(self, x, edge_index):
        return self.linear(x)


def build(num_features, num_classes, width=4):
    return grb_check.Trained(Net(num_features, num_classes, width).eval())
"""
INPUTS = {
    "model": "net=own:build",
    "model-args": "width=8",
    "datasets": "./tiny",
    "install": "-e . -r *.txt",
    "args": "--grb-repeats=1 --grb-attack=rnd --grb-difficulty=easy --grb-max-drop=1 "
    '-k "easy and not full"',
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a model and a dataset, and nothing configured."""
    for name in ("PYTEST_ADDOPTS", "GITHUB_ACTIONS", "GRB_CHECK_STORE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "own.py").write_text(MODEL)
    (tmp_path / "a.txt").touch()
    write_dataset(tmp_path / "tiny")
    return tmp_path


def test_every_input_is_described_optional_and_used() -> None:
    """Each has a default, and a step that reads it."""
    inputs, body = action()["inputs"], str(action()["runs"])
    assert set(re.findall(r"inputs\.([\w-]+)", body)) == set(inputs)
    assert all(spec["description"].endswith(".") for spec in inputs.values())
    assert all("default" in spec for spec in inputs.values())


def test_inputs_reach_the_shell_as_variables_alone() -> None:
    """An expression in a script would be a part of the script, whatever it holds."""
    for step in action()["runs"]["steps"]:
        assert "${{" not in step.get("run", "")
        assert step.get("shell", "bash") == "bash"


def test_the_action_follows_its_schema() -> None:
    """That of schemastore.org, which check-jsonschema carries."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema"]
    done = subprocess.run(
        [*command, "vendor.github-actions", str(ACTION)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


REPORTS = {"junit.xml", "robustness.html", "robustness.md", "run.json"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("floor", "code", "more", "files", "artifact"),
    [
        ("0", 0, {"shard": "1/1"}, REPORTS, "robustness-1-of-1"),
        ("1", 1, {}, REPORTS, "robustness"),
    ],
)
def test_the_action_passes_and_fails_as_the_gate(
    project: Path, floor: str, code: int, more: dict[str, str], files: set[str], artifact: str
) -> None:
    """With the reports and the artifact's name in both cases."""
    args = f"{INPUTS['args']} --grb-min-clean={floor}"
    assert run_action(project, {**INPUTS, **more, "args": args}) == code
    assert {path.name for path in (project / "grb-report").iterdir()} == files
    (model,) = read(project / "grb-report" / "run.json").settings.models
    assert (model.label, model.args) == ("net", "{'width': 8}")
    assert f"artifact={artifact}\n" in (project / "output").read_text()
    installed = ["install", str(ACTION.parent), "-e", ".", "-r", "*.txt"]
    assert calls(project, "pip") == [["cache", "dir"], installed]


@pytest.fixture
def recorded(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository in which steps only call Python."""
    monkeypatch.setenv(ONLY_RECORD, "1")
    return project


@pytest.mark.parametrize(
    ("given", "index"),
    [("https://a/b", ["--extra-index-url", "https://a/b"]), ("", [])],
)
def test_the_index_is_optional(recorded: Path, given: str, index: list[str]) -> None:
    """As a variable that a repository may lack; torch comes from it, before anything needs it."""
    assert run_action(recorded, {"torch-index": given, "install": "."}) == 0
    torch = [["install", "torch", "--index-url", given]] * bool(given)
    everything = ["install", str(ACTION.parent), *index, "."]
    assert calls(recorded, "pip") == [["cache", "dir"], *torch, everything]


@pytest.mark.skipif(shutil.which("timeout") is None, reason="no timeout of GNU coreutils")
def test_the_attacks_may_have_a_limit(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that takes longer fails."""
    monkeypatch.setenv(ONLY_RECORD, "1")
    assert run_action(project, {"timeout": "5"}) == 0
    monkeypatch.setenv("SLEEP", "20")
    assert run_action(project, {"timeout": "0.01"}) == 124


@pytest.mark.parametrize("baseline", ["", "own/b.json", "grb-report/b.json", "./grb-report/b.json"])
def test_the_baseline_is_kept_with_the_reports(recorded: Path, baseline: str) -> None:
    """Also one that lies there."""
    path = recorded / (baseline or "robustness.json")
    path.parent.mkdir(exist_ok=True)
    path.write_text("figures")
    assert run_action(recorded, {"baseline": baseline}) == 0
    assert (recorded / "grb-report" / path.name).read_text() == "figures"


def test_every_run_saves_what_it_restored() -> None:
    """Under a key of its own, even after a failed gate; the next run finds it by the prefix."""
    steps = action()["runs"]["steps"]
    (before,) = [
        step for step in steps if step.get("uses", "").startswith("actions/cache/restore@")
    ]
    (after,) = [step for step in steps if step.get("uses", "").startswith("actions/cache/save@")]
    changed = before["with"].items() - after["with"].items()
    assert changed == {("restore-keys", before["with"]["restore-keys"])}
    assert after["if"].startswith("always()")
    prefix = before["with"]["restore-keys"].splitlines()[0]
    assert (
        before["with"]["key"] == f"{prefix}${{{{ github.run_id }}}}-${{{{ github.run_attempt }}}}"
    )


GH = """#!/bin/bash
if [ "$1 $2" = "pr view" ]; then jq -r "${@: -1}" "$COMMENTS"; else echo "$@" >> "$COMMENTS.new"; fi
"""
HEAD = "<!-- grb_check robustness"


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq reads the comments in this test")
@pytest.mark.parametrize(
    ("comments", "state", "comment", "shard", "due"),
    [
        ([], "failed", "true", "", True),
        ([], "unsure", "true", "", True),
        ([], "passed", "true", "", False),
        ([f"{HEAD} failed old -->\n## ❌"], "passed", "true", "", True),
        ([f"{HEAD} unsure old -->"], "passed", "true", "", True),
        ([f"{HEAD} passed old -->"], "passed", "true", "", False),
        ([f"{HEAD} passed old -->"], "unsure", "true", "", True),
        ([f"{HEAD} unsure old -->"], "unsure", "true", "", True),
        ([f"{HEAD} failed new -->\n## ❌"], "failed", "true", "", False),
        ([f"{HEAD} failed new -->", f"{HEAD} failed old -->"], "failed", "true", "", True),
        (["<!-- grb_check other failed new -->"], "failed", "true", "", True),
        (["<!-- grb_check other failed old -->"], "passed", "true", "", False),
        ([f"> {HEAD} failed new -->"], "failed", "true", "", True),
        ([], "failed", "false", "", False),
        ([], "failed", "true", "1/2", False),
    ],
)
def test_a_comment_is_due_when_something_is_wrong_or_no_longer(
    recorded: Path,
    monkeypatch: pytest.MonkeyPatch,
    comments: list[str],
    state: str,
    comment: str,
    shard: str,
    due: bool,
) -> None:
    """Once for the same verdicts; other jobs' comments, and quotes, do not count."""
    path = recorded / "comments.json"
    own_comments = [{"viewerDidAuthor": True, "body": body} for body in comments]
    path.write_text(
        json.dumps({"comments": [*own_comments, {"viewerDidAuthor": False, "body": HEAD}]})
    )
    for name, value in {"COMMENTS": str(path), "GITHUB_REPOSITORY": "me/it"}.items():
        monkeypatch.setenv(name, value)
    (recorded / "stub").mkdir()
    (recorded / "stub" / "gh").write_text(GH)
    (recorded / "stub" / "gh").chmod(0o755)
    (recorded / "grb-report").mkdir()
    text = f"<!-- grb_check {state} new -->\n## Graph robustness"
    (recorded / "grb-report" / "robustness.md").write_text(text)
    assert run_action(recorded, {"comment": comment, "shard": shard}) == 0
    assert path.with_name("comments.json.new").exists() == due
