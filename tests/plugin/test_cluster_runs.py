"""Runs whose tasks a cluster of Dask measures."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import torch
from dask_processes import Cluster, cluster
from differences import differences, timeless
from plugin_names import TINY

ARGS = (
    *TINY,
    "--grb-only",
    "--grb-attack=injection/rnd,injection/fgsm",
    "--grb-difficulty=easy,hard",
    "--grb-repeats=2",
    "--grb-store=off",
    "--grb-max-drop=1",
    "--grb-min-clean=0",
)

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")

KILLING = """
import os
import signal

from grb_check import SelfTrained
from models import Net


def build(num_features, num_classes):
    def fit(data):
        os.kill(os.getpid(), signal.SIGKILL)

    return SelfTrained(Net(num_features, num_classes), fit)
"""

BROKEN = """
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor


class Broken(ThreadPoolExecutor):
    def submit(self, *args, **kwargs):
        raise BrokenExecutor("no worker is left")
"""


@pytest.fixture
def workers(project: pytest.Pytester) -> Iterator[Cluster]:
    """Three workers, which can import what is in the project's folder."""
    project.makepyfile(killing=KILLING)
    project.mkdir("cluster")
    with cluster(project.path / "cluster") as made:
        for _ in range(3):
            # Dask would give it one, and the record names their number.
            threads = dict.fromkeys(THREADS, str(torch.get_num_threads()))
            made.add_worker(path=[project.path], variables=threads)
        made.wait_for_workers(3)
        yield made


@pytest.mark.slow
def test_a_cluster_finds_what_one_process_finds(project: pytest.Pytester, workers: Cluster) -> None:
    """Bit for bit, without a store; the header names the workers."""
    model = "--grb-model=models:build"
    project.runpytest(*ARGS, model, "--grb-json=here.json").assert_outcomes(passed=4)
    executor = f"--grb-executor=dask:{workers.address}"
    result = project.runpytest(*ARGS, model, executor, "--grb-json=there.json")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines([f"grb measures in: dask at {workers.address}, 3 workers"])
    here, there = (
        timeless(json.loads((project.path / name).read_text()))
        for name in ("here.json", "there.json")
    )
    assert "\n".join(differences(here, there)) == ""


@pytest.mark.slow
def test_a_model_that_kills_its_workers_loses_its_cases_alone(
    project: pytest.Pytester, workers: Cluster
) -> None:
    """They are named, those of another model are judged, and new workers come in."""
    executor = f"--grb-executor=dask:{workers.address}"
    both = ("--grb-model=sound=models:build", "--grb-model=deadly=killing:build")
    result = project.runpytest(*ARGS, *both, executor)
    assert result.ret == 3
    result.assert_outcomes(passed=4, errors=4)
    result.stdout.fnmatch_lines(["no verdict on 4 cases; the run cannot be green.*"])
    for case in ("easy/injection/rnd", "hard/injection/fgsm"):
        result.stdout.fnmatch_lines([f"grb::deadly::tiny::test_attack[[]{case}]"])


def test_workers_that_are_lost_at_the_start_are_no_usage_error(project: pytest.Pytester) -> None:
    """The exit code is that of lost cases, and one line says that there are no results."""
    project.makepyfile(broken=BROKEN)
    result = project.runpytest(*ARGS, "--grb-model=models:build", "--grb-executor=broken:Broken")
    assert result.ret == 3
    assert "no worker is left; nothing was measured" in f"{result.stdout}{result.stderr}"
