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
    """Below the tables and in JUnit's report."""
    result = project.runpytest(*ARGS, "--junitxml=out.xml", "-v")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        [
            "  full/injection *% * rnd * fgsm+white-box",
            "audit: build * injection * (GCN *)*",
        ]
    )
    assert 'name="grb.audit.0" value="build ' in Path(project.path / "out.xml").read_text()


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
    result.assert_outcomes(passed=2, errors=2)
    result.stdout.fnmatch_lines(["*audit: nan was not attacked*"])
