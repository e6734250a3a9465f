"""Evidence of a failed case: its perturbation, the replay command, the smallest counter-example."""

from __future__ import annotations

import json
import shlex
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from grb_check.__main__ import main
from grb_check.failures.evidence import read

FIXED = """
import torch
from dataclasses import dataclass
from typing import ClassVar
from grb_check.attacks.threat import Perturbation


class Fixed(torch.nn.Module):
    def __init__(self, num_features, num_classes):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.eye(num_features, num_classes))

    def fit(self, data):
        pass

    def forward(self, x, edge_index):
        around = torch.zeros_like(x).index_add(0, edge_index[0], x[edge_index[1]])
        return (x + around) @ self.weight


def build(num_features, num_classes):
    return Fixed(num_features, num_classes)


@dataclass(frozen=True)
class Crossing:
    step: int = 40
    name: ClassVar[str] = "crossing"
    scenario: ClassVar[str] = "modification"
    knowledge: ClassVar[str] = "black-box"
    version: ClassVar[int] = 1

    def perturb(self, graph, threat, model, generator):
        pairs = torch.combinations(threat.targets).T
        codes = graph.edge_index[0] * graph.num_nodes + graph.edge_index[1]
        present = torch.isin(pairs[0] * graph.num_nodes + pairs[1], codes)
        differ = graph.y[pairs[0]] != graph.y[pairs[1]]
        return Perturbation(added_edges=pairs[:, differ & ~present][:, :: self.step][:, :20])


class Crossed(Crossing):
    name = "crossed"
    version = 2


class Fickle:
    name, scenario, knowledge, calls = "fickle", "modification", "black-box", 0

    def perturb(self, *given):
        Fickle.calls += 1
        found = Crossing().perturb(*given)
        return Perturbation(added_edges=found.added_edges[:, Fickle.calls % 3 :])
"""
DEMAND = (
    "--grb-model=fixed:build",
    "--grb-dataset=./tiny",
    "--grb-difficulty=full",
    "--grb-repeats=2",
    "--grb-max-drop=0.01",
    "--grb-min-clean=0.1",
)
FAILING = (*DEMAND, "--grb-attack=fixed:Crossing")


@pytest.fixture
def project(project: pytest.Pytester) -> pytest.Pytester:
    """A project with a model that needs no training and an attack that needs no model."""
    project.makepyfile(fixed=FIXED)
    return project


def cases(project: pytest.Pytester) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = json.loads((project.path / "run.json").read_text())["cases"]
    return records


def kept(project: pytest.Pytester) -> list[Path]:
    return sorted((project.path / ".grb_check" / "evidence").glob("*.npz"))


def replayed(command: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Run the command of a message in the same folder, and return its output."""
    words = shlex.split(command)
    assert words[:3] == ["python", "-m", "grb_check"]
    capsys.readouterr()
    code = main(words[3:])
    return code, capsys.readouterr().out


def test_a_failed_case_says_how_to_replay_it(
    project: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first line is still the verdict; the command reproduces the figures."""
    result = project.runpytest(*FAILING, "--grb-json=run.json", "--junitxml=junit.xml")
    result.assert_outcomes(failed=1)
    (case,), (path,) = cases(project), kept(project)
    command = case["evidence"]["replay"]
    first, second = case["message"].splitlines()
    assert first == case["verdict"]["message"]
    assert first.startswith("drop ")
    assert second == f"replay: {command}"
    where = path.relative_to(project.path)
    assert command == f"python -m grb_check replay {where} --grb-model fixed:build"
    assert case["evidence"] == {"artifact": str(where), "replay": command, "smallest": None}
    failure = ET.parse(project.path / "junit.xml").getroot().find(".//failure")
    assert failure is not None
    assert failure.get("message", "").splitlines()[:2] == [f"Failed: {first}", second]
    code, said = replayed(command, capsys)
    assert code == 1
    assert said.count("as recorded") == 2
    assert f"fails: {first.partition(' (')[0]} (max drop)" in said


@pytest.mark.slow
def test_a_poisoned_case_is_replayed_with_its_training(
    project: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the whole graph, by itself; its parts are not tried, since each would need a training."""
    poisoning = "--grb-attack=poisoning/rnd+budget=1"
    result = project.runpytest(*DEMAND, poisoning, "--grb-json=run.json", "--grb-shrink")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["grb protocol: tiny: *learned transductively"])
    result.stdout.fnmatch_lines(["*poisons the training*not reduced*"])
    (case,) = cases(project)
    code, said = replayed(case["evidence"]["replay"], capsys)
    assert code == 1
    assert said.count("as recorded") == 2


def test_evidence_is_kept_elsewhere_or_not_at_all(project: pytest.Pytester) -> None:
    """`--grb-evidence` is a folder, which version control ignores, or `off`."""
    project.runpytest(*FAILING, "--grb-evidence=off", "--grb-json=run.json").assert_outcomes(
        failed=1
    )
    assert cases(project)[0]["evidence"] is None
    assert len(cases(project)[0]["message"].splitlines()) == 1
    project.runpytest(*FAILING, "--grb-evidence=a folder").assert_outcomes(failed=1)
    assert not kept(project)
    names = [path.name for path in (project.path / "a folder").iterdir()]
    assert ".gitignore" in names
    assert len(names) == 2
    (project.path / "file").touch()
    result = project.runpytest(*FAILING, "--grb-evidence=file/below")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["drop * > limit *", "replay: nothing was recorded: *file*"])


def test_the_smallest_counter_example_is_shown(
    project: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line in the message, all of it in a section and in system-out; it can be replayed."""
    result = project.runpytest(
        *FAILING,
        "--grb-max-drop=0.06",
        "--grb-shrink",
        "--grb-json=run.json",
        "--junitxml=junit.xml",
        "-ojunit_logging=system-out",
    )
    result.assert_outcomes(failed=1)
    (case,) = cases(project)
    small = case["evidence"]["smallest"]
    assert 1 < small["units_after"] < small["units_before"] == 20
    assert small["units_after"] == len(small["added_edges"])
    assert small["drop"] > small["limit"] == 0.06
    assert small["minimal"]
    lines = case["message"].splitlines()
    assert len(lines) == 3
    assert lines[2].startswith(f"smallest counter-example: {small['units_after']} of 20 changes (")
    edge, flip = small["added_edges"][0], small["flipped"][0]
    shown = [
        "*Captured stdout: grb evidence*",
        f"  {edge[0]} - {edge[1]}",
        f"  node {flip['target']} (class {flip['class']}): {flip['before']} -> {flip['after']}",
    ]
    result.stdout.fnmatch_lines(shown)
    said = ET.parse(project.path / "junit.xml").getroot().findtext(".//system-out")
    assert said is not None
    assert shown[1] in said.splitlines()
    code, said = replayed(f"python -m grb_check replay {small['artifact']}", capsys)
    assert code == 1
    assert "as recorded" in said
    part, whole = (
        read(path) for path in sorted(kept(project), key=lambda path: len(path.name))[::-1]
    )
    assert part.repeats[0].perturbation.added_edges.T.tolist() == small["added_edges"]
    assert part.repeats[0].seed == small["repeat"]
    assert whole.repeats[0].perturbation.added_edges.shape[1] == 20


def test_a_users_own_assertion_keeps_evidence_too(
    project: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message is the user's; the command is in a section below."""
    project.makepyfile(
        test_own="""
        import pytest

        @pytest.mark.grb(dataset="./tiny", difficulty="full", attack="fixed:Crossing", repeats=1)
        def test_mine(grb_outcome):
            assert grb_outcome.drop < 0.01

        @pytest.mark.grb(dataset="./tiny", difficulty="full", attack="fixed:Crossing", repeats=1)
        def test_gate(grb_verdict):
            assert grb_verdict.passed, grb_verdict.message

        @pytest.mark.grb(dataset="./tiny", difficulty="full", attack="fixed:Crossing", repeats=1)
        def test_passed(grb_verdict, grb_outcome):
            assert grb_outcome.drop >= 0.01
        """
    )
    result = project.runpytest(*FAILING, "test_own.py", "-ktest_own.py", "--grb-json=run.json")
    result.assert_outcomes(failed=2, passed=1, deselected=1)
    by_test = {case["node_id"]: case for case in cases(project)}
    mine, gate = (by_test[f"test_own.py::{name}"] for name in ("test_mine", "test_gate"))
    result.stdout.fnmatch_lines(
        [
            "*assert 0.* < 0.01*",
            "*Captured stdout: grb evidence*",
            f"replay: {mine['evidence']['replay']}",
        ]
    )
    assert f"replay: {gate['evidence']['replay']}" in gate["message"]
    assert len(kept(project)) == 3  # a verdict that fails, whatever its test makes of that
    code, said = replayed(mine["evidence"]["replay"], capsys)
    assert code == 0
    assert said.splitlines()[-1] == "no limit was recorded, because the test judges by itself"
    assert replayed(gate["evidence"]["replay"], capsys)[0] == 1
