"""Workers of pytest-xdist: each trains for itself, and sees its own GPU."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from plugin_names import TINY

from grb_check.session import worker_gpus

MODELS = """
from grb_check import SelfTrained
from models import Net


def fails(num_features, num_classes, seed):
    def fit(data):
        raise RuntimeError("the user's own fault")

    return SelfTrained(Net(num_features, num_classes), fit)
"""

CONFTEST = """
import os
from pathlib import Path


def pytest_runtest_setup(item):
    told = getattr(item.config, "workerinput", None)
    if told is not None:
        path = Path(__file__).parent / told["workerid"]
        path.write_text(os.environ["CUDA_VISIBLE_DEVICES"])
"""

ARGS = (
    *TINY,
    "--grb-model=sound=models:build",
    "--grb-model=broken=failing:fails",
    "--grb-attack=injection/fgsm",
    "--grb-difficulty=easy,medium,hard,full",
    "--grb-repeats=2",
    "--grb-store=off",
    "--grb-max-drop=1",
    "--grb-min-clean=0",
)
TIMES = ("seconds", "training_seconds", "from_store", "measured_before")


def _cases(path: Path) -> dict[str, Any]:
    """The result of each case, without times and the name of the worker."""
    record = json.loads(path.read_text())
    cases = {}
    for case in record["cases"]:
        outcome = _timeless(case["outcome"] or {"repeats": []})
        repeats = list(map(_timeless, outcome["repeats"]))
        message = re.sub(r"^\[gw\d\] .*\n", "", case["message"])  # xdist names the worker
        cases[case["id"]] = case["result"], message, {**outcome, "repeats": repeats}
    return cases


def _timeless(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name not in TIMES}


def test_a_gpu_that_cannot_be_selected_is_a_warning(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in the summary of the run, once for each worker."""
    monkeypatch.setattr(worker_gpus, "take_gpu", lambda config: "worker gw0 sees every GPU")
    project.makepyfile(test_own="def test_own(): pass")
    result = project.runpytest()
    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(["*WorkerWarning: worker gw0 sees every GPU*"])


@pytest.mark.slow
def test_workers_find_what_one_process_finds(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit, without a store, though each trains for itself; and each sees its own GPU."""
    project.makepyfile(failing=MODELS)
    project.makeconftest(CONFTEST)
    project.runpytest(*ARGS, "--grb-json=alone.json").assert_outcomes(passed=4, errors=4)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,GPU-5c89852c")
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)  # of the run that this test is in
    divided = project.runpytest(*ARGS, "-n", "2", "--grb-json=divided.json")
    divided.assert_outcomes(passed=4, errors=4)
    assert _cases(project.path / "divided.json") == _cases(project.path / "alone.json")
    seen = [(project.path / f"gw{number}").read_text() for number in range(2)]
    assert seen == ["3", "GPU-5c89852c"]
