"""The injection benchmark measures strength, speed and budgets correctly."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import pytest
import torch
from tiny import write_dataset

from benchmarks.command import run
from benchmarks.custom_graph import custom_preset
from benchmarks.injection import arena as bench
from benchmarks.injection import peer, scale
from benchmarks.injection.__main__ import COMMANDS
from benchmarks.rows import markdown
from benchmarks.synthetic import generate
from benchmarks.victims import black_box_view, load_dataset, predicted
from grb_check.attacks.registry import load_attack
from grb_check.errors import UsageError
from grb_check.user_code.randomness import derive_seed


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_dataset(tmp_path / "tiny")


@pytest.fixture
def arena(folder: Path) -> bench.Arena:
    return bench.prepare(load_dataset(str(folder), []), 3)


def test_strength_writes_a_line_for_each_attack_seed_and_victim(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = f"injection strength --data {folder} --difficulty easy --attacks rnd"
    line += " fgsm+iterations=4 --seeds 2 --epochs 2 --white-box"
    monkeypatch.setattr(sys, "argv", line.split())
    run("benchmarks.injection", None, COMMANDS)
    text, table = capsys.readouterr().out.split("\n\n")
    clean, *rows = map(json.loads, text.splitlines())
    models = {"GCN", "second GCN", "GIN", "GCN+LN"}
    assert set(clean["accuracy"]) == models | {"GCN, pruned"}
    counts = {}
    for row in rows:
        key = row["knowledge"], row["attack"]
        counts[key] = counts.get(key, 0) + 1
        assert row["edges"] <= row["edge_budget"] == 20 * 20
        assert row["outside_range"] == 0
    assert counts == {
        ("black-box", "rnd"): 2,
        ("black-box", "fgsm+iterations=4"): 2,
        ("white-box", "fgsm+iterations=4"): 2 * len(models),
    }
    assert len(table.splitlines()) == 2 + 1 + len(counts)


def test_a_watched_attack_does_the_same_and_its_steps_are_counted(arena) -> None:
    attack = bench.with_settings(load_attack("injection", "pgd"), iterations=7, patience=None)
    victim = arena.models["GCN"]
    limits = bench.threat(arena.dataset, "full", nodes=4, links=3)
    known = black_box_view(arena.dataset, predicted(arena.dataset.graph, victim))
    run = bench.run_attack(attack, known, limits, victim, seed=5)
    generator = torch.Generator().manual_seed(derive_seed("attack", "pgd", 5))
    alone = attack.perturb(known, limits, victim, generator)
    assert run.steps == 7
    assert torch.equal(run.perturbation.injected_x, alone.injected_x)
    assert torch.equal(run.perturbation.injected_edges, alone.injected_edges)
    parts = run.structure_seconds, run.engine_seconds, run.search_seconds
    assert min(parts) > 0
    assert sum(parts) == pytest.approx(run.seconds)


def test_black_box_attacks_do_not_see_the_labels_of_test_nodes(arena) -> None:
    dataset = arena.dataset
    wrong = (dataset.graph.y + 1) % dataset.num_classes
    known = black_box_view(dataset, wrong)
    test = dataset.test["full"]
    assert torch.equal(known.y[test], wrong[test])
    assert torch.equal(known.y[dataset.train], dataset.graph.y[dataset.train])


def test_features_outside_the_range_and_links_among_injected_nodes_are_counted(arena) -> None:
    num_nodes = arena.dataset.num_nodes
    limits = bench.threat(arena.dataset, "easy", nodes=2, links=2)
    x = torch.full((2, 4), limits.feature_range[0])
    x[0, 0] -= 1
    links = torch.tensor([[0, 0], [3, num_nodes + 1]])
    found = bench.Perturbation(injected_x=x, injected_edges=links)
    assert bench.spent(found, limits, num_nodes) == {
        "edges": 3,
        "edge_budget": 4,
        "outside_range": 12.5,
    }


def test_the_peer_is_given_the_same_model(arena, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = arena.dataset.graph
    gcn = arena.models["GCN"]
    peer.check_same_model(gcn, graph)
    other = arena.models["second GCN"].module.layers.state_dict()
    monkeypatch.setattr(peer.OnAdjacency, "eval", lambda self: _loaded(self, other))
    with pytest.raises(SystemExit, match="differ"):
        peer.check_same_model(gcn, graph)


def test_scale_refuses_an_unknown_attack_before_it_makes_a_graph(tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    scale.add_arguments(parser)
    options = parser.parse_args(["--attacks", "nonsense", "--home", str(tmp_path / "home")])
    with pytest.raises(UsageError, match="nonsense"):
        next(scale.rows(options))
    assert not (tmp_path / "home").exists()


def test_the_custom_graph_has_the_edges_and_the_homophily_asked_for() -> None:
    preset = custom_preset(4000, 20_000)
    graph = generate(preset, 0)
    rows, columns = graph.adjacency.nonzero()
    assert graph.adjacency.nnz == 2 * 20_000
    homophily = (graph.labels[rows] == graph.labels[columns]).mean()
    assert homophily == pytest.approx(0.75, abs=0.05)


def test_a_table_leaves_out_what_there_is_not() -> None:
    table = markdown([{"a": 1, "b": 0.25}, {"a": None}], ["a", "b"])
    assert table == "| a | b |\n| --- | --- |\n| 1 | 0.25 |\n|  |  |\n"


def _loaded(model: torch.nn.Module, layers: dict[str, torch.Tensor]) -> torch.nn.Module:
    model.layers.load_state_dict(layers)
    return model
