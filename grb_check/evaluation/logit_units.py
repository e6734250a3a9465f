"""Logits in units in which the objectives of attacks have a gradient.

A tanh or a softmax of margins in the thousands is flat, and of margins of a thousandth it counts
nothing but the largest. Dividing all logits by a number changes no class.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import torch
from torch_geometric.data import Data

from grb_check.gradients.victim import Victim
from grb_check.user_code.randomness import isolated_randomness

USUAL: Final = (1.0, 10.0)  # median differences of the two largest logits that stay as they are
TYPICAL: Final = 3.0  # of a GCN on Cora


def in_logit_units(victim: Victim, graph: Data, seed: int) -> Victim:
    """Return a model whose logits are divided by a power of two, which rounds nothing.

    The median over all rows of the largest logit less the second is near `TYPICAL` then. A model
    for which it is within `USUAL` already, or is 0, stays as it is.

    Args:
        victim: trained.
        graph: clean.
        seed: of the global random states during the call.
    """
    with isolated_randomness(seed), torch.no_grad():
        logits = victim(graph.x, graph.edge_index)
    if logits.shape[1] < 2:
        return victim
    first, second = logits.float().topk(2, dim=1).values.T
    gap = float((first - second).median())
    if not gap or USUAL[0] <= gap <= USUAL[1]:
        return victim
    return replace(victim, unit=2.0 ** round(math.log2(gap / TYPICAL)))
