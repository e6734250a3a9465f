"""Convert the published robustness unit test to datasets and a pack.

    python -m benchmarks.unit_test unit_test.npz --out unit-test
    pytest --grb-only --grb-model=mypkg:build --grb-dataset=unit-test/cora_ml-0.pt --grb-difficulty=full \
        --grb-attack=benchmarks.unit_test:PublishedFlips+against=gcn --grb-pack=unit-test/flips.npz \
        --grb-split=given --grb-training=transductive --grb-features=rows

Mujkanovic et al. 2022, "Are Defenses for Graph Neural Networks Robust?" (NeurIPS), publish
`unit_test.npz` with their code (https://github.com/LoadingByte/are-gnn-defenses-robust, folder
`unit_test`, MIT licence): Cora ML and Citeseer, five splits of each, and the strongest global
perturbations that they found against eight models. Keys of a graph G:

- `G/dataset/adjacency` int [e, 2], each edge once; `G/dataset/features` int [k, 2], row and column of
  each feature that is 1; `G/dataset/labels` int [num_nodes]
- `G/splits/S/{train,val,test}`: node ids
- `G/perturbations/{evasion,poisoning}/MODEL/split_S/budget_B`: pairs of nodes int [k, 2] to flip,
  each undirected pair once

A case gets the largest perturbation of evasion within its edge budget (our choice).
"""  # noqa: E501

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from grb_check import datasets
from grb_check.attacks.budgets import threat_of
from grb_check.attacks.modification.shared.edge_set import edge_set
from grb_check.attacks.names import with_budget
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.referee import verify
from grb_check.attacks.registry import describe
from grb_check.attacks.scenarios import Scenario
from grb_check.attacks.threat import Knowledge, Perturbation, Threat
from grb_check.errors import UsageError
from grb_check.evaluation.store_keys import describe_threat
from grb_check.store.pack import PerturbationRequest, write_pack

Arrays: TypeAlias = Mapping[str, NDArray[Any]]

SPLITS: Final = range(5)
REPEATS: Final = range(5)
LICENCE: Final = "Published with the code of Mujkanovic et al. 2022 (MIT licence)."
_FLIPS: Final = re.compile(r"(\w+)/perturbations/evasion/([\w.-]+)/split_(\d)/budget_[\w.-]+")


@dataclass(frozen=True, kw_only=True)
class PublishedFlips:
    """The attack of the unit test, against one of its models; only the pack has perturbations."""

    against: str = "gcn"

    name: ClassVar[str] = "unit-test"
    scenario: ClassVar[Scenario] = "modification"
    knowledge: ClassVar[Knowledge] = "black-box"
    version: ClassVar[int] = 1

    def perturb(
        self, graph: Data, threat: Threat, model: DifferentiableModel, generator: torch.Generator
    ) -> Perturbation:
        """Refuse: it is found in no other way.

        Raises:
            UsageError: always.
        """
        raise UsageError(
            f"{self.name} has no perturbations of its own; give --grb-pack=DIR/flips.npz of "
            f"python -m benchmarks.unit_test"
        )


def graph_of(arrays: Arrays, graph: str, split: int) -> Data:
    """Return one of the graphs with the masks of one of its splits."""
    labels = torch.from_numpy(arrays[f"{graph}/dataset/labels"]).long()
    rows, columns = torch.from_numpy(arrays[f"{graph}/dataset/features"]).long().T
    x = torch.zeros(len(labels), int(columns.max()) + 1)
    x[rows, columns] = 1
    pairs = torch.from_numpy(arrays[f"{graph}/dataset/adjacency"]).long().T
    masks = {}
    for part in ("train", "val", "test"):
        mask = torch.zeros(len(labels), dtype=torch.bool)
        mask[torch.from_numpy(arrays[f"{graph}/splits/{split}/{part}"]).long()] = True
        masks[f"{part}_mask"] = mask
    return Data(x=x, edge_index=to_undirected(pairs), y=labels, **masks)


def perturbations(
    arrays: Arrays, path: Path, graph: str, split: int, budgets: Sequence[float | None]
) -> Iterator[tuple[PerturbationRequest, Perturbation]]:
    """Yield what a pack has for a dataset that was written to a path."""
    places = datasets.Places(split="given", training="transductive", features="rows")
    dataset = datasets.load(datasets.find(str(path), places))
    edges = edge_set(dataset.graph)
    flips_by_budget: dict[str, list[NDArray[Any]]] = {}
    for key, flips in arrays.items():
        match = _FLIPS.fullmatch(key)
        if match is not None and match.group(1, 3) == (graph, str(split)):
            flips_by_budget.setdefault(match[2], []).append(flips)
    for model, every in flips_by_budget.items():
        for budget in budgets:
            threat = threat_of(dataset, "full", "modification", with_budget("unit-test", budget))
            fitting = [flips for flips in every if 0 < len(flips) <= threat.edge_budget]
            if not fitting:
                continue
            pairs = torch.from_numpy(max(fitting, key=len).astype(np.int64).T.copy())
            perturbation = edges.perturbation(edges.encode(pairs))
            verify(perturbation, dataset.graph, threat)
            for seed in REPEATS:
                request = PerturbationRequest(
                    fingerprint=dataset.fingerprint(),
                    difficulty="full",
                    scenario="modification",
                    attack="unit-test",
                    description=describe(PublishedFlips(against=model)) or "",
                    threat=describe_threat(threat),
                    seed=seed,
                    dataset=dataset.name,
                )
                yield request, perturbation


def convert(file: Path, out: Path, budgets: Sequence[float]) -> list[Path]:
    """Write a .pt file for each graph and split, and the pack; return their paths."""
    with np.load(file, allow_pickle=False) as archive:
        arrays = {key: archive[key] for key in archive.files}
    out.mkdir(parents=True, exist_ok=True)
    paths: dict[tuple[str, int], Path] = {}
    for graph in sorted({key.partition("/")[0] for key in arrays}):
        for split in SPLITS:
            paths[graph, split] = out / f"{graph}-{split}.pt"
            torch.save(graph_of(arrays, graph, split), paths[graph, split])
    every = [None, *budgets]
    entries = (
        entry
        for (graph, split), path in paths.items()
        for entry in perturbations(arrays, path, graph, split, every)
    )
    pack = write_pack(out / "flips.npz", entries, LICENCE)
    return [*paths.values(), pack.path]


def main() -> None:
    """Convert the file that the command line names."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.unit_test",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", type=Path, help="unit_test.npz")
    parser.add_argument("--out", type=Path, required=True, help="directory to write")
    parser.add_argument(
        "--budget",
        type=float,
        action="append",
        default=[],
        help="also for --grb-budget of this share of the edges; repeatable",
    )
    options = parser.parse_args()
    for path in convert(options.file, options.out, options.budget):
        sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
