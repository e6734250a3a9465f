"""Perturbations of one model of a run are tried on the others when it ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from plugin_names import TINY

from grb_check.reports import record_file

MODELS = """
import torch
import grb_check


class Door(torch.nn.Module):  # wrong about everything once a node with features of 0.75 arrives
    def __init__(self, scale):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(scale))

    def forward(self, x, edge_index):
        open = bool((x == 0.75).all(dim=1).any())
        return (-x if open else x)[:, :3] * self.scale


def closed():
    return grb_check.Trained(Door(1.0))


def ajar():
    return grb_check.Trained(Door(1e6))


class Peek:  # finds the door of the model with large logits only
    name, scenario, knowledge, version = "peek", "injection", "white-box", 1

    def perturb(self, graph, threat, model, generator):
        from grb_check.attacks.threat import Perturbation

        large = model(graph.x, graph.edge_index).abs().max() > 1e4
        links = threat.targets[: threat.edges_per_injected_node]
        return Perturbation(
            injected_x=torch.full((1, graph.x.shape[1]), 0.75 if large else 0.5),
            injected_edges=torch.stack([torch.zeros_like(links), links]),
        )
"""
ARGS = (
    *(*TINY, "--grb-only", "--grb-difficulty=full", "--grb-max-drop=1", "--grb-min-clean=0"),
    *("--grb-attack=doors:Peek", "--grb-model=closed=doors:closed", "--grb-model=ajar=doors:ajar"),
)
TEXT = "the perturbation of ajar@tiny/full/injection/peek leaves"


def findings(path: Path) -> dict[str, list[str]]:
    """The texts of the diagnostic, by case."""
    record: dict[str, Any] = json.loads(path.read_text())
    return {
        case["id"]: [
            finding["text"]
            for repeat in case["outcome"]["repeats"]
            for finding in repeat["late"]
            if finding["name"] == "transfer-stronger"
        ]
        for case in record["cases"]
    }


@pytest.fixture
def doors(project: pytest.Pytester) -> pytest.Pytester:
    project.makepyfile(doors=MODELS)
    return project


@pytest.mark.slow
@pytest.mark.parametrize("where", [(), ("--grb-jobs=2",)])
def test_what_another_model_of_the_run_fell_to_is_tried(
    doors: pytest.Pytester, where: tuple[str, ...]
) -> None:
    """Whichever came first, and wherever they are measured."""
    doors.runpytest(*ARGS, *where, "--grb-json=run.json").assert_outcomes(passed=2)
    result = findings(doors.path / "run.json")
    (text,) = result["closed@tiny/full/injection/peek"]
    assert text.startswith(TEXT)
    assert result["ajar@tiny/full/injection/peek"] == []


def test_a_finding_after_the_verdict_is_a_failed_test_if_findings_fail(
    doors: pytest.Pytester,
) -> None:
    """The test of the case had been judged before; the record can be read all the same."""
    result = doors.runpytest(
        *(*ARGS, "--grb-strict-diagnostics", "--grb-html=page.html", "--grb-json=run.json")
    )
    assert len(record_file.read(doors.path / "run.json").cases) == 2
    failed = [line for line in result.outlines if line.startswith("FAILED")]
    assert any("grb::closed::tiny::test_transfers" in line for line in failed)
    assert not any("grb::ajar::tiny::test_transfers" in line for line in failed)
    assert TEXT in (doors.path / "page.html").read_text()
    result = doors.runpytest("--grb-only", "grb::closed::tiny::test_transfers", *ARGS)
    result.stderr.fnmatch_lines(["*verdict on all cases of grb::closed::tiny*"])
