"""Models that change the process, print, exit or return nonsense, as a user sees it.

The hostile model comes first; the good one beside it has the figures that it has alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from plugin_names import TINY

HOSTILE = """
import os, sys, warnings
import numpy as np
import torch
import models

if __name__ == "hostile":
    torch.set_default_dtype(torch.float64)
    np.seterr(all="raise")
    print("printed by an import")


class Trains(models.Net):
    def fit(self, data):
        optimizer = torch.optim.Adam(self.parameters(), lr=0.05)
        for _ in range(20):
            optimizer.zero_grad()
            logits = self(data.x, data.edge_index)[data.train_mask]
            torch.nn.functional.cross_entropy(logits, data.y[data.train_mask]).backward()
            optimizer.step()
        self.end()

    def end(self):
        pass


class GradientsOff(Trains):
    def end(self):
        torch.set_grad_enabled(False)


class Exits(Trains):
    def end(self):
        sys.exit(0)


class ExitsInForward(models.Net):
    def forward(self, x, edge_index):
        sys.exit(0)


class OutOfPlace(models.Net):
    def forward(self, x, edge_index):
        output = super().forward(x, edge_index)
        os.chdir("/")
        torch.set_grad_enabled(False)
        return output


class NoConvention(models.Net):
    def forward(self, x, edge_index, edge_attr):
        return super().forward(x, edge_index)


def gradients_off(num_features, num_classes):
    torch.set_grad_enabled(False)
    return Trains(num_features, num_classes)


def environment(num_features, num_classes):
    os.environ.clear()
    sys.path.clear()
    os.chdir("/")
    model = Trains(num_features, num_classes)  # PyG warns on some versions of Python
    warnings.simplefilter("error")
    return model


def other_device(num_features, num_classes):
    model = Trains(num_features, num_classes)
    torch.set_default_device("meta")
    return model


def no_streams(num_features, num_classes):
    sys.stdout = sys.stderr = None
    return Trains(num_features, num_classes)


def exits(num_features, num_classes):
    sys.exit(0)


def nonsense(num_features, num_classes):
    return 3


def without_values(num_features, num_classes):
    with torch.device("meta"):
        return models.Net(num_features, num_classes)


def no_convention(num_features, num_classes):
    return NoConvention(num_features, num_classes)


def cached(num_features, num_classes):
    model = models.Net(num_features, num_classes)
    model.first.cached = True
    return model
"""
RUN = (*TINY, "--grb-only", "--grb-attack=injection/rnd", "--grb-difficulty=easy")
FAST = (*RUN, "--grb-max-drop=1", "--grb-min-clean=0")
JSON = "--grb-json=run.json"


@pytest.fixture
def hostile(project: pytest.Pytester) -> pytest.Pytester:
    project.makepyfile(hostile=HOSTILE)
    return project


def _models(first: str) -> tuple[str, str]:
    return f"--grb-model=a=hostile:{first}", "--grb-model=b=models:build"


def _figures(project: pytest.Pytester) -> Mapping[str, object]:
    """What was measured of each model, without times."""
    cases = json.loads((project.path / "run.json").read_text("utf-8"))["cases"]
    return {
        case["id"].rpartition("@")[0]: None
        if case["outcome"] is None
        else [repeat["victim"] for repeat in case["outcome"]["repeats"]]
        for case in cases
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "first",
    ["gradients_off", "environment", "other_device", "no_streams", "GradientsOff", "OutOfPlace"],
)
def test_what_a_model_changes_does_not_reach_the_next(hostile: pytest.Pytester, first: str) -> None:
    """Both pass, and the good one has the figures that it has alone."""
    hostile.runpytest(*FAST, "--grb-model=b=models:build", JSON)
    (alone,) = _figures(hostile).values()
    result = hostile.runpytest(*FAST, *_models(first), JSON)
    result.assert_outcomes(passed=2)
    assert result.ret == pytest.ExitCode.OK
    assert _figures(hostile)["b"] == alone


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "line"),
    [
        ("Exits", "model a: its own training raised:"),
        ("ExitsInForward", "model a: forward raised when called as (x, edge_index) *"),
    ],
)
def test_an_exit_is_an_error_of_its_case_alone(
    hostile: pytest.Pytester, first: str, line: str
) -> None:
    """The other model is judged; exit code 1."""
    result = hostile.runpytest(*FAST, *_models(first))
    result.assert_outcomes(passed=1, errors=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([line, "*SystemExit: 0"])
    result.stdout.no_fnmatch_line("*site-packages/torch*")


@pytest.mark.parametrize(
    ("first", "line"),
    [
        ("exits", "ERROR: model hostile:exits raised when called:"),
        ("nonsense", "ERROR: model a: the factory returned a int; it must return *"),
        ("without_values", "ERROR: model a: * is on the meta device, which holds no values; *"),
        (
            "no_convention",
            "ERROR: *requires edge_attr, but dataset tiny has no edge_attr*",
        ),
        ("cached", "ERROR: model a: layer first has cached=True *"),
    ],
)
@pytest.mark.parametrize("workers", [[], ["-n", "1"]], ids=["alone", "worker"])
def test_what_the_check_before_the_first_test_finds_is_a_usage_error(
    hostile: pytest.Pytester, first: str, line: str, workers: list[str]
) -> None:
    """Whether the factory raised or returned something of no use: exit code 4, and no case runs."""
    result = hostile.runpytest(*FAST, _models(first)[0], *workers)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([line])
    result.stdout.no_fnmatch_line("*test_attack*")


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [(), ("--grb-jobs=1",)], ids=["here", "worker"])
def test_an_error_of_one_model_does_not_end_the_run_of_another(
    project: pytest.Pytester, jobs: tuple[str, ...]
) -> None:
    """It is told under each of its cases, and the other model has its figures."""
    args = (*TINY, "--grb-model=models:broken,models:Net,nowhere:build", "--grb-difficulty=easy")
    result = project.runpytest(*args, *jobs, "--grb-attack=injection/rnd", "--grb-json=run.json")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    record = json.loads((project.path / "run.json").read_text())
    results = {row["id"].partition("@")[0]: row["result"] for row in record["cases"]}
    assert results == {"broken": "error", "Net": "pass", "nowhere": "error"}
