"""Where GRB's general defence LN normalises rows: its appendix A.4.3.

"On the input and after each layer but the last" is before each layer but the output layer, as the
published numbers of parameters tell; where a model differs, it says so.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn


def row_norms(widths: Sequence[int], *, layers: int) -> nn.ModuleList:
    """What normalises the input of each of a model's layers; the identity after the given widths.

    Args:
        widths: columns of the inputs that are normalised, from the first layer on.
        layers: how many layers the model has.
    """
    identities = [nn.Identity() for _ in range(layers - len(widths))]
    return nn.ModuleList([*(nn.LayerNorm(width) for width in widths), *identities])
