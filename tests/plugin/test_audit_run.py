"""The suite that asks whether a defence stands."""

from __future__ import annotations

from pathlib import Path

import pytest
from plugin_names import TINY

ARGS = (
    *(*TINY, "--grb-only", "--grb-suite=audit", "--grb-model=models:build", "--grb-min-clean=0"),
    *("--grb-attack=injection/rnd,injection/fgsm+white-box", "--grb-max-drop=1"),
)


@pytest.mark.slow
def test_an_audit_says_what_it_concludes(project: pytest.Pytester) -> None:
    """Below the tables, in JUnit's report, and as a test: the exit code and the badge follow it."""
    project.makepyfile(
        fragile="""
import models

class build(models.Net):  # wrong for every node of a graph with injected ones
    def forward(self, x, edge_index):
        logits = super().forward(x, edge_index)
        return -logits if x.shape[0] > 160 else logits
"""
    )
    files = [
        "--grb-model=fragile:build",
        "--junitxml=out.xml",
        "--grb-html=out.html",
        "--grb-json=out.json",
    ]
    result = project.runpytest(
        *(option for option in ARGS if "--grb-model" not in option), *files, "-v"
    )
    result.assert_outcomes(passed=2, failed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "grb::tiny::test_audit FAILED*",
            "fragile is no more robust than an undefended GCN: attackers who know it leave *",
            "  full/injection *% * rnd * fgsm+white-box",
            "audit: fragile * injection * (GCN *)*",
        ]
    )
    assert 'name="grb.audit.0" value="fragile ' in Path(project.path / "out.xml").read_text()
    assert "✕ failed" in Path(project.path / "out.html").read_text()


@pytest.mark.slow
def test_a_model_that_cannot_be_trained_does_not_stop_the_others(project: pytest.Pytester) -> None:
    """Its own cases say why."""
    project.makepyfile(
        nan="""
import torch

class Broken(torch.nn.Linear):
    def forward(self, x, edge_index):
        return super().forward(x) * (float("nan") if self.training else 1.0)

def build(num_features, num_classes):
    return Broken(num_features, num_classes)
"""
    )
    result = project.runpytest(*ARGS, "--grb-model=nan=nan:build")
    result.assert_outcomes(passed=4, errors=2)
    result.stdout.fnmatch_lines(["*audit: nan was not attacked*"])
