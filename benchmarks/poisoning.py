"""Poisoning: what Metattack and PR-BCD along meta-gradients leave, beside evasion and print.

The data and the GCN of Pro-GNN's table (Jin et al. 2020, Table 2): the largest components of Cora
and Citeseer, a tenth of the nodes each for training and validation, and a GCN of 16 hidden units
after 200 epochs (`last`), or after the one of them that is best on the validation nodes (`best`).
Each row has the mean accuracies of a model without attack, of the same model asked on the attacked
graph (evasion), and of one that was trained on it from the same seed (poisoning).

    GRB_CHECK_REAL_DATA=DATA python -m benchmarks.poisoning --data cora --model last --model best

Models are also names of `grb_check.models`. With GRB_CHECK_PROGNN, a checkout of
github.com/ChandlerBang/Pro-GNN, the split is the authors', and `--attack published` has their
graphs, which DeepRobust's Metattack attacked. `--attack deeprobust` runs that itself, about a
minute for each flip (`pip install deeprobust==0.2.11 gensim numba scikit-learn`, the first with
`--no-deps`; what it imports of torch-sparse and torch-scatter, Metattack does not use).
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import math
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

from benchmarks.memory import peak_mib, reset_peak
from grb_check import SelfTrained, datasets
from grb_check.attacks.modification.shared.edge_set import edge_set
from grb_check.attacks.referee import verify
from grb_check.attacks.threat import Perturbation
from grb_check.cases.case import Case
from grb_check.datasets.dataset import Dataset
from grb_check.evaluation.after_attack import predicted_after, predicted_if_poisoned
from grb_check.evaluation.devices import threads_for
from grb_check.evaluation.evaluator import Evaluator
from grb_check.evaluation.perturbations import on_surrogates
from grb_check.store.store import Store
from grb_check.victims.subject import as_subject

PEER = "GRB_CHECK_PROGNN"
PEERS = ("published", "deeprobust")
SPLIT = 15  # seed of the split
EPOCHS = 200


def graph_of(name: str) -> Data:
    """Return the largest component of `npz/NAME.npz`, with masks of a 10/10/80 split."""
    file = np.load(Path(os.environ["GRB_CHECK_REAL_DATA"]) / "npz" / f"{name}.npz")
    parts = [
        sp.csr_matrix(
            tuple(file[f"{kind}_{part}"] for part in ("data", "indices", "indptr")),
            shape=file[f"{kind}_shape"],
        )
        for kind in ("adj", "attr")
    ]
    adjacency = parts[0] + parts[0].T
    adjacency.setdiag(0)
    adjacency.eliminate_zeros()
    component = sp.csgraph.connected_components(adjacency)[1]
    members = np.flatnonzero(component == np.bincount(component).argmax())
    ends = adjacency[members][:, members].tocoo()
    masks = torch.zeros(3, len(members), dtype=torch.bool)
    for mask, nodes in zip(masks, _split(name, len(members)), strict=True):
        mask[nodes] = True
    return Data(
        x=torch.from_numpy(parts[1][members].toarray()).float(),
        edge_index=torch.from_numpy(np.stack([ends.row, ends.col]).astype(np.int64)),
        y=torch.from_numpy(file["labels"][members].astype(np.int64)),
        train_mask=masks[0],
        val_mask=masks[1],
        test_mask=masks[2],
    )


def _split(name: str, num_nodes: int) -> list[Tensor]:
    if PEER in os.environ:
        text = (Path(os.environ[PEER]) / f"splits/{name}_prognn_splits.json").read_text()
        parts = json.loads(text)
        return [torch.tensor(parts[f"idx_{part}"]) for part in ("train", "val", "test")]
    order = torch.randperm(num_nodes, generator=torch.Generator().manual_seed(SPLIT))
    tenth = num_nodes // 10
    return list(order.tensor_split([tenth, 2 * tenth]))


def _published(name: str, budget: str, clean: Data) -> Perturbation:
    path = Path(os.environ[PEER]) / f"meta/{name}_meta_adj_{float(budget)}.npz"
    return _change_to(sp.load_npz(path), clean)


def _change_to(matrix: Any, clean: Data) -> Perturbation:
    """Return the flips that make the clean graph the one of a sparse adjacency matrix [N, N]."""
    ends = torch.from_numpy(np.stack(sp.triu(matrix, 1).nonzero()).astype(np.int64))
    before, after = edge_set(clean), edge_set(Data(edge_index=ends, num_nodes=len(clean.x)))
    codes, times = torch.cat([before.codes, after.codes]).unique(return_counts=True)
    return before.perturbation(codes[times == 1])


def _deeprobust(data: Dataset, flips: int) -> Perturbation:
    """Return what DeepRobust's Metattack (Meta-Self, 100 steps) flips."""
    for name in ("torch_sparse", "torch_scatter"):  # imported, and not used
        sys.modules.setdefault(name, MagicMock())
    from deeprobust.graph.defense import GCN as Surrogate
    from deeprobust.graph.global_attack import Metattack

    clean, nodes = data.graph, data.num_nodes
    features, truth = sp.csr_matrix(clean.x.numpy()), clean.y.numpy()
    ones = np.ones(clean.edge_index.shape[1])
    edges = sp.csr_matrix((ones, clean.edge_index.numpy()), shape=(nodes, nodes))
    train, others = data.train.numpy(), np.setdiff1d(np.arange(nodes), data.train)
    linear = Surrogate(
        features.shape[1],
        16,
        truth.max() + 1,
        dropout=0,
        with_relu=False,
        with_bias=False,
        device="cpu",
    )
    attack = Metattack(linear, nodes, features.shape, lambda_=0)
    with contextlib.redirect_stdout(sys.stderr):
        linear.fit(features, edges, truth, train, data.val.numpy(), patience=30)
        attack.attack(features, edges, truth, train, others, flips, ll_constraint=False)
    return _change_to(sp.csr_matrix(attack.modified_adj.numpy()), clean)


def cora() -> Data:
    """Return Cora: 2,485 nodes, 5,069 edges."""
    return graph_of("cora")


def citeseer() -> Data:
    """Return Citeseer: 2,110 nodes, 3,668 edges."""
    return graph_of("citeseer")


class GCN(nn.Module):
    """The GCN of Kipf and Welling (2017)."""

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.first = GCNConv(num_features, 16)
        self.second = GCNConv(16, num_classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Logits float [N, num_classes]."""
        hidden = F.dropout(self.first(x, edge_index).relu(), 0.5, self.training)
        out: Tensor = self.second(hidden, edge_index)
        return out


def _fit(model: GCN, data: Data, validation: Data, *, pick: bool) -> None:
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    most, state = -1.0, copy.deepcopy(model.state_dict())
    nodes = validation.val_mask
    for _ in range(EPOCHS):
        model.train()
        optimiser.zero_grad()
        out = model(data.x, data.edge_index)[data.train_mask]
        F.cross_entropy(out, data.y[data.train_mask]).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        model.eval()
        with torch.no_grad():
            answers = model(validation.x, validation.edge_index)[nodes].argmax(1)
        right = float((answers == validation.y[nodes]).float().mean())
        if right > most or not pick:
            most, state = right, copy.deepcopy(model.state_dict())
    model.load_state_dict(state)


def _trained(num_features: int, num_classes: int, *, pick: bool) -> SelfTrained:
    model = GCN(num_features, num_classes)
    fit: Callable[..., None] = partial(_fit, model, pick=pick)
    return SelfTrained(model, fit)


def last(num_features: int, num_classes: int) -> SelfTrained:
    """Return the GCN after the last epoch."""
    return _trained(num_features, num_classes, pick=False)


def best(num_features: int, num_classes: int) -> SelfTrained:
    """Return the GCN after the epoch that is best on the validation nodes."""
    return _trained(num_features, num_classes, pick=True)


def measured(
    evaluator: Evaluator,
    source: datasets.Source,
    attack: str,
    budget: str,
    models: dict[str, str],
    seed: int,
) -> dict[str, dict[str, float]]:
    """Return model -> kind -> accuracy on the test nodes, and the attack's seconds and peak."""
    name = "metattack" if attack in PEERS else attack
    case = Case(source.name, "full", "poisoning", f"{name}+budget={budget}")
    trial = evaluator.trial(source, case, seed)
    data, targets = trial.harness.dataset, trial.threat.targets
    with threads_for(data.num_nodes):
        trial.harness.surrogate("gcn")
        reset_peak()
        start = time.perf_counter()
        if attack == "published":
            poisoned = _published(source.name.rpartition(".")[2], budget, data.graph)
        elif attack == "deeprobust":
            poisoned = _deeprobust(data, trial.threat.edge_budget)
        else:
            poisoned = on_surrogates(trial)[0]
        seconds = time.perf_counter() - start
        peak = peak_mib() or math.nan
    verify(poisoned, data.graph, trial.threat)
    result = {}
    for name, target in models.items():
        victim = evaluator.victim(as_subject(target), source, seed)
        with threads_for(data.num_nodes):
            answers = {
                "clean": victim.predicted[targets],
                "evasion": predicted_after(victim, data.graph, poisoned, trial.threat, seed),
                "poisoning": predicted_if_poisoned(victim, data, targets, poisoned),
            }
        truth = data.graph.y[targets]
        result[name] = {kind: float((got == truth).float().mean()) for kind, got in answers.items()}
        result[name] |= {"attack_s": seconds, "peak_mib": peak}
    return result


def main() -> None:
    """Print one JSON object for each attack, budget and model."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", choices=("cora", "citeseer"), default="cora")
    parser.add_argument("--model", action="append", required=True)
    parser.add_argument("--attack", action="append", default=[])
    parser.add_argument("--budget", action="append", default=[])
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    places = datasets.Places(training="transductive")
    source = datasets.find(f"benchmarks.poisoning:{options.data}", places)
    evaluator = Evaluator(store=Store(None), device="cpu")
    models = {
        name: f"benchmarks.poisoning:{name}"
        if name in ("last", "best")
        else f"grb_check.models:{name}"
        for name in options.model
    }
    for attack in options.attack or ("metattack", "meta-prbcd"):
        for budget in options.budget or ("0.05", "0.1", "0.15", "0.2", "0.25"):
            repeats = [
                measured(evaluator, source, attack, budget, models, seed)
                for seed in range(options.repeats)
            ]
            for model in models:
                mean = {
                    key: round(float(np.mean([repeat[model][key] for repeat in repeats])), 4)
                    for key in repeats[0][model]
                }
                about = {"data": options.data, "attack": attack, "budget": budget, "model": model}
                sys.stdout.write(f"{json.dumps(about | mean)}\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
