"""Training of the encoders for one graph: Adam on a contrastive loss, with early stopping."""

from __future__ import annotations

import math
from collections.abc import Callable

from torch import Tensor, nn

from grb_check.models.published import NodeSettings
from grb_check.training.nodes import TrainingRun, TrainingSettings, descend, drawn_seed
from grb_check.victims.conventions import PLAIN, Adapter


def minimise(
    module: nn.Module,
    loss_of: Callable[[], Tensor],
    settings: NodeSettings,
    *,
    weight_decay: float = 0.0,
) -> TrainingRun:
    """Train a module in place, and leave it in the state with the lowest loss.

    Early stopping is by the contrastive loss, as in the code of DGI and of GraphCL: without labels
    there is no other figure.

    Args:
        module: to train; its name appears in errors.
        loss_of: called once per epoch; torch's global generator is seeded for it, by a seed drawn
            from that generator.
        settings: learning rate, epochs and patience.
        weight_decay: of all parameters.

    Raises:
        ModelError: the loss is not finite, or does not depend on any parameter.
    """
    adapter = Adapter(module, type(module).__name__, PLAIN)
    how = TrainingSettings(
        max_epochs=settings.epochs,
        patience=settings.patience,
        lr=settings.lr,
        weight_decay=weight_decay,
        warmup_epochs=1,
        max_gradient_norm=math.inf,
    )
    return descend(adapter, loss_of, None, how, seed=drawn_seed())
