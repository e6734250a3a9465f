"""Data of which most targets have one class, as a user sees it."""

from __future__ import annotations

import json
import math

import pytest

from grb_check.reports.levels import UNLEARNED

DATA = """
import torch
from torch_geometric.data import Data


def rare():
    generator = torch.Generator().manual_seed(0)
    y = (torch.rand(300, generator=generator) < 0.06).long()
    edges = torch.randint(300, (2, 600), generator=generator)
    edges = torch.cat([edges, edges.flip(0)], 1)
    return Data(x=torch.randn(300, 4, generator=generator), edge_index=edges, y=y)
"""
MODEL = """
import torch
import grb_check


class Frequent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 2)

    def forward(self, x, edge_index):
        return 1e-6 * self.linear(x) + torch.tensor([1.0, 0.0])


def build():
    return grb_check.Trained(Frequent().eval())
"""


@pytest.mark.parametrize("metric", ["", "accuracy", "balanced"])
def test_a_model_of_the_frequent_class_keeps_half_of_two_classes(
    project: pytest.Pytester, metric: str
) -> None:
    """And says nothing more: no level, no limit, no failure. As accuracy it would keep 94 %."""
    project.makepyfile(rare_data=DATA, frequent=MODEL)
    options = [f"--grb-metric={metric}"] * bool(metric)
    result = project.runpytest(
        "--grb-only",
        "--grb-model=frequent:build",
        "--grb-dataset=rare_data:rare",
        "--grb-difficulty=full",
        "--grb-attack=injection/rnd",
        "--grb-repeats=1",
        "--grb-json=run.json",
        *options,
    )
    assert result.ret == pytest.ExitCode.OK
    assert result.parseoutcomes()["measured"] == 1
    (row,) = json.loads((project.path / "run.json").read_text())["cases"]
    figures = row["outcome"]["repeats"][0]["victim"]
    balanced = metric != "accuracy"
    assert bool(row["outcome"]["target_weights"]) == balanced
    assert math.isclose(figures["clean"], 0.5) == balanced
    header = "grb metric: rare_data.rare: balanced accuracy, since one class has *"
    if not metric:
        result.stdout.fnmatch_lines([header])
    else:
        result.stdout.no_fnmatch_line(header)
    if balanced:
        result.stdout.fnmatch_lines([f"Not judged: {UNLEARNED}"])
        result.stdout.fnmatch_lines(["*rare_data.rare*: balanced accuracy"])
