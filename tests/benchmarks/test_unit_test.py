"""The published unit test as datasets and a pack."""

from __future__ import annotations

import json

import pytest
from unit_test_file import write

from benchmarks.unit_test import convert


def test_the_unit_test_runs_from_its_pack(pytester: pytest.Pytester) -> None:
    """Each case has the largest perturbation within its budget, and no surrogate is trained."""
    paths = convert(write(pytester.path / "unit_test.npz"), pytester.path / "out", [0.01])
    assert len(paths) == 11
    run = (
        "--grb-only",
        "--grb-model=torch_geometric.nn.models:GCN",
        "--grb-model-args=hidden_channels=4,num_layers=1",
        "--grb-dataset=out/citeseer-1.pt",
        "--grb-pack=out/flips.npz",
        "--grb-split=given",
        "--grb-training=transductive",
        "--grb-features=rows",
        "--grb-repeats=1",
        "--grb-max-drop=1",
        "--grb-min-clean=0",
    )
    attack = "--grb-attack=benchmarks.unit_test:PublishedFlips+against="
    names = ("gcn", "jaccard_gcn", "gcn+budget=0.01")
    result = pytester.runpytest(
        *run, "--grb-difficulty=full", *(attack + name for name in names), "--grb-json=run.json"
    )
    result.assert_outcomes(passed=3)
    record = json.loads((pytester.path / "run.json").read_text("utf-8"))
    flips = [sum(case["outcome"]["repeats"][0]["spent"].values()) for case in record["cases"]]
    assert sorted(flips) == [2, 8, 8]
    refused = pytester.runpytest(*run, "--grb-difficulty=easy", attack + "gcn")
    refused.stderr.fnmatch_lines(["*flips.npz' lacks *"])
