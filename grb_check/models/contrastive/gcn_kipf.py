"""The supervised GCN that the contrastive paper compares its encoders with.

Kipf & Welling, "Semi-Supervised Classification with Graph Convolutional Networks", ICLR 2017,
equation 9, with the settings of Table 7 of Guerranti et al. (2023): two layers, 16 columns and
dropout between them, 200 epochs of Adam at 0.01.

Early stopping is by validation accuracy and loss. Kipf & Welling also have a weight decay of 5e-4
on the first layer and dropout on the input, which the table does not list; this model is trained
without them, which comes closer to the accuracies that Guerranti et al. print: see
docs/benchmarks/contrastive.md.
"""

from __future__ import annotations

from typing import Final

from grb_check.models.published import node_settings
from grb_check.models.reference.gcn import GCN
from grb_check.training.nodes import TrainingSettings, fit_with
from grb_check.victims.wrappers import SelfTrained

WEIGHT_DECAY: Final = 0.0


def gcn_kipf(num_features: int, num_classes: int, dataset: str = "") -> SelfTrained:
    """Return an untrained GCN with its training, see `published.node_settings`."""
    settings = node_settings("GCN", dataset)
    module = GCN(
        num_features,
        num_classes,
        [settings.width] * (settings.layers - 1),
        dropout=settings.dropout,
    )
    how = TrainingSettings(
        max_epochs=settings.epochs,
        patience=settings.patience,
        lr=settings.lr,
        weight_decay=WEIGHT_DECAY,
        warmup_epochs=1,
        max_gradient_norm=float("inf"),
    )
    return SelfTrained(module, fit_with(module, how))
