"""Runs from a pack: the same perturbations on every machine."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from differences import differences
from record_factory import file_of

from grb_check.__main__ import main
from grb_check.cases.case import Case
from grb_check.datasets import Places, find
from grb_check.errors import UsageError
from grb_check.evaluation.harness_models import HarnessModels
from grb_check.evaluation.trained_model import TrainedModel
from grb_check.runs.process import run_task
from grb_check.runs.steps import check, measure
from grb_check.runs.tasks import ModelOnDataset, Task
from grb_check.settings.model_specs import ModelSpec
from grb_check.settings.settings import RunSettings
from grb_check.store.pack import open_pack

DATA = (
    "--grb-only",
    "--grb-dataset=./tiny",
    "--grb-model=attacks:untrained",  # which costs no training
    "--grb-min-clean=0",
    "--grb-max-drop=1",
    "--grb-difficulty=easy",
    "--grb-repeats=2",
)
ATTACKS = "injection/rnd,modification/dice,modification/fga+white-box,modification/worst"
BASE = (*DATA, f"--grb-attack={ATTACKS}")
MAKE = ("pack", "run.json", "--dataset=tiny=./tiny")
PACK = "--grb-pack=attacks.npz"


@pytest.fixture(autouse=True)
def inside(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every run and command has the same working folder."""
    monkeypatch.chdir(project.path)


@pytest.fixture
def packed(project: pytest.Pytester) -> pytest.Pytester:
    """A project with the record of a run, and its pack."""
    project.runpytest(*BASE, "--grb-json=run.json").assert_outcomes(passed=4)
    assert main([*MAKE]) == 0
    return project


def forbid_surrogates(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_surrogate(_: HarnessModels, kind: str) -> TrainedModel:
        raise AssertionError(f"surrogate {kind} is trained")

    monkeypatch.setattr(HarnessModels, "surrogate", no_surrogate)


def facts(path: Path) -> Any:
    """A run record without what may differ: times, where perturbations came from, options."""
    record = json.loads(path.read_text("utf-8"))
    del record["digest"], record["settings"]["origins"], record["date"]
    record["environment"].pop("pack", None)
    del record["settings"]["pack"], record["settings"]["pack_digest"]
    for case in record["summary"]["cases"]:
        del case["seconds"]
    for case in record["cases"]:
        for repeat in case["outcome"]["repeats"]:
            del repeat["seconds"], repeat["training_seconds"], repeat["from_store"]
            del repeat["measured_before"]
    return record


def changed(path: Path, change: Any) -> None:
    """Change the fields of a run record, and seal it again."""
    record = json.loads(path.read_text("utf-8"))
    for name in ("kind", "format", "grb_check", "digest"):
        del record[name]
    change(record)
    path.write_text(file_of(record), "utf-8")


@pytest.mark.slow
def test_a_run_from_a_pack_is_the_same_and_trains_no_surrogate(
    packed: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of black-box and white-box cases and of their worst; the header and the record name it."""
    first = packed.path / "attacks.npz"
    assert main([*MAKE, "--out=again.npz"]) == 0
    assert first.read_bytes() == (packed.path / "again.npz").read_bytes()
    forbid_surrogates(monkeypatch)
    options = (PACK, "--grb-store=off", "--grb-json=again.json")
    result = packed.runpytest(*BASE, *options)
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["grb pack: attacks.npz, * perturbations, digest * (command line)"])
    record = json.loads((packed.path / "again.json").read_text("utf-8"))
    assert record["environment"]["pack"] in result.stdout.str()
    assert differences(facts(packed.path / "again.json"), facts(packed.path / "run.json")) == []
    capsys.readouterr()
    assert main(["pack", "again.json"]) == 4
    assert "took its perturbations from the pack with digest" in capsys.readouterr().err


def test_cases_that_a_pack_lacks_end_the_run_before_any_work(packed: pytest.Pytester) -> None:
    """Exit code 4, and the case that is first."""
    result = packed.runpytest(*BASE, PACK, "--grb-difficulty=easy,hard")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*attacks.npz' lacks * perturbations that 3 cases may need: tiny/hard/injection/rnd *"]
    )


@pytest.mark.slow
def test_a_baseline_notes_its_pack(packed: pytest.Pytester) -> None:
    """A run from another pack, or without one, is in another environment."""
    args = (*BASE, "--grb-baseline=kept.json")
    packed.runpytest(*args, PACK, "--grb-update-baseline").assert_outcomes(passed=4)
    packed.runpytest(*args, PACK).assert_outcomes(passed=6)
    result = packed.runpytest(*args)
    result.assert_outcomes(passed=6)
    result.stdout.fnmatch_lines(["*measured in another environment: pack *, now none*"])
    packed.runpytest(*args, "--grb-update-baseline").assert_outcomes(passed=4)
    result = packed.runpytest(*args, PACK)
    result.stdout.fnmatch_lines(["*measured in another environment: pack none, now *"])


def test_perturbations_that_are_not_those_of_the_run_are_refused(
    packed: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """As those that another processor makes: the cases are named, and no file is written."""
    path = packed.path / "run.json"

    def other(record: Any) -> None:
        record["cases"][1]["outcome"]["repeats"][1]["perturbation"] = "0" * 16
        record["environment"]["processor"] = "arm64 NEON"

    changed(path, other)
    assert main([*MAKE, "--out=new.npz"]) == 4
    error = capsys.readouterr().err
    assert "in 1 case (tiny/easy/modification/dice) the perturbations differ" in error
    assert "made in another environment (processor arm64 NEON, here " in error
    assert not (packed.path / "new.npz").exists()


def test_another_attack_or_dataset_than_in_the_run_is_refused(
    packed: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is written."""
    path = packed.path / "run.json"
    content = path.read_bytes()
    for change, message in (
        ({"attack": "injection/rnd v1"}, "of the run is injection/rnd v1 with the threat"),
        ({"attack": ""}, "the attack has no version"),
        ({"dataset": "0" * 64}, "dataset tiny is not that of the run: its fingerprint is "),
    ):
        path.write_bytes(content)

        def update(record: Any, change: dict[str, str] = change) -> None:
            record["cases"][0]["outcome"].update(change)

        changed(path, update)
        assert main([*MAKE]) == 4
        assert message in capsys.readouterr().err


@pytest.mark.slow
def test_a_wrong_command_says_what_to_do(
    project: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 4."""
    options = ("--grb-attack=attacks:Average", "--grb-store=off", "--grb-json=own.json")
    project.runpytest(*DATA, *options).assert_outcomes(passed=1)
    for arguments, message in (
        (["none.json"], "No such file or directory"),
        (["own.json", "--out=no/such/\0"], "--out"),
        (["own.json"], "unknown attack 'injection/average'"),
        (["own.json"], "name your own attacks with --attack"),
        (["own.json", "--attack=attacks:Average"], "the attack has no version"),
    ):
        assert main(["pack", *arguments]) == 4
        assert message in capsys.readouterr().err
    (project.path / "tiny").rename("moved")
    assert main(["pack", "own.json", "--attack=attacks:Average"]) == 4
    assert "or name the one of the run with --dataset tiny=" in capsys.readouterr().err
    assert main(["pack", "own.json", "--attack=attacks:Average", "--dataset=tiny=./moved"]) == 4
    assert "the attack has no version" in capsys.readouterr().err


def test_a_task_opens_the_pack_of_its_run_and_no_other(
    packed: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By path and digest; it checks the pack before any work."""
    forbid_surrogates(monkeypatch)
    pack = open_pack(packed.path / "attacks.npz")
    spec = ModelSpec(label="m", target="attacks:untrained")
    places = Places(home=packed.path / "home")
    on = ModelOnDataset(spec, find(f"{packed.path}/tiny", places))
    settings = RunSettings(device="cpu", pack=str(pack.path), pack_digest=pack.digest)
    case = Case("tiny", "easy", "injection", "rnd")
    task = Task(step=check, settings=settings, on=on, cases=(case,), seed=1, repeats=2)
    digest = pack.digest[:16]
    assert run_task(task).environment["pack"] == digest
    result = run_task(replace(task, step=measure)).values[case].measurement
    record = json.loads((packed.path / "run.json").read_text("utf-8"))
    repeats = {row["id"]: row["outcome"]["repeats"] for row in record["cases"]}[case.id]
    assert result.perturbation == repeats[1]["perturbation"]
    with pytest.raises(UsageError, match="tiny/hard/injection/rnd needs repeat 1, but it has"):
        run_task(replace(task, cases=(replace(case, difficulty="hard"),)))
    other = replace(settings, pack_digest="0" * 64)
    with pytest.raises(UsageError, match=f"has the digest {digest}, but the run uses"):
        run_task(replace(task, settings=other))


def test_a_pack_has_perturbations_of_poisoning(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that trains is poisoned by them again, to the bit."""
    project.makepyfile(
        quick="""
import torch
from torch_geometric.nn import GCNConv
from grb_check import SelfTrained

class Net(torch.nn.Module):
    def __init__(self, num_features, num_classes):
        super().__init__()
        self.conv = GCNConv(num_features, num_classes)
    def forward(self, x, edge_index):
        return self.conv(x, edge_index)

def build(num_features, num_classes):
    return SelfTrained(Net(num_features, num_classes), lambda data: None)
"""
    )
    args = [option for option in DATA if "model" not in option]
    args += ["--grb-model=quick:build", "--grb-attack=poisoning/dice"]
    project.runpytest(*args, "--grb-json=run.json").assert_outcomes(passed=1)
    assert main([*MAKE]) == 0
    forbid_surrogates(monkeypatch)
    project.runpytest(*args, PACK, "--grb-json=packed.json").assert_outcomes(passed=1)
    (case,) = json.loads((project.path / "packed.json").read_text())["cases"]
    assert case["outcome"]["repeats"][0]["from_store"]
