"""The modification benchmark measures strength, speed and budgets correctly."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import strategies
import torch
from hypothesis import given
from tiny import FEATURES, NODES, write_dataset
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks import memory
from benchmarks.command import Command, run
from benchmarks.modification import adaptive, curves, inductive, peer, physics, scale, victims
from benchmarks.modification import arena as bench
from benchmarks.modification.__main__ import COMMANDS
from benchmarks.victims import load_dataset
from grb_check.attacks.registry import load_attack
from grb_check.attacks.threat import apply
from grb_check.datasets.dataset import Dataset
from grb_check.errors import UsageError
from grb_check.gradients.victim import Victim
from grb_check.user_code.randomness import derive_seed


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_dataset(tmp_path / "tiny")


@pytest.fixture
def dataset(folder: Path) -> Dataset:
    return load_dataset(str(folder), [])


@pytest.fixture
def victim(dataset: Dataset) -> Victim:
    return bench.fitted(bench.small_gcn, dataset, name="GCN", seed=0, epochs=20)


class Cut(nn.Module):
    """A model without gradients."""

    def __init__(self, num_features: int, num_classes: int, hidden: int) -> None:
        super().__init__()
        self.weight = nn.Linear(num_features, num_classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.weight(x)


def options_of(benchmark: Command, line: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    benchmark.add_arguments(parser)
    return parser.parse_args(line.split())


def write_npz(path: Path, dataset: Dataset) -> Path:
    """Each edge once and a self-loop more, as the files of that collection have them."""
    graph = dataset.graph
    ends = graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]].numpy()
    ends = np.concatenate([ends, [[0], [0]]], axis=1)
    ones = np.ones(ends.shape[1], dtype=np.float32)
    parts = {
        "adj": sp.csr_matrix((ones, tuple(ends)), shape=(NODES, NODES)),
        "attr": sp.csr_matrix(graph.x.numpy()),
    }
    arrays = {
        f"{name}_{part}": np.asarray(getattr(matrix, part))
        for name, matrix in parts.items()
        for part in ("data", "indices", "indptr", "shape")
    }
    np.savez(path, labels=graph.y.numpy(), **arrays)
    return path


@pytest.mark.slow
def test_both_sides_attack_each_model_within_the_budget(dataset: Dataset) -> None:
    line = "--data . --seeds 1 --epochs 20 --victim own pyg --peers --peer-epochs 3 --block 3000"
    line += " --attacks rnd grbcd+steps=2+exchanges=0"
    rows = list(adaptive.of_dataset(dataset, options_of(adaptive, line)))
    peers = peer.PEERS
    names = ["rnd", "grbcd+steps=2+exchanges=0", *peers]
    assert [(row["victim"], row["attack"]) for row in rows] == [
        (victim, name) for victim in ("own", "pyg") for name in names
    ]
    for row in rows:
        assert 0 < row["used"] == row["added"] + row["removed"] <= row["budget"]
        assert row["budget"] == dataset.num_edges // 20
        assert row["drop"] == pytest.approx(100 * (1 - row["attacked"] / row["clean"]), abs=0.01)
        assert row["threads"] == 1
    assert len(adaptive.table(rows).splitlines()) == 2 + len(rows)


@pytest.mark.slow
def test_curves_have_a_line_for_each_attack_and_more_and_more_work(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our lines and PyG's, each point a run of its own on the same model."""
    monkeypatch.setattr(curves, "LINES", {"eva": ("eva+forwards=1", "eva+forwards=40")})
    monkeypatch.setattr(curves, "PEER_EPOCHS", (2,))
    line = "--data nowhere --lines eva --seeds 0 --epochs 20 --peers --block 3000"
    rows = list(curves.of_dataset(dataset, options_of(curves, line)))
    ours = [row for row in rows if row["line"] == "eva"]
    assert [row["attack"] for row in ours] == ["eva+forwards=1", "eva+forwards=40"]
    assert {row["line"] for row in rows} == {"eva", *(f"PyG {name}" for name in peer.PEERS)}
    for row in rows:
        assert 0 <= row["used"] <= row["budget"] == dataset.num_edges // 20
        assert row["cpu_seconds"] > 0
    assert ours[1]["attacked"] <= ours[0]["attacked"]
    (panel,) = curves.panels(rows)
    assert len(panel.lines["eva"]) == 2
    assert len(curves.table(rows).splitlines()) == 2 + len(rows)


def test_inductive_models_have_not_seen_the_nodes_under_attack(dataset: Dataset) -> None:
    """The budget is a share of the edges of those."""
    made = inductive.split(dataset, 0)
    tested = made.test["full"]
    assert torch.cat([made.train, made.val, tested]).unique().numel() == sum(
        each.numel() for each in (made.train, made.val, tested)
    )
    seen = inductive.seen(made)
    assert seen.num_nodes == dataset.num_nodes - tested.numel()
    for nodes, here in ((made.train, seen.train), (made.val, seen.val)):
        assert torch.equal(made.graph.x[nodes], seen.graph.x[here])
        assert torch.equal(made.graph.y[nodes], seen.graph.y[here])
    touched = torch.isin(dataset.graph.edge_index, tested).any(0).sum() // 2
    assert seen.num_edges == dataset.num_edges - int(touched)
    line = "--data nowhere --attacks eva+forwards=20 --seeds 1 --epochs 20"
    rows = list(inductive.of_split(made, 0, options_of(inductive, line)))
    assert [row["budget"] for row in rows] == [int(touched) // 20]
    assert len(inductive.table(rows).splitlines()) == 3


@given(case=strategies.attacked("modification"))
def test_the_difference_of_two_graphs_is_what_was_done(case) -> None:
    graph, _, done = case
    after = apply(graph, done).edge_index
    found = peer.difference(graph, torch.cat([after, after], dim=1))  # an edge twice counts once
    for field in ("added_edges", "removed_edges"):
        assert set(map(tuple, getattr(found, field).T.tolist())) == set(
            map(tuple, getattr(done, field).T.tolist())
        )


def test_the_peer_attacks_the_same_function_and_leaves_the_random_state(
    dataset: Dataset, victim: Victim
) -> None:
    graph, limits = dataset.graph, bench.limits_of(dataset)
    ones = torch.ones(graph.edge_index.shape[1])
    given_to_peer = peer.LogProbabilities(victim.module)(graph.x, graph.edge_index, ones)
    expected = victim(graph.x, graph.edge_index).log_softmax(dim=1)
    assert torch.allclose(given_to_peer, expected, atol=1e-5)
    before = torch.get_rng_state()
    runs = [
        peer.run_peer(name, victim, dataset, limits, epochs=3, block=3000, seed=4)
        for name in ("GRBCD masked", "GRBCD masked")
    ]
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(*(run.perturbation.added_edges for run in runs))


def test_a_watched_attack_does_the_same_and_its_gradients_are_counted(
    dataset: Dataset, victim: Victim
) -> None:
    attack, limits = load_attack("modification", "fga+steps=3"), bench.limits_of(dataset)
    run = bench.run_attack(attack, dataset.graph, limits, victim, 5)
    generator = torch.Generator().manual_seed(derive_seed("attack", "fga", 5))
    alone = attack.perturb(dataset.graph, limits, victim, generator)
    assert run.gradients >= 3
    assert torch.equal(run.perturbation.added_edges, alone.added_edges)
    assert torch.equal(run.perturbation.removed_edges, alone.removed_edges)


def test_training_keeps_the_state_of_the_lowest_validation_loss(dataset: Dataset) -> None:
    graph, nodes = dataset.graph, dataset.val

    def loss(epochs: int) -> float:
        model = bench.fitted(bench.small_gcn, dataset, name="GCN", seed=1, epochs=epochs)
        return float(F.cross_entropy(model(graph.x, graph.edge_index)[nodes], graph.y[nodes]))

    losses = [loss(epochs) for epochs in (1, 5, 40, 80)]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0]


@pytest.mark.slow
def test_black_box_writes_a_line_for_each_attack_and_seed_beside_the_reference(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["rnd", "flip+restrict=deletions", "random-flips"]
    line = f"modification black-box --data {folder} --seeds 2 --attacks"
    monkeypatch.setattr(sys, "argv", [*line.split(), *names])
    run("benchmarks.modification", None, COMMANDS)
    text, table = capsys.readouterr().out.split("\n\n")
    rows = [json.loads(each) for each in text.splitlines()]
    assert [(row["seed"], row["attack"]) for row in rows] == [
        (seed, name) for seed in (0, 1) for name in names
    ]
    assert all(row["used"] <= row["budget"] for row in rows)
    left = [row["reference"]["GRB leaves, published"] for row in rows[:3]]
    assert left == [85.0, 83.8, None]
    assert len(table.splitlines()) == 2 + len(names)


def test_a_victim_without_gradients_for_edges_is_a_row_with_the_reason(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(victims.VICTIMS, "cut", Cut)
    options = options_of(victims, "--data . --epochs 2 --attacks rnd prbcd+iterations=2")
    options.victims = ["cut"]
    plain, refused = victims.of_dataset(dataset, options)
    assert plain["drop"] == 0
    assert "no gradient for edges" in refused["error"]
    assert "clean" not in refused
    assert victims.table([plain, refused]).splitlines()[-1].endswith(f"{refused['error']} |")


@pytest.mark.slow
def test_every_victim_of_the_library_learns_and_is_attacked(dataset: Dataset) -> None:
    line = "--data . --epochs 30 --hidden 8 --attacks grbcd+steps=2+exchanges=0"
    rows = list(victims.of_dataset(dataset, options_of(victims, line)))
    assert [row["victim"] for row in rows] == ["GCN", "GAT", "GIN", "GraphSAGE", "APPNP"]
    for row in rows:
        assert row["clean"] > 40, "three classes"
        assert row["gradients"] > 0
        assert row["attacked"] < row["clean"]


def test_scale_measures_the_weights_that_were_trained(folder: Path, tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    settings = {"folder": folder, "weights": tmp_path / "w.npz", "epochs": 3, "threads": threads}
    trained = scale.train(scale.Job(**settings))
    row = scale.measure(scale.Job(**settings, attack="stack"))
    assert row["clean"] == trained["clean"]
    assert row["num_nodes"] == NODES
    assert 0 < row["used"] <= row["budget"] == row["num_edges"] // 20


@pytest.mark.parametrize(("benchmark", "where"), [(scale, "--home"), (physics, "--data")])
def test_an_unknown_attack_is_refused_before_anything_is_made(
    tmp_path: Path, benchmark: Command, where: str
) -> None:
    options = options_of(benchmark, f"--attacks nonsense {where} {tmp_path / 'new'}")
    with pytest.raises(UsageError, match="nonsense"):
        next(benchmark.rows(options))
    assert not (tmp_path / "new").exists()


def test_physics_measures_both_sides_on_raw_features(dataset: Dataset, tmp_path: Path) -> None:
    file = write_npz(tmp_path / "graph.npz", dataset)
    graph = physics.raw_graph(file)
    assert graph.graph.edge_index.tolist() == dataset.graph.edge_index.tolist()
    assert torch.equal(graph.graph.x, dataset.graph.x)
    assert graph.num_features == FEATURES
    sizes = [part.numel() for part in (graph.train, graph.val, graph.test["full"])]
    assert sizes == [60, 90, NODES - 150]
    settings = {"file": file, "weights": tmp_path / "w.npz", "threads": torch.get_num_threads()}
    trained = physics.train(physics.Job(**settings, epochs=20))
    ours = physics.measure(physics.Job(**settings, attack="grbcd+steps=2+exchanges=0"))
    job = physics.Job(**settings, attack="PRBCD tanh_margin", epochs=3, block=3000)
    peers = physics.measure_peer(job)
    assert trained["clean"] == ours["clean"] == peers["clean"]
    assert peers["gradients"] == 3
    for row in (ours, peers):
        assert row["s_per_gradient"] == pytest.approx(row["seconds"] / row["gradients"], abs=1e-3)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux")
def test_the_peak_of_memory_begins_anew() -> None:
    large = torch.ones(100 * 2**18)  # 100 MiB
    high = memory.peak_mib()
    del large
    memory.reset_peak()
    assert memory.peak_mib() < high - 50
    large = torch.ones(100 * 2**18)
    assert memory.peak_mib() > high - 50
    assert float(large[0]) == 1


@pytest.mark.real
def test_planetoid_is_loaded_raw_with_its_public_split_and_left_alone(real_data: Path) -> None:
    before = sorted((real_data / "planetoid").rglob("*"))
    cora = bench.public_planetoid(real_data / "planetoid", "Cora")
    assert sorted((real_data / "planetoid").rglob("*")) == before
    assert [part.numel() for part in (cora.train, cora.val, cora.test["full"])] == [140, 500, 1000]
    assert cora.graph.x.unique().tolist() == [0, 1]
    assert bench.limits_of(cora).edge_budget == 263


def test_the_plot_has_a_point_for_each_attack_of_each_side() -> None:
    """Its means over the seeds; what takes no time can be drawn on a logarithmic axis."""
    head = {"data": "Cora", "victim": "own"}
    made = [
        head | {"side": "ours", "attack": "prbcd", "attacked": 50.0, "seconds": 2.0},
        head | {"side": "ours", "attack": "prbcd", "attacked": 54.0, "seconds": 4.0},
        head | {"side": peer.PEER, "attack": "PRBCD", "attacked": 60.0, "seconds": 0.0},
    ]
    (panel,) = adaptive.panels(made)
    assert panel.points == {"prbcd": (3.0, 52.0), "PyG PRBCD": (0.01, 60.0)}
