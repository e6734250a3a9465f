"""The projection head between embeddings and a contrastive loss.

Zhu et al., "Graph Contrastive Learning with Adaptive Augmentation", WWW 2021, section 3.1.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class ProjectionHead(nn.Module):
    """GCA's g (section 3.1): two layers with ELU between them, up to a rotation.

    The output of the last layer, B (h, 1) with B = [W b] of shape [size, hidden + 1], spans at most
    hidden + 1 dimensions. With B = Q R, R (h, 1) has the same inner products and lengths, on which
    alone the loss depends, and is computed in a fraction of the time.

    Args:
        size: columns of the embeddings, and of g's output.
        hidden: columns between the layers.
    """

    def __init__(self, size: int, hidden: int) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(size, hidden), nn.Linear(hidden, size)

    def forward(self, embeddings: Tensor) -> Tensor:
        """Return float [N, min(size, hidden + 1)] for embeddings float [N, size]."""
        rows = F.elu(self.first(embeddings))
        matrix = torch.cat([self.last.weight, self.last.bias.unsqueeze(1)], dim=1)
        if matrix.shape[0] <= matrix.shape[1]:
            return cast(Tensor, self.last(rows))
        ones = rows.new_ones(rows.shape[0], 1)
        return cast(Tensor, torch.cat([rows, ones], dim=1) @ torch.linalg.qr(matrix).R.T)
