"""Hyper-parameters that papers publish for the models, as `paper_figures/` holds them.

* Tables 6 to 10 of the `Graph Robustness Benchmark <https://arxiv.org/abs/2111.04314>`_ (Zheng et
  al. 2021): `hyper_parameters` and `architecture`.
* Table 7 (Appendix E) of `On the Adversarial Robustness of Graph Contrastive Learning Methods
  <https://arxiv.org/abs/2311.17853>`_ (Guerranti et al. 2023): `node_settings` and
  `graph_settings`. The table leaves blanks without saying in which column; the notes in
  `contrastive_models.json` and `contrastive_set_models.json` say how they were read.

A dataset without a row of its own gets the row of a fallback dataset.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final, Literal

NodeModel = Literal["GCN", "DGI", "GraphCL", "GCA"]
GraphModel = Literal["GCN", "GIN", "InfoGraph", "GraphCL", "AD-GCL"]

GRB_FALLBACK: Final = "grb-cora"
NODE_FALLBACK: Final = "planetoid-cora"
GRAPH_FALLBACK: Final = "proteins"
GCA_LAYERS: Final = 2  # blank in the table; Zhu et al. (2021), section 4.1.3, have two
WIDEST_LAYER: Final = 128  # a printed width above this is that of all layers together


def hyper_parameters(model: str, dataset: str) -> dict[str, Any]:
    """Return GRB's row of a model for a dataset, by the model's title, such as "GIN".

    The row of grb-cora is returned if GRB has none for the dataset, or none for the model on it.
    """
    rows = table("models")["datasets"]
    row: dict[str, Any] = rows.get(dataset, {}).get(model) or rows[GRB_FALLBACK][model]
    return row


def architecture(model: str, dataset: str) -> dict[str, Any]:
    """Return the part of `hyper_parameters` that a model's constructor takes, by argument name."""
    row = hyper_parameters(model, dataset)
    return {name: value for name, value in row.items() if name not in ("parameters", "lr")}


@dataclass(frozen=True, kw_only=True)
class NodeSettings:
    """Architecture and training of a model for one graph; full batch, Adam.

    Attributes:
        lr: learning rate.
        epochs: steps at most.
        patience: steps without an improvement before training ends.
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
    """GCA's views and loss, which Table 7 does not list.

    The defaults are those of GCA's code. Its authors publish no settings for citation graphs; for
    these we take the settings of their earlier method GRACE, which has the same loss and encoder.

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


@dataclass(frozen=True, kw_only=True)
class GraphSettings:
    """Architecture and training of a model for sets of graphs; mini-batches, Adam.

    Attributes:
        lr: learning rate.
        epochs: passes over all training graphs.
        layers: message-passing layers.
        width: columns of each layer.
        dropout: probability, after each layer.
        patience: epochs without a lower loss before training ends; None: all epochs are run.
        batch_size: graphs of a mini-batch (the paper's section 4.1: 64).
    """

    lr: float
    epochs: int
    layers: int
    width: int
    dropout: float = 0.0
    patience: int | None = None
    batch_size: int = 64


def node_settings(model: NodeModel, dataset: str) -> NodeSettings:
    """Return the settings of a model for one graph; those of planetoid-cora as the fallback."""
    rows = table("contrastive_models")["models"][model]
    row: dict[str, Any] = rows.get(dataset) or rows[NODE_FALLBACK]
    return NodeSettings(
        lr=row["lr"],
        epochs=row["epochs"],
        patience=row["patience"],
        layers=row.get("layers", GCA_LAYERS),
        width=row["hidden_dim"],
        dropout=row.get("dropout", 0.0),
    )


def view_settings(dataset: str) -> ViewSettings:
    """Return the settings of GCA's views; the defaults of its code if GRACE has no row."""
    row: dict[str, Any] | None = table("contrastive_models")["views"].get(dataset)
    if row is None:
        return ViewSettings()
    return ViewSettings(
        edge_rates=(row["edge_rates"][0], row["edge_rates"][1]),
        feature_rates=(row["feature_rates"][0], row["feature_rates"][1]),
        temperature=row["temperature"],
    )


def graph_settings(model: GraphModel, dataset: str) -> GraphSettings:
    """Return the settings of a model for a set of graphs; those of proteins as the fallback.

    The fallback of GIN and GraphCL has 40 epochs instead of 10, because 10 epochs of a few hundred
    graphs are only some dozen steps. InfoGraph and AD-GCL train for 20 epochs instead of the 100
    and 150 that are printed, because one training on NCI1 would take about 6 and 18 minutes on one
    core.
    """
    rows = table("contrastive_set_models")["models"][model]
    row: dict[str, Any] = rows.get(dataset) or {**rows[GRAPH_FALLBACK], **rows.get("others", {})}
    return GraphSettings(
        lr=row["lr"],
        epochs=row.get("epochs_here", row["epochs"]),
        layers=row["layers"],
        width=width_of_layers(row["hidden_dim"], row["layers"]),
        dropout=row.get("dropout", 0.0),
        patience=row.get("patience"),
    )


def width_of_layers(hidden_dim: int, layers: int) -> int:
    """Return the columns of one layer for a printed "hid. dim.".

    InfoGraph's own code has 32 columns in each layer and embeddings of all layers side by side: the
    printed 256 for 8 layers is that sum. The 512 of GIN and GraphCL with 8 and 12 layers are read
    likewise, as 64 and, rounded, 43 columns a layer. Values up to 128 are columns of each layer.

    >>> [width_of_layers(*row) for row in ((512, 8), (512, 12), (256, 8), (128, 4), (32, 5))]
    [64, 43, 32, 128, 32]
    """
    return round(hidden_dim / layers) if hidden_dim > WIDEST_LAYER else hidden_dim


def table(name: str) -> dict[str, Any]:
    """Return a file of `paper_figures/`, by its name without the suffix."""
    path = resources.files("grb_check").joinpath(f"models/paper_figures/{name}.json")
    content: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return content
