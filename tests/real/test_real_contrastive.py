"""Encoders with a linear probe on real data: a set of graphs, and Cora's public split."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.real, pytest.mark.slow]

ENCODER = """
import torch
from torch_geometric.nn import GCNConv

import grb_check


class Projection(torch.nn.Module):
    '''A random projection of every node's neighbourhood.'''

    def __init__(self, num_features):
        super().__init__()
        self.first, self.second = GCNConv(num_features, 128), GCNConv(128, 128)

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index)


def build(num_features):
    return grb_check.Encoder(Projection(num_features), pretrain=seen)


def seen(data):
    assert data.num_nodes == 2708
    assert int(data.train_mask.sum()) == 140
    assert bool((data.y[~data.train_mask] == -1).all())
"""


def run(folder: Path, data: Path, *args: str) -> dict[str, Any]:
    """The outcomes and figures of a passing run, by attack."""
    command = [sys.executable, "-m", "pytest", "--grb-only", "-q", "--grb-repeats=1"]
    limits = ["--grb-max-drop=1", "--grb-min-clean=0", "--grb-json=run.json"]
    done = subprocess.run(
        [*command, *limits, f"--grb-data={data}", *args],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    record = json.loads((folder / "run.json").read_text())
    figures = {case["id"]: case for case in record["summary"]["cases"]}
    return {
        case["id"].rpartition("/")[2]: case["outcome"] | figures[case["id"]]
        for case in record["cases"]
    }


def test_the_paper_s_suite_probes_an_encoder_on_cora(tmp_path: Path, real_data: Path) -> None:
    """Trained on the whole graph, attacked on the public split's test nodes."""
    (tmp_path / "enc.py").write_text(ENCODER)
    result = run(
        tmp_path,
        real_data,
        "--grb-model=enc:build",
        "--grb-suite=contrastive",
        "--grb-dataset=planetoid-cora",
        "--grb-attack=prbcd+iterations=5",
    )
    (outcome,) = result.values()
    assert outcome["targets"] == 1000
    assert outcome["clean"] > 0.5
    assert outcome["drop"] > 0.15
    assert outcome["repeats"][0]["method"] == "adaptive"
    assert "learned transductively" in outcome["origin"]
