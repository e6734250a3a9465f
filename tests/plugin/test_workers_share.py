"""Workers of one run train each victim once, and each sees its own GPU."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from plugin_names import TINY

from grb_check.session import workers
from grb_check.session.run import Run

MODELS = """
import os
import time
from pathlib import Path
from grb_check import SelfTrained
from grb_check.training.nodes import TrainingSettings, fit_with
from models import Net

HERE = Path(__file__).parent


def build(num_features, num_classes, seed):
    net = Net(num_features, num_classes)
    inner = fit_with(net, TrainingSettings(max_epochs=10))

    def fit(data, validation=None):
        with (HERE / "trainings").open("a") as log:
            log.write(f"sound-{seed}\\n")
        inner(data, validation)

    return SelfTrained(net, fit)


def fails(num_features, num_classes, seed):
    def fit(data):
        with (HERE / "trainings").open("a") as log:
            log.write(f"broken-{seed}\\n")
        time.sleep(1)  # so that the other worker comes in the meantime
        raise RuntimeError("the user's own fault")

    return SelfTrained(Net(num_features, num_classes), fit)
"""

CONFTEST = """
import os
from pathlib import Path

HERE = Path(__file__).parent


def pytest_runtest_setup(item):
    told = getattr(item.config, "workerinput", None)
    if told is None:
        return
    text = f"{os.environ['CUDA_VISIBLE_DEVICES']} {told['grb_check_folder']}"
    (HERE / f"{told['workerid']}-{item.callspec.params['grb_case'].model}").write_text(text)


def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        return
    from grb_check.evaluation import own_models

    train = own_models.surrogate

    def counted(*args, kind, seed, **more):
        with (HERE / "own").open("a") as log:
            log.write(f"{kind}-{seed}\\n")
        return train(*args, kind=kind, seed=seed, **more)

    own_models.surrogate = counted
"""

ARGS = (
    *TINY,
    "--grb-model=sound=counted:build",
    "--grb-model=broken=counted:fails",
    "--grb-attack=injection/fgsm",
    "--grb-difficulty=easy,medium,hard,full",
    "--grb-repeats=2",
    "--grb-store=off",
    "--grb-max-drop=1",
    "--grb-min-clean=0",
)
TIMES = ("seconds", "training_seconds", "from_store")


def _cases(path: Path) -> dict[str, Any]:
    """The result of each case, without times and the name of the worker."""
    record = json.loads(path.read_text())
    found = {}
    for case in record["cases"]:
        outcome = _timeless(case["outcome"] or {"repeats": []})
        repeats = list(map(_timeless, outcome["repeats"]))
        message = re.sub(r"^\[gw\d\] .*\n", "", case["message"])  # xdist names the worker
        found[case["id"]] = case["result"], message, {**outcome, "repeats": repeats}
    return found


def _timeless(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name not in TIMES}


def test_a_gpu_that_cannot_be_selected_is_a_warning(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in the summary of the run, once for each worker."""
    monkeypatch.setattr(workers, "take_gpu", lambda config: "worker gw0 sees every GPU")
    project.makepyfile(test_own="def test_own(): pass")
    result = project.runpytest()
    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(["*WorkerWarning: worker gw0 sees every GPU*"])


def test_workers_run_without_a_folder_that_cannot_be_created(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If no folder can be created, each worker trains for itself."""

    def read_only(*_: object, **__: object) -> None:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr("grb_check.session.run.TemporaryDirectory", read_only)
    told: dict[str, Any] = {}
    run = object.__new__(Run)
    run._folder = None
    run.hand_over(told)
    assert not told
    assert workers.folder_of_run(SimpleNamespace(workerinput=told)) is None


@pytest.mark.slow
def test_workers_train_each_victim_once_and_find_the_same(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit, also without a store; a failed training is not repeated by the other worker."""
    project.makepyfile(counted=MODELS)
    project.makeconftest(CONFTEST)
    log = project.path / "trainings"
    project.runpytest(*ARGS, "--grb-json=alone.json").assert_outcomes(passed=4, errors=4)
    alone = sorted(log.read_text().split())
    log.unlink()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,GPU-5c89852c")
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)  # of the run that this test is in
    shared = project.runpytest(*ARGS, "-n", "2", "--grb-json=shared.json")
    shared.assert_outcomes(passed=4, errors=4)
    trained = sorted(log.read_text().split())
    assert alone == ["broken-0", "sound-0", "sound-1"]
    # While one worker trains broken-0, which fails, the other may train the seed after it.
    assert [each for each in trained if each != "broken-1"] == alone
    assert trained.count("broken-1") <= 1
    own = (project.path / "own").read_text().split()
    assert len(own) == len(set(own)) == 3  # the surrogate, and the reference of two repeats
    assert _cases(project.path / "shared.json") == _cases(project.path / "alone.json")
    seen = [(project.path / f"gw{number}-sound").read_text().split() for number in range(2)]
    assert [each[0] for each in seen] == ["3", "GPU-5c89852c"]
    assert seen[0][1] == seen[1][1]
    assert not Path(seen[0][1]).exists()
