"""The whole command on real graphs, with PyG's own models as factories."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

MODELS = ("GCN", "GraphSAGE")
FOUR_FILES = "grb-format/planetoid-cora"
CASES_A_MODEL = 2 * 6  # difficulties x attacks

pytestmark = [pytest.mark.real, pytest.mark.slow]


def run(folder: Path, data: Path, name: str, *args: str) -> dict[str, Any]:
    """The JSON record of one run of the command in an empty folder."""
    command = [sys.executable, "-m", "pytest", "-q", "--grb-only", f"--grb-data={data}"]
    command += [f"--grb-json={name}.json", "--grb-repeats=1", *args]
    command += ["--grb-model-args=hidden_channels=64,num_layers=2"]
    finished = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert finished.returncode in (0, 1), finished.stdout + finished.stderr
    return json.loads((folder / f"{name}.json").read_text())


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory, real_data: Path) -> dict[str, Any]:
    """Two models on a real graph, easy and hard, all attacks."""
    models = [f"--grb-model=torch_geometric.nn.models:{name}" for name in MODELS]
    return run(
        tmp_path_factory.mktemp("real"),
        real_data,
        "all",
        *models,
        f"--grb-dataset=four-files={real_data / FOUR_FILES}",
        "--grb-difficulty=easy,hard",
        "--grb-max-drop=0.3",
    )


def test_every_case_is_measured(record: dict[str, Any]) -> None:
    """No error, no case missing, every accuracy a fraction of the targets."""
    assert record["missing"] == []
    assert len(record["cases"]) == len(MODELS) * CASES_A_MODEL
    for case in record["cases"]:
        assert case["result"] in ("pass", "fail"), case["message"]
        outcome = case["outcome"]
        first = outcome["repeats"][0]
        for side in (first["victim"], *first["references"].values()):
            for figure in ("clean", "attacked"):
                count = side[figure] * outcome["targets"]
                assert count == pytest.approx(round(count))


def test_every_model_is_a_fair_classifier(record: dict[str, Any]) -> None:
    """Clean accuracy well above chance everywhere: the harness trains what it is given."""
    for case in record["summary"]["cases"]:
        assert case["clean"] > 0.55, case["id"]


def test_easy_targets_drop_more_than_hard_ones_under_injection(record: dict[str, Any]) -> None:
    """GRB's difficulties order the drops, on average over models, datasets and attacks."""
    drops: dict[str, list[float]] = {"easy": [], "hard": []}
    for case in record["summary"]["cases"]:
        _, difficulty, scenario, _ = case["id"].split("/")
        if scenario == "injection":
            drops[difficulty].append(case["drop"])
    assert statistics.fmean(drops["easy"]) > statistics.fmean(drops["hard"])


def test_gradient_attacks_hurt_more_than_random_injection(record: dict[str, Any]) -> None:
    """Otherwise the surrogate teaches nothing."""
    means = {
        attack: statistics.fmean(
            case["drop"]
            for case in record["summary"]["cases"]
            if case["id"].endswith(f"injection/{attack}")
        )
        for attack in ("rnd", "fgsm", "pgd")
    }
    assert min(means["fgsm"], means["pgd"]) > means["rnd"] + 0.05
