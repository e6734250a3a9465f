"""The GPU of a worker of pytest-xdist, on machines without a GPU."""

from __future__ import annotations

import os
from argparse import Namespace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grb_check.runs.workers.resources import VISIBLE
from grb_check.session.worker_gpus import gpu_lines, gpu_of, take_gpu


def _config(ini: dict[str, str] | None = None, **given: object) -> Any:
    """A pytest config before options are parsed."""
    return SimpleNamespace(
        known_args_namespace=Namespace(**given), getini=lambda name: (ini or {}).get(name)
    )


MODEL = {"grb_model": ["models:build"]}


@given(st.integers(0, 99), st.lists(st.text("0123456789", min_size=1), max_size=8, unique=True))
def test_gpus_go_round_the_list(number: int, gpus: list[str]) -> None:
    """Worker k has entry k; as many gpus as GPUs have one each."""
    chosen = gpu_of(f"gw{number}", gpus)
    assert chosen == (gpus[number % len(gpus)] if gpus else None)
    assert sorted(str(gpu_of(f"gw{k}", gpus)) for k, _ in enumerate(gpus)) == sorted(gpus)
    assert gpu_of("master", gpus) is None


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is the second worker of a caller with three GPUs."""
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw1")
    monkeypatch.setenv(VISIBLE, "4,6,7")


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize(
    ("config", "seen"),
    [
        (_config(**MODEL), "6"),
        (_config(MODEL), "6"),
        (_config(MODEL, grb_device="cuda"), "6"),
        (_config({**MODEL, "grb_device": "auto"}), "6"),
        (_config(file_or_dir=["grb::cora"]), "6"),
        (_config(MODEL, grb_device="cuda:1"), "4,6,7"),
        (_config({**MODEL, "grb_device": "cpu"}), "4,6,7"),
        (_config(), "4,6,7"),
    ],
    ids=["option", "ini", "cuda", "auto", "id", "indexed", "cpu", "unused"],
)
def test_a_worker_takes_its_gpu_if_the_user_names_none(config: Any, seen: str) -> None:
    """An index is the user's choice; a run without the plugin is not changed."""
    assert take_gpu(config) is None
    assert os.environ[VISIBLE] == seen


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize("started", [False, True])
def test_cuda_that_is_already_initialised_is_not_changed(
    started: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads the list once; the note says that gpus may share a GPU."""
    monkeypatch.setattr("torch.cuda.is_initialized", lambda: started)
    note = take_gpu(_config(**MODEL))
    assert os.environ[VISIBLE] == ("4,6,7" if started else "6")
    assert (note is not None and "gw1" in note and "GPU 6" in note) is started


def test_the_header_names_gpus_that_are_shared_out() -> None:
    """A single GPU is not mentioned."""
    assert gpu_lines(["0"]) == gpu_lines([]) == []
    assert gpu_lines(["3", "5"]) == ["grb GPUs: one for each worker in turn, of 3, 5"]
