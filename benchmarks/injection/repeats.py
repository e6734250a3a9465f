"""Several repeats in one pass of the surrogate, compared with one after another."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.injection.arena import threat
from benchmarks.rows import Row, markdown
from benchmarks.victims import load_dataset, raw_gcn
from grb_check.attacks.injection.shared.links import random_links
from grb_check.attacks.objectives import tanh_margin
from grb_check.datasets.dataset import Dataset
from grb_check.gradients.alternating import RowWise, injected_logits
from grb_check.models.reference.gcn import GCN

STEPS = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", required=True, help="folder or name of a dataset")
    parser.add_argument("--folder", nargs="+", type=Path, default=[], help="where names are sought")
    parser.add_argument("--repeats", type=int, nargs="+", default=[1, 3, 10])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)


def rows(options: argparse.Namespace) -> Iterator[Row]:
    """Yield milliseconds of a step for each number of repeats, alone and together."""
    dataset = load_dataset(options.data, options.folder)
    module = raw_gcn(dataset.num_features, dataset.num_classes).eval().requires_grad_(False)
    assert isinstance(module, GCN)
    for threads in options.threads:
        torch.set_num_threads(threads)
        for difficulty in ("easy", "full"):
            for repeats in options.repeats:
                yield _measured(dataset, module, difficulty, repeats, options.rounds) | {
                    "data": dataset.name,
                    "threads": threads,
                }


def table(rows: Sequence[Row]) -> str:
    columns = ("data", "threads", "difficulty", "repeats", "alone_ms", "together_ms", "ratio")
    return markdown(rows, columns)


def _measured(dataset: Dataset, module: GCN, difficulty: str, repeats: int, rounds: int) -> Row:
    """Return medians of alternating rounds."""
    alone, together = (_passes(dataset, module, difficulty, count) for count in (1, repeats))
    times = [(_step_ms(*alone), _step_ms(*together) / repeats) for _ in range(rounds)]
    one, many = (statistics.median(durations) for durations in zip(*times, strict=True))
    return {
        "difficulty": difficulty,
        "repeats": repeats,
        "alone_ms": one,
        "together_ms": many,
        "ratio": one / many,
    }


def _passes(
    dataset: Dataset, module: GCN, difficulty: str, repeats: int
) -> tuple[RowWise, Tensor, Tensor]:
    """Return logits of the targets of disjoint copies of the graph, each with its own links."""
    graph, limits = dataset.graph, threat(dataset, difficulty)
    size, new = dataset.num_nodes, limits.injected_nodes
    edges, targets = [], []
    for copy in range(repeats):
        links, _ = random_links(limits, torch.Generator().manual_seed(copy))
        ends = torch.stack([links[0] + repeats * size + copy * new, links[1] + copy * size])
        edges += [graph.edge_index + copy * size, ends, ends.flip(0)]
        targets.append(limits.targets + copy * size)
    logits_of = injected_logits(
        module,
        graph.x.repeat(repeats, 1),
        torch.cat(edges, dim=1),
        repeats * new,
        torch.cat(targets),
    )
    features = torch.zeros((repeats * new, dataset.num_features))
    return logits_of, features, graph.y[limits.targets].repeat(repeats)


def _step_ms(logits_of: RowWise, features: Tensor, labels: Tensor) -> float:
    begin = time.perf_counter()
    for _ in range(STEPS):
        features = features.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(tanh_margin(logits_of(features), labels), features)
        features = (features.detach() + 0.01 * gradient.sign()).clamp(-1, 1)
    return (time.perf_counter() - begin) / STEPS * 1000
