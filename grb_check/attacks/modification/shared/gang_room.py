"""What a gang may still change, while its members are attacked one after another."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.modification.shared.edge_set import EdgeSet, edge_set, mask_of
from grb_check.attacks.threat import Perturbation, Threat


@dataclass(eq=False)
class GangRoom:
    """Budgets that are left, on the CPU.

    Attributes:
        clean: the edges before.
        owned: bool [N], nodes of which each changed edge has one as an end.
        left: int64 [N], changed edges that each node may still have.
        flips: int64 [k], codes of the pairs that were flipped.
    """

    clean: EdgeSet
    owned: Tensor
    left: Tensor
    flips: Tensor

    @classmethod
    def of(cls, graph: Data, threat: Threat) -> GangRoom:
        """Return the room before any flip.

        Raises:
            ValueError: the threat is of no gang.
        """
        if threat.ends is None or threat.local_budgets is None:
            raise ValueError("only a gang has ends and budgets of nodes; see gangs.threat_of_gangs")
        clean = edge_set(graph)
        owned, left = mask_of(threat.ends, graph.num_nodes), threat.local_budgets.cpu()
        return cls(clean, owned, left, clean.codes[:0])

    def allows(self, pairs: Tensor, flipped: Tensor) -> Tensor:
        """Return which of the pairs int64 [2, m] may change beside the flipped ones, bool [m]."""
        left = self.left - torch.bincount(pairs[:, flipped].flatten(), minlength=self.left.numel())
        again = torch.isin(self.clean.encode(pairs), self.flips)
        return self.owned[pairs].any(0) & (left[pairs] > 0).all(0) & ~again

    def spend(self, made: Perturbation) -> None:
        """Take the flips of a perturbation from the room."""
        pairs = torch.cat([made.added_edges, made.removed_edges], dim=1)
        self.left = self.left - torch.bincount(pairs.flatten(), minlength=self.left.numel())
        self.flips = torch.cat([self.flips, self.clean.encode(pairs)])
