"""The action of GitHub and the component of GitLab: their form, and their steps run here."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ci_steps import (
    ACTION,
    COMPONENT,
    ONLY_RECORD,
    action,
    applies,
    calls,
    component,
    is_in_pipeline,
    run_action,
    run_component,
)
from tiny import write_dataset

from grb_check.cli.project_setup import workflow_setup
from grb_check.reports.comment import check_name
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
    # -k leaves out nothing, or the history would have no line; its quotes have to work.
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


def scripts(job: dict[str, Any]) -> list[str]:
    return [*job["script"], *job["after_script"]]


def test_every_input_is_described_optional_and_used() -> None:
    """In both, under the same names."""
    given, (of_component, jobs) = action(), component()
    for inputs, body in (
        (given["inputs"], str(given["runs"])),
        (of_component, str(jobs)),
    ):
        used = set(re.findall(r"inputs\.([\w-]+)", body))
        assert used == set(inputs)
        assert all(each["description"].endswith(".") for each in inputs.values())
        assert all("default" in each for each in inputs.values())
    assert set(given["inputs"]) - set(of_component) == {"token", "artifact"}
    assert set(of_component) - set(given["inputs"]) == {"package", "job", "stage"}


def test_inputs_reach_the_shell_as_variables_alone() -> None:
    """An expression in a script would be a part of the script, whatever it holds."""
    for step in action()["runs"]["steps"]:
        assert "${{" not in step.get("run", "")
        assert step.get("shell", "bash") == "bash"
    (job,) = component()[1].values()
    assert not any("$[[" in each for each in scripts(job))
    expanded = {name for name, each in job["variables"].items() if each["expand"]}
    assert expanded == {"GRB_TORCH_INDEX"}


def _of_component(folder: Path) -> Path:
    path = folder / "jobs.yml"
    path.write_text(COMPONENT.read_text("utf-8").partition("\n---\n")[2])
    return path


def _of_init(folder: Path, where: Any) -> Path:
    change = workflow_setup(folder, where).changes[0]
    change.path.parent.mkdir(parents=True)
    change.path.write_text(change.after)
    return change.path


@pytest.mark.parametrize(
    ("schema", "make"),
    [
        ("github-actions", lambda _: ACTION),
        ("gitlab-ci", _of_component),
        ("github-workflows", lambda folder: _of_init(folder, "github")),
        ("gitlab-ci", lambda folder: _of_init(folder, "gitlab")),
    ],
    ids=["action", "component", "workflow of init", "job of init"],
)
def test_the_files_follow_the_schemas(tmp_path: Path, schema: str, make: Any) -> None:
    """Those of schemastore.org, which check-jsonschema carries."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    done = subprocess.run(
        [*command, str(make(tmp_path))], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


REPORTS = {"junit.xml", "robustness.html", "run.json"}
KEPT = {"grb-history.jsonl", "trend.html"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("floor", "code", "more", "files", "artifact"),
    [
        ("0", 0, {"shard": "1/1"}, REPORTS, "robustness-1-of-1"),
        ("1", 1, {"history": "true"}, REPORTS | KEPT, "robustness"),
    ],
)
def test_the_action_passes_and_fails_as_the_gate(
    project: Path, floor: str, code: int, more: dict[str, str], files: set[str], artifact: str
) -> None:
    """With the reports and the artifact's name in both cases."""
    args = f"{INPUTS['args']} --grb-min-clean={floor}"
    assert run_action(project, {**INPUTS, **more, "args": args}) == code
    assert {each.name for each in (project / "grb-report").iterdir()} == files
    (model,) = read(project / "grb-report" / "run.json").settings.models
    assert (model.label, model.args) == ("net", "{'width': 8}")
    assert (project / "output").read_text() == f"artifact={artifact}\n"
    assert calls(project, "pip") == [["install", str(ACTION.parent), "-e", ".", "-r", "*.txt"]]


@pytest.mark.slow
def test_the_component_fails_as_the_gate(project: Path) -> None:
    """And leaves what its artifacts name."""
    args = f"{INPUTS['args']} --grb-min-clean=1"
    assert run_component(project, {**INPUTS, "history": "true", "args": args}) == 1
    assert {each.name for each in (project / "grb-report").iterdir()} == REPORTS | KEPT
    assert calls(project, "pip") == [["install", "grb-check", "-e", ".", "-r", "*.txt"]]


@pytest.fixture
def recorded(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository in which steps only call Python."""
    monkeypatch.setenv(ONLY_RECORD, "1")
    return project


@pytest.mark.parametrize(
    ("variables", "index"),
    [({"INDEX": "https://a/b"}, ["--extra-index-url", "https://a/b"]), ({}, [])],
)
def test_a_variable_of_the_project_holds_the_index(
    recorded: Path, variables: dict[str, str], index: list[str]
) -> None:
    """Or is not there."""
    assert run_component(recorded, {"torch-index": "$INDEX", "install": "."}, variables) == 0
    (given,) = variables.values() or ("",)
    assert run_action(recorded, {"torch-index": given, "install": "."}) == 0
    own = [["install", first, *index, "."] for first in ("grb-check", str(ACTION.parent))]
    assert calls(recorded, "pip") == own


RUNS = [run_action, run_component]


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("baseline", ["", "own/b.json", "grb-report/b.json", "./grb-report/b.json"])
def test_the_baseline_is_kept_with_the_reports(recorded: Path, run: Any, baseline: str) -> None:
    """Also one that lies there."""
    path = recorded / (baseline or "robustness.json")
    path.parent.mkdir(exist_ok=True)
    path.write_text("figures")
    assert run(recorded, {"baseline": baseline}) == 0
    assert (recorded / "grb-report" / path.name).read_text() == "figures"


@pytest.mark.parametrize(("shard", "name"), [("", "run"), ("auto", "part-robustness-2-4-run")])
def test_the_records_of_parallel_jobs_have_names_of_their_own(
    recorded: Path, monkeypatch: pytest.MonkeyPatch, shard: str, name: str
) -> None:
    """GitLab puts the artifacts of all into one directory."""
    monkeypatch.setenv("CI_JOB_NAME_SLUG", "robustness-2-4")
    assert run_component(recorded, {"shard": shard}) == 0
    (arguments,) = calls(recorded, "pytest")
    assert f"--grb-json=grb-report/{name}.json" in arguments


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize(("shard", "times"), [("", 1), ("1/2", 0)])
def test_a_shard_has_no_history(recorded: Path, run: Any, shard: str, times: int) -> None:
    """pytest would refuse it; the file of an earlier run stays."""
    (recorded / "grb-history.jsonl").touch()
    assert run(recorded, {"history": "true", "shard": shard}) == 0
    (arguments,) = calls(recorded, "pytest")
    assert arguments.count("--grb-history=grb-history.jsonl") == times
    assert sum("trend" in each for each in calls(recorded, "grb_check")) == times
    assert (recorded / "grb-report" / "grb-history.jsonl").exists() == bool(times)


def test_the_history_is_cached_for_whole_runs() -> None:
    """Also after a failed gate."""
    inputs = {name: each["default"] for name, each in action()["inputs"].items()}
    steps = [step for step in action()["runs"]["steps"] if "grb-history" in str(step.get("with"))]
    for history, shard in (("true", ""), ("true", "1/2"), ("false", "")):
        given = {**inputs, "history": history, "shard": shard}
        whole = history == "true" and not shard
        assert [applies(step, given, failed=False) for step in steps] == [whole, whole]
        assert applies(steps[1], given, failed=True) == whole


@pytest.mark.parametrize("of_init", [False, True])
def test_every_run_saves_what_it_restored(tmp_path: Path, of_init: bool) -> None:
    """Under a key of its own, even after a failed gate; the next run finds it by the prefix."""
    steps = action()["runs"]["steps"]
    if of_init:
        made = yaml.safe_load(_of_init(tmp_path, "github").read_text())
        steps = made["jobs"]["robustness"]["steps"]
    own = "${{ github.run_id }}-${{ github.run_attempt }}"
    caches = [step for step in steps if "actions/cache" in step.get("uses", "")]
    restored = [step for step in caches if step["uses"] == "actions/cache/restore@v4"]
    saved = [step for step in caches if step["uses"] == "actions/cache/save@v4"]
    assert len(restored) == len(saved) == len(caches) / 2 == (1 if of_init else 2)
    for before, after in zip(restored, saved, strict=True):
        assert before["with"].items() - after["with"].items() == {
            ("restore-keys", before["with"]["restore-keys"])
        }
        assert after["if"].startswith("always()")
        prefix = before["with"]["restore-keys"].splitlines()[0]
        assert before["with"]["key"] == prefix + own


def test_gitlab_keeps_the_store_after_a_failed_gate(tmp_path: Path) -> None:
    """As the reports."""
    of_init = yaml.safe_load(_of_init(tmp_path, "gitlab").read_text())["robustness"]["cache"]
    (job,) = component()[1].values()
    assert {each["when"] for each in (of_init, *job["cache"])} == {"always"}


@pytest.mark.parametrize(
    ("run", "given", "names"),
    [
        (run_action, {"artifact": "graph robustness"}, ["robustness"]),
        (run_action, {"comment-name": "gat"}, ["gat"]),
        (run_component, {}, ["graph-robustness"]),
        (run_component, {"comment-name": "gat"}, ["gat"]),
        (run_action, {"shard": "1/2"}, []),
        (run_component, {"shard": "1/2"}, []),
        (run_action, {"comment": "false"}, []),
        (run_component, {"comment": "false"}, []),
    ],
)
def test_each_job_has_a_comment_of_its_own(
    recorded: Path,
    monkeypatch: pytest.MonkeyPatch,
    run: Any,
    given: dict[str, str],
    names: list[str],
) -> None:
    """A shard has none."""
    monkeypatch.setenv("CI_JOB_NAME_SLUG", "graph---robustness")
    (recorded / "grb-report").mkdir()
    (recorded / "grb-report" / "run.json").touch()
    assert run(recorded, {"comment": "true", **given}) == 0
    said = [each for each in calls(recorded, "grb_check") if each[0] == "comment"]
    assert said == [["comment", "grb-report/run.json", f"--name={check_name(n)}"] for n in names]


BRANCH = {"CI_COMMIT_BRANCH": "work"}
OPEN = {"CI_OPEN_MERGE_REQUESTS": "me/it!1"}


@pytest.mark.parametrize(
    ("source", "more", "runs"),
    [
        ("merge_request_event", OPEN, True),
        ("push", BRANCH, True),
        ("push", BRANCH | OPEN, False),
        ("schedule", BRANCH | OPEN, True),
        ("web", BRANCH | OPEN, True),
        ("push", {"CI_COMMIT_TAG": "v1"}, False),
    ],
)
def test_the_component_runs_once_for_a_merge_request(
    source: str, more: dict[str, str], runs: bool
) -> None:
    """In its pipeline, where there is something to comment on, and not in that of the branch."""
    (job,) = component()[1].values()
    assert is_in_pipeline(job["rules"], {"CI_PIPELINE_SOURCE": source, **more}) == runs
