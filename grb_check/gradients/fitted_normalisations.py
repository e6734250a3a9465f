"""The normalisation of a layer, found from its inputs and outputs, not from its name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from torch import nn

from grb_check.gradients.normalisation import Normalisation
from grb_check.gradients.propagate_calls import PropagateCall
from grb_check.gradients.trial import fixed_noise

SAME: Final = 1e-4  # relative error that rounding may cause in a product
_TIED: Final = 1e-6  # difference of relative errors that decides nothing between normalisations

# Most common first: of those that fit equally well, the first is taken.
NORMALISATIONS: Final = (
    Normalisation(-0.5, -0.5, 1.0),
    Normalisation(0.0, 0.0, 0.0),
    Normalisation(-1.0, 0.0, 0.0),
    Normalisation(-0.5, -0.5, 0.0),
    Normalisation(-0.5, -0.5, 2.0),
    Normalisation(0.0, 0.0, 1.0),
    Normalisation(-1.0, 0.0, 1.0),
    Normalisation(0.0, -1.0, 0.0),
    Normalisation(0.0, -1.0, 1.0),
    Normalisation(-0.5, -0.5, 0.0, -1.0),  # ChebConv
)


def fitted_normalisations(
    calls: Sequence[PropagateCall],
) -> dict[nn.Module, Normalisation] | None:
    """Return the normalisation that fits each layer; None if a layer has none, or several."""
    result: dict[nn.Module, Normalisation] = {}
    for call in calls:
        errors = [relative_error(norm, call) for norm in NORMALISATIONS]
        least = min(errors)
        if not least <= SAME:  # also for NaN
            return None
        norm = result.setdefault(
            call.layer,
            next(f for f, e in zip(NORMALISATIONS, errors, strict=True) if e <= least + _TIED),
        )
        if not errors[NORMALISATIONS.index(norm)] <= SAME:
            return None
    return result


def relative_error(norm: Normalisation, call: PropagateCall) -> float:
    """Return the largest error of a normalisation, relative to the largest entry received.

    Both are compared along a random direction of the rows, which is enough for linear maps.
    """
    direction = fixed_noise(call.sent.shape[1:], call.sent)[:, None]
    sent, received = call.sent @ direction, call.received.detach() @ direction
    degrees = call.graph.degrees(norm.loop)
    given = degrees**norm.left * call.graph.product(norm.loop, degrees**norm.right * sent)
    distance = (norm.factor * given - received).abs().max()
    return float(distance / received.abs().max()) if distance != 0 else 0.0
