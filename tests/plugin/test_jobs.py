"""Runs that are measured in processes of their own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from differences import differences, timeless

MODELS = """
import os
import signal
from pathlib import Path

from grb_check import SelfTrained
from grb_check.training.nodes import TrainingSettings, fit_with
from models import Net

HERE = Path(__file__).parent


def build(num_features, num_classes, seed):
    net = Net(num_features, num_classes)
    inner = fit_with(net, TrainingSettings(max_epochs=5))

    def fit(data, validation=None):
        with (HERE / "trainings").open("a") as log:
            log.write(f"{os.getpid()} {seed}\\n")
        print("training", seed)
        inner(data, validation)

    return SelfTrained(net, fit)


def deadly(num_features, num_classes, seed):
    if seed == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return Net(num_features, num_classes)


def greedy(num_features, num_classes, seed):
    if seed == 1:
        raise MemoryError("no memory left")
    return Net(num_features, num_classes)
"""
GATE = ("--grb-dataset=./tiny", "--grb-max-drop=1", "--grb-min-clean=0")
CASES = (*GATE, "--grb-only", "--grb-difficulty=easy,full", "--grb-model=counted:build")
ARGS = (*CASES, "--grb-attack=injection/rnd,attacks:Average", "--grb-store=off")


def assert_same(first: Path, second: Path) -> None:
    """The two records differ in times and origins at most."""
    assert differences(*(timeless(json.loads(path.read_text())) for path in (first, second))) == []


@pytest.fixture
def counted(project: pytest.Pytester) -> pytest.Pytester:
    project.makepyfile(counted=MODELS)
    return project


@pytest.mark.slow
def test_two_processes_find_what_one_finds(counted: pytest.Pytester) -> None:
    """The same record; each victim is trained once; what a model prints is not on the terminal."""
    log = counted.path / "trainings"
    args = (*ARGS, "--grb-repeats=3", "--grb-attack=injection/worst")
    counted.runpytest(*args, "--grb-json=here.json").assert_outcomes(passed=6)
    log.unlink()
    result = counted.runpytest(*args, "--grb-jobs=2", "--grb-json=elsewhere.json")
    result.assert_outcomes(passed=6)
    result.stdout.fnmatch_lines(["grb measures in: 2 processes"])
    result.stdout.no_fnmatch_line("*training 0*")
    assert_same(counted.path / "here.json", counted.path / "elsewhere.json")
    trained = [line.split() for line in log.read_text().splitlines()]
    assert sorted(seed for _, seed in trained) == ["0", "1", "2"]
    assert len({process for process, _ in trained}) == 2


OWN = """
import pytest


@pytest.mark.grb(dataset="tiny", difficulty="easy", attack="injection/rnd", repeats=2)
def test_own(grb_outcome, grb_verdict):
    assert len(grb_outcome.repeats) == 2


class TestFixture:
    @pytest.fixture
    def grb_model(self):
        from counted import build

        return build

    @pytest.mark.grb(dataset="tiny", difficulty="full", attack="injection/rnd")
    def test_of_a_fixture(self, grb_outcome):
        assert grb_outcome.model == "build"
"""


@pytest.mark.slow
def test_own_tests_and_selections_work_as_before(counted: pytest.Pytester) -> None:
    """Only what is selected is measured; a model of a fixture stays here, and a line says so."""
    counted.makepyfile(test_own=OWN)
    log = counted.path / "trainings"
    selected = ("--grb-difficulty=easy", "--grb-attack=injection/rnd", "--grb-repeats=1")
    result = counted.runpytest(
        *GATE,
        *selected,
        "--grb-model=counted:build",
        "--grb-store=off",
        "--grb-data=.",
        "--grb-jobs=1",
        "-k",
        "own or fixture",
    )
    result.assert_outcomes(passed=2, deselected=1)
    result.stdout.fnmatch_lines(["grb: build was measured in pytest's own process: *"])
    trained = [line.split() for line in log.read_text().splitlines()]
    assert sorted(seed for _, seed in trained) == ["0", "0", "1"]
    assert len({process for process, _ in trained}) == 2  # one of them this one


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "why"),
    [
        ("deadly", "lost twice: *SIGKILL*"),
        ("greedy", "lost twice: not enough memory: *tiny/easy/injection/rnd: *"),
    ],
)
def test_what_is_lost_twice_is_named(counted: pytest.Pytester, model: str, why: str) -> None:
    """Its cases have no verdict, and all others are judged."""
    models = ("--grb-model=sound=counted:build", f"--grb-model=lossy=counted:{model}")
    selected = ("--grb-attack=injection/rnd", "--grb-difficulty=easy", "--grb-repeats=2")
    args = (*GATE, *models, *selected, "--grb-store=off", "--grb-jobs=1", "--grb-only")
    result = counted.runpytest(*args, "--grb-json=run.json")
    assert result.ret == pytest.ExitCode.INTERNAL_ERROR
    result.assert_outcomes(passed=1, errors=1)
    missing = "grb::lossy::tiny::test_attack[[]easy/injection/rnd]"
    result.stdout.fnmatch_lines([f"*{why}", "*grb cases without a verdict*", missing])
    assert len(json.loads((counted.path / "run.json").read_text())["missing"]) == 1


@pytest.mark.slow
def test_wrong_input_ends_the_run_before_any_work(counted: pytest.Pytester) -> None:
    """As in one process, with exit code 4 and one line."""
    for wrong, text in (
        ("--grb-model=models:broken", "*the factory's own fault*"),
        ("--grb-jobs=0", "*--grb-jobs '0' is not a number of processes; give a whole number*"),
        ("--grb-resume", "*--grb-resume takes measurements from the store, which is off; *"),
        ("-n1", "*--grb-jobs measures in processes of its own*leave -n away*"),
    ):
        jobs = () if "jobs" in wrong else ("--grb-jobs=1",)
        args = [option for option in ARGS if not ("model" in option and "model" in wrong)]
        result = counted.runpytest(*args, *jobs, wrong)
        assert result.ret == pytest.ExitCode.USAGE_ERROR, wrong
        result.stderr.fnmatch_lines([text])


@pytest.mark.slow
def test_a_resumed_run_measures_only_what_is_missing(counted: pytest.Pytester) -> None:
    """And everything again if the model has changed, or if it is not asked to resume."""
    log = counted.path / "trainings"
    args = (*CASES, "--grb-repeats=2", "--grb-store=kept")

    def trainings(attacks: str, *more: str) -> int:
        log.unlink(missing_ok=True)
        result = counted.runpytest(*args, f"--grb-attack=injection/rnd,attacks:{attacks}", *more)
        result.assert_outcomes(passed=4)
        return len(log.read_text().splitlines()) if log.exists() else 0

    interrupted = counted.runpytest(*args, "--grb-attack=injection/rnd", "--grb-case=*/easy/*")
    interrupted.assert_outcomes(passed=1)
    assert trainings("Stored", "--grb-json=first.json") == 2
    assert trainings("Stored", "--grb-json=second.json", "--grb-resume") == 0
    assert_same(counted.path / "first.json", counted.path / "second.json")
    assert trainings("Average", "--grb-resume") == 2  # it has no version to notice a change by
    helper = counted.path / "models.py"  # which the module of the model imports
    helper.write_text(f"{helper.read_text()}\nCHANGED = True\n")
    assert trainings("Stored", "--grb-resume") == 2
