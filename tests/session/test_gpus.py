"""The GPU of a worker, chosen from lists and texts, on machines without a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grb_check.session import gpus
from grb_check.session.gpus import VISIBLE, gpu_of, parse_listed, take_gpu, visible_gpus

PLAIN = """\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5c89852c-d268-c3f3-1b07-005d5ae1dc3f)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-a4a8d7b0-8a2e-4f57-9a3c-2f6f1f2f7f10)
"""
SLICED = """\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5c89852c-d268-c3f3-1b07-005d5ae1dc3f)
  MIG 3g.20gb     Device  0: (UUID: MIG-c7384736-a75d-5afc-978f-d2f1294409fd)
  MIG 1g.5gb      Device  1: (UUID: MIG-a28ad590-3fda-56dd-84fc-0a0b96edc58d)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-a4a8d7b0-8a2e-4f57-9a3c-2f6f1f2f7f10)
"""


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


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ("0,1", ["0", "1"]),
        (" 3, 5 ", ["3", "5"]),
        ("", []),
        ("-1", []),
        ("2,-1,3", ["2"]),
        ("NoDevFiles", []),
        ("GPU-5c89852c,GPU-a4a8d7b0", ["GPU-5c89852c", "GPU-a4a8d7b0"]),
        ("MIG-GPU-5c89852c/1/0,MIG-c7384736", ["MIG-GPU-5c89852c/1/0", "MIG-c7384736"]),
    ],
)
def test_the_callers_own_list_is_divided(own: str, expected: list[str]) -> None:
    """Numbers or UUIDs, up to the first invalid entry; an empty list means no GPU."""
    assert visible_gpus({VISIBLE: own}, lambda: ["never asked"]) == expected


def test_without_a_list_all_gpus_are_divided() -> None:
    """In the order of the driver."""
    assert visible_gpus({}, lambda: ["0", "1"]) == ["0", "1"]


def test_the_drivers_list_is_read() -> None:
    """Each GPU, or its slices if it has some."""
    first, second = "GPU-5c89852c-d268-c3f3-1b07-005d5ae1dc3f", parse_listed(PLAIN)[1]
    assert parse_listed(PLAIN) == [first, second]
    slices = parse_listed(SLICED)
    assert [each[:12] for each in slices] == ["MIG-c7384736", "MIG-a28ad590", "GPU-a4a8d7b0"]
    assert parse_listed("No devices found.") == []


def test_gpus_are_found_by_the_tool_or_by_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without either, no GPU is found and no program is started."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(gpus, "_DRIVER", tmp_path / "gpus")
    assert gpus.all_gpus() == []
    for name in ("0000:01:00.0", "0000:41:00.0"):
        (tmp_path / "gpus" / name).mkdir(parents=True)
    assert gpus.all_gpus() == ["0", "1"]
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\ncase $1 in -L) printf '%s' '{PLAIN}';; *) exit 1;; esac\n")
    tool.chmod(0o755)
    assert gpus.all_gpus() == parse_listed(PLAIN)
    tool.write_text("#!/bin/sh\nexit 9\n")
    assert gpus.all_gpus() == ["0", "1"]


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
        (_config(grb_pin="", grb_device="cuda"), "6"),  # a pin without a label
        (_config(file_or_dir=["grb::cora"]), "6"),
        (_config(MODEL, grb_device="cuda:1"), "4,6,7"),
        (_config({**MODEL, "grb_device": "cpu"}), "4,6,7"),
        (_config(), "4,6,7"),
    ],
    ids=["option", "ini", "cuda", "auto", "pin", "id", "indexed", "cpu", "unused"],
)
def test_a_worker_takes_its_gpu_if_the_user_names_none(config: Any, seen: str) -> None:
    """An index is the user's choice; a run without the plugin is not changed."""
    assert take_gpu(config) is None
    assert os.environ[VISIBLE] == seen


def test_a_process_that_is_not_a_worker_sees_all_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is divided."""
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    monkeypatch.setenv(VISIBLE, "4,6,7")
    assert take_gpu(_config(**MODEL)) is None
    assert os.environ[VISIBLE] == "4,6,7"


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
    assert gpus.gpu_lines(["0"]) == gpus.gpu_lines([]) == []
    assert gpus.gpu_lines(["3", "5"]) == ["grb GPUs: one for each worker in turn, of 3, 5"]


def test_the_module_imports_neither_torch_nor_numpy() -> None:
    """Every worker imports it first."""
    code = "import sys, grb_check.session.gpus; assert not {'torch', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
