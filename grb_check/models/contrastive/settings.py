"""Settings of the models for one graph, after Table 7 of the contrastive paper.

Guerranti et al., "On the Adversarial Robustness of Graph Contrastive Learning Methods"
(GLFrontiers 2023), Appendix E; `models/paper_figures/contrastive_models.json` says how blanks
were read.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final, Literal

NodeModel = Literal["GCN", "DGI", "GraphCL", "GCA"]

FALLBACK: Final = "planetoid-cora"  # whose settings datasets get that the table has none for
GCA_LAYERS: Final = 2  # blank in the table; Zhu et al. (2021), section 4.1.3, have two


@dataclass(frozen=True, kw_only=True)
class NodeSettings:
    """How a model for one graph is built and trained, with Adam on the whole graph.

    Attributes:
        lr: learning rate.
        epochs: steps at most.
        patience: steps without a better one before training ends.
        layers: graph convolutions.
        width: columns of the embeddings; of the hidden layers for the supervised GCN.
        dropout: probability.
    """

    lr: float
    epochs: int
    patience: int
    layers: int
    width: int
    dropout: float = 0.0


@dataclass(frozen=True, kw_only=True)
class ViewSettings:
    """GCA's views and loss, which Table 7 does not have.

    The defaults are those of GCA's code. Its authors print no settings for citation graphs; those
    of their earlier method GRACE, which has the same loss and encoder, are taken there.

    Attributes:
        edge_rates: mean probability that an edge is dropped, in either view.
        feature_rates: mean probability that a feature is masked, in either view.
        temperature: of the loss.
        projection: hidden columns of the projection head.
        weight_decay: of all parameters.
    """

    edge_rates: tuple[float, float] = (0.3, 0.4)
    feature_rates: tuple[float, float] = (0.1, 0.0)
    temperature: float = 0.4
    projection: int = 32
    weight_decay: float = 1e-5


def view_settings(dataset: str) -> ViewSettings:
    """The settings of GCA's views for a dataset; the defaults of its code where GRACE has none."""
    row: dict[str, Any] | None = _published()["views"].get(dataset)
    if row is None:
        return ViewSettings()
    return ViewSettings(
        edge_rates=(row["edge_rates"][0], row["edge_rates"][1]),
        feature_rates=(row["feature_rates"][0], row["feature_rates"][1]),
        temperature=row["temperature"],
    )


def node_settings(model: NodeModel, dataset: str) -> NodeSettings:
    """The settings of a model for one graph; those of planetoid-cora where the table has none."""
    rows = _published()["models"][model]
    row: dict[str, Any] = rows.get(dataset) or rows[FALLBACK]
    return NodeSettings(
        lr=row["lr"],
        epochs=row["epochs"],
        patience=row["patience"],
        layers=row.get("layers", GCA_LAYERS),
        width=row["hidden_dim"],
        dropout=row.get("dropout", 0.0),
    )


def _published() -> dict[str, Any]:
    room = resources.files("grb_check").joinpath("models/paper_figures/contrastive_models.json")
    published: dict[str, Any] = json.loads(room.read_text("utf-8"))
    return published
