"""Settings of the models for sets of graphs, after Table 7 of the contrastive paper.

Guerranti et al., "On the Adversarial Robustness of Graph Contrastive Learning Methods"
(GLFrontiers 2023), Appendix E. The table leaves blanks without saying of which column;
`models/paper_figures/contrastive_set_models.json` says how they were read.

Its "hid. dim." is read in one of two ways. InfoGraph's own code has 32 columns in each of its
layers, and embeddings of all layers side by side: 256 for 8 layers is that sum. So are the 512 of
GIN and GraphCL with 8 and 12 layers: 64 and, rounded, 43 columns a layer. The values up to 128
(GCN, AD-GCL, all of DD but InfoGraph) are columns of each layer.

InfoGraph and AD-GCL train for 20 epochs instead of the 100 and 150 that are printed, because one
training on NCI1 would take about 6 and 18 minutes on one core.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final, Literal

SetModel = Literal["GCN", "GIN", "InfoGraph", "GraphCL", "AD-GCL"]

FALLBACK: Final = "proteins"  # whose settings datasets get that the table has none for
WIDEST_LAYER: Final = 128  # above this a width is that of all layers together


@dataclass(frozen=True, kw_only=True)
class SetSettings:
    """How a model for sets of graphs is built and trained, with Adam.

    Attributes:
        lr: learning rate.
        epochs: passes through all training graphs.
        layers: message-passing layers.
        width: columns of each layer.
        dropout: probability, after each layer.
        patience: epochs without a lower loss before training ends; None for no such rule.
        batch_size: graphs of a mini-batch (the paper's section 4.1: 64).
    """

    lr: float
    epochs: int
    layers: int
    width: int
    dropout: float = 0.0
    patience: int | None = None
    batch_size: int = 64


def set_settings(model: SetModel, dataset: str) -> SetSettings:
    """The settings of a model for a set of graphs.

    Those of proteins where the table has none; of GIN and GraphCL then with 40 epochs, because 10
    epochs of a few hundred graphs are only some dozen steps.
    """
    text = (
        resources.files("grb_check")
        .joinpath("models/paper_figures/contrastive_set_models.json")
        .read_text("utf-8")
    )
    rows = json.loads(text)["models"][model]
    row: dict[str, Any] = rows.get(dataset) or {**rows[FALLBACK], **rows.get("others", {})}
    return SetSettings(
        lr=row["lr"],
        epochs=row.get("epochs_here", row["epochs"]),
        layers=row["layers"],
        width=width_of_layers(row["hidden_dim"], row["layers"]),
        dropout=row.get("dropout", 0.0),
        patience=row.get("patience"),
    )


def width_of_layers(hidden_dim: int, layers: int) -> int:
    """Columns of one layer for a printed "hid. dim.".

    >>> [width_of_layers(*row) for row in ((512, 8), (512, 12), (256, 8), (128, 4), (32, 5))]
    [64, 43, 32, 128, 32]
    """
    return round(hidden_dim / layers) if hidden_dim > WIDEST_LAYER else hidden_dim
