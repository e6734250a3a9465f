"""The GPUs of a machine, from lists and texts, on machines without a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from grb_check.runs.workers import resources
from grb_check.runs.workers.resources import parse_listed, visible_gpus

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


def test_without_a_list_all_gpus_are_divided() -> None:
    """In the order of the driver."""
    assert visible_gpus({}, lambda: ["0", "1"]) == ["0", "1"]


def test_the_drivers_list_is_read() -> None:
    """Each GPU, or its slices if it has some."""
    first, second = "GPU-5c89852c-d268-c3f3-1b07-005d5ae1dc3f", parse_listed(PLAIN)[1]
    assert parse_listed(PLAIN) == [first, second]
    slices = parse_listed(SLICED)
    assert [gpu[:12] for gpu in slices] == ["MIG-c7384736", "MIG-a28ad590", "GPU-a4a8d7b0"]
    assert parse_listed("No devices found.") == []


def test_gpus_are_found_by_the_tool_or_by_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without either, no GPU is found and no program is started."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(resources, "_DRIVER", tmp_path / "gpus")
    assert resources.all_gpus() == []
    for name in ("0000:01:00.0", "0000:41:00.0"):
        (tmp_path / "gpus" / name).mkdir(parents=True)
    assert resources.all_gpus() == ["0", "1"]
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\ncase $1 in -L) printf '%s' '{PLAIN}';; *) exit 1;; esac\n")
    tool.chmod(0o755)
    assert resources.all_gpus() == parse_listed(PLAIN)
    tool.write_text("#!/bin/sh\nexit 9\n")
    assert resources.all_gpus() == ["0", "1"]
