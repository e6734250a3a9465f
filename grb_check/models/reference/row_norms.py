"""Layer normalisation as in GRB's general defence LN (appendix A.4.3).

"On the input and after each layer but the last" means before each layer but the output layer, as
the published numbers of parameters show; a model that differs says so.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn


def row_norms(widths: Sequence[int], *, layers: int) -> nn.ModuleList:
    """Return a module for the input of each layer: normalisations, then identities.

    Args:
        widths: columns of the inputs that are normalised, from the first layer on.
        layers: number of layers of the model.
    """
    identities = [nn.Identity() for _ in range(layers - len(widths))]
    return nn.ModuleList([*(nn.LayerNorm(width) for width in widths), *identities])
