"""Data of which most targets have one class, as a user sees it."""

from __future__ import annotations

import json
import math
import sys

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


@pytest.mark.slow
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


RECALL = """
import torch
from torch_geometric.data import Data


def found():
    generator = torch.Generator().manual_seed(0)
    y = (torch.rand(600, generator=generator) < 0.2).long()
    edges = torch.randint(600, (2, 1800), generator=generator)
    edges = edges[:, y[edges[0]] == y[edges[1]]]
    edges = torch.cat([edges, edges.flip(0)], 1)
    x = torch.randn(600, 4, generator=generator)
    return Data(x=x + y[:, None], edge_index=edges, y=y)
"""


@pytest.mark.slow
def test_recall_at_a_share_of_false_alarms_is_measured_and_compared(
    project: pytest.Pytester,
) -> None:
    """Of the rare class alone: the header, the table, JUnit and a baseline say which recall."""
    project.makepyfile(fraud=RECALL)
    args = [
        "--grb-only",
        "--grb-model=grb_check.models:gcn",
        "--grb-dataset=fraud:found",
        "--grb-metric=recall@0.1",
        "--grb-difficulty=full",
        "--grb-attack=injection/rnd,modification/dice,modification/dice+gang=5x2",
        "--grb-repeats=2",
        "--grb-max-drop=1",
        "--grb-json=run.json",
        "--junitxml=run.xml",
        "--grb-baseline=base.json",
    ]
    words = "recall of class 1 at 10 % false alarms"
    result = project.runpytest(*args)
    result.stdout.fnmatch_lines([f"grb metric: fraud.found: {words}, of * of that class"])
    result.stdout.fnmatch_lines([f"*fraud.found (*): {words}"])
    cases = json.loads((project.path / "run.json").read_text())["cases"]
    assert {case["outcome"]["recall"] for case in cases} == {words}
    clean, attacked = cases[0]["outcome"]["repeats"][0]["rankings"]
    assert 0.5 < attacked["roc_auc"] <= clean["roc_auc"] + 0.1
    assert 0.2 < clean["average_precision"] <= 1
    assert 0 <= clean["false_alarms"] < 0.3
    assert clean["other_recall"] is None
    clean, attacked = cases[2]["outcome"]["repeats"][0]["rankings"]
    assert 0 < clean["other_recall"] <= 1
    assert abs(attacked["other_recall"] - clean["other_recall"]) < 0.2
    assert 0 <= attacked["false_alarms"] < 0.3
    positives = cases[0]["outcome"]["targets"]
    assert 20 < positives < 60
    assert words in (project.path / "run.xml").read_text()
    assert "grb.attacked_average_precision" in (project.path / "run.xml").read_text()
    assert words in (project.path / "base.json").read_text()
    again = project.runpytest(*args)
    assert again.ret == pytest.ExitCode.OK
    again.stdout.fnmatch_lines(["*equal to the baseline*"])
    other = project.runpytest(*args, "--grb-metric=recall@0.2")
    assert other.ret == pytest.ExitCode.TESTS_FAILED
    other.stdout.fnmatch_lines([f"*the metric is recall of class 1 at 20 % *, and was {words}*"])


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--grb-metric=recall@2"], "*share of false alarms, above 0 and below 1*"),
        (["--grb-metric=recall@0.1"], "*has 7 classes; say whose recall is meant*"),
        (["--grb-positive=1"], "*no metric is named*"),
        (["--grb-metric=balanced", "--grb-positive=1"], "*the metric is balanced*"),
        (["--grb-metric=recall@0.1", "--grb-positive=one"], "*is not a class; give its number*"),
        (
            ["--grb-metric=recall@0.1", "--grb-positive=1", "--grb-suite=poisoning"],
            "*changes the graph before the training*",
        ),
    ],
    ids=["share", "class", "alone", "other", "no number", "poisoning"],
)
def test_recall_is_refused_before_any_training(
    project: pytest.Pytester, options: list[str], error: str
) -> None:
    result = project.runpytest("--grb-only", "--grb-model=grb_check.models:gcn", *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([error])


FINISHED = """
import torch
import grb_check


class Rule(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))

    def forward(self, x, edge_index):
        score = self.weight * (4 - 4 * x[:, 0])
        return torch.stack([-score, score], dim=1)


def build():
    return grb_check.Trained(Rule().eval())
"""


@pytest.mark.slow
def test_a_finished_model_is_checked_on_all_test_nodes(project: pytest.Pytester) -> None:
    """On those of the class alone, a rule that calls everything positive would be right."""
    features = "x=(1 + 2 * torch.sigmoid(x) - 0.8 * y[:, None]).clamp(min=0.05)"
    data = RECALL.replace("x=x + y[:, None]", features)
    project.makepyfile(fraud=data, finished=FINISHED)
    result = project.runpytest(
        "--grb-only",
        "--grb-model=finished:build",
        "--grb-dataset=fraud:found",
        "--grb-metric=recall@0.1",
        "--grb-difficulty=full",
        "--grb-attack=injection/rnd",
        "--grb-repeats=1",
        "--grb-max-drop=1",
        "--grb-min-clean=0",
        "--grb-json=run.json",
    )
    assert result.ret == pytest.ExitCode.OK
    packed = project.run(
        sys.executable,
        "-m",
        "grb_check",
        "pack",
        "run.json",
        "--dataset=fraud.found=fraud:found",
        "--out=run.npz",
    )
    assert packed.ret == 0, packed.stderr.str()
