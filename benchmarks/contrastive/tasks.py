"""Rows and columns of the two tables of the paper, in its words and in the project's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from grb_check.datasets import Places, Source, find

CLEAN: Final = "Clean"
MIN: Final = "Min"
OURS: Final = "grb_check.models"
PAPER: Final = Path(__file__).with_name("paper.json")


@dataclass(frozen=True, kw_only=True)
class Task:
    """One of the two tasks.

    Attributes:
        name: in rows.
        datasets: what a user types, in small letters -> the project's name.
        printed: the project's name of a dataset -> the paper's.
        models: factory in `grb_check.models` -> the paper's name.
        attacks: the paper's row -> the project's attack, in the paper's order.
        transductive: whether models learn on the whole graph, with the split that comes with it and
            rows of features that sum to 1.
    """

    name: str
    datasets: Mapping[str, str]
    printed: Mapping[str, str]
    models: Mapping[str, str]
    attacks: Mapping[str, str]
    transductive: bool

    def dataset(self, spec: str) -> str:
        """Return the project's name; an unknown one may be any dataset of the project."""
        return self.datasets.get(spec.lower(), spec)

    def target(self, model: str) -> str:
        """Return `pkg.module:attr` of a model, which may also be given in this form."""
        return model if ":" in model else f"{OURS}:{model}"

    def places(self, folder: Path) -> Places:
        """Return where the data are and the protocol, which is that of the suites `contrastive`."""
        if self.transductive:
            return Places(
                folders=(folder,), split="given", training="transductive", features="rows"
            )
        return Places(folders=(folder,))

    def source(self, spec: str, folder: Path) -> Source:
        """Return the source of a dataset.

        Raises:
            UsageError: there is none of that name.
        """
        return find(self.dataset(spec), self.places(folder))


NODES: Final = Task(
    name="nodes",
    datasets={name: f"planetoid-{name}" for name in ("cora", "citeseer", "pubmed")},
    printed={
        "planetoid-cora": "Cora",
        "planetoid-citeseer": "Citeseer",
        "planetoid-pubmed": "Pubmed",
    },
    models={
        "gcn_kipf": "GCN",
        "dgi": "DGI",
        "graphcl": "GraphCL",
        "gca": "GCA",
        "gca_eigenvector": "GCA",
        "gca_pagerank": "GCA",
    },
    attacks={
        "Rand. Edge Flip.": "modification/random-flips",
        "PR-BCD": "modification/prbcd",
        "GR-BCD": "modification/grbcd",
    },
    transductive=True,
)

GRAPHS: Final = Task(
    name="graphs",
    datasets={name: name for name in ("proteins", "nci1", "dd", "mutag")},
    printed={"proteins": "PROTEINS", "nci1": "NCI1", "dd": "DD"},
    models={
        "graph_gcn": "GCN",
        "graph_gin": "GIN",
        "infograph": "InfoGraph",
        "graph_graphcl": "GraphCL",
        "adgcl": "AD-GCL",
    },
    attacks={
        "Rand. Edge Flip.": "modification/random-flips",
        "PGD": "modification/pgd-topology",
        "PR-BCD": "modification/prbcd",
        "GR-BCD": "modification/grbcd",
    },
    transductive=False,
)

TASKS: Final = {task.name: task for task in (NODES, GRAPHS)}


def paper_figures(task: Task) -> Mapping[str, Any]:
    """Return model -> row -> dataset -> [mean, deviation, relative drop] in percent."""
    figures: Mapping[str, Any] = json.loads(PAPER.read_text(encoding="utf-8"))[task.name]
    return figures


def title(task: Task, model: str) -> str:
    """Return the paper's name of a factory; empty if the paper does not have it."""
    return task.models.get(model.rpartition(":")[2], "")


def printed(task: Task, model: str, row: str, dataset: str) -> list[float] | None:
    """Return the paper's figures of a factory on a dataset of the project; None if it has none."""
    rows = paper_figures(task).get(title(task, model), {})
    figures: list[float] | None = rows.get(row, {}).get(task.printed.get(dataset, ""))
    return figures
