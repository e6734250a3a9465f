"""How the encoders for one graph are trained: Adam on a contrastive loss, until it stands still."""

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
    """Train a module in place; it keeps the state of the lowest loss.

    Patience looks at the contrastive loss, as in the code of DGI and of GraphCL: there is no other
    figure without labels.

    Args:
        module: whose parameters are trained; its name appears in errors.
        loss_of: called once an epoch; what it draws from torch's global state is a function of a
            seed that is drawn from that state.
        weight_decay: of all parameters.

    Raises:
        ModelError: the loss is not finite, or depends on no parameter.
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
