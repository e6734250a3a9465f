"""Which targets are easiest to turn, and towards which class."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.protocol import DifferentiableModel, members
from grb_check.attacks.threat import Threat


def clean_probabilities(graph: Data, threat: Threat, model: DifferentiableModel) -> Tensor:
    """Class probabilities [t, c] of the targets in the clean graph, mean over the members."""
    with torch.no_grad():
        logits = [member(graph.x, graph.edge_index) for member in members(model)]
    return mean_probabilities([each[threat.targets] for each in logits])


def mean_probabilities(logits: Sequence[Tensor]) -> Tensor:
    """Class probabilities [t, c] from the logits [t, c] of each member."""
    return torch.stack([each.detach().softmax(1) for each in logits]).mean(0)


def defectiveness(graph: Data, links: Tensor, threat: Threat, certainty: Tensor) -> Tensor:
    r"""How much a link to each target promises, float [t].

    .. math:: (p_v + 2) \left(\frac{0.9}{d_v} + \frac{0.1}{\sqrt{d_v b}}\right)

    with the probability p of the label to move away from, the degree d with loop and injected
    links, and the b edges of an injected node: the score of GRB's reference code for TDGIA (Zou et
    al. 2021, section 4.3). A link to a node of few edges has a large share in what that node
    receives, and is wasted on one that is lost already.

    Args:
        graph: clean graph, `y` of the targets being the labels.
        links: `injected_edges` [2, e] so far.
        threat: gives the targets and b.
        certainty: class probabilities [t, c] of the targets.
    """
    ends = torch.cat([graph.edge_index[0], links[1].to(graph.edge_index.device)])
    degrees = torch.bincount(ends, minlength=graph.num_nodes)[threat.targets] + 1.0
    own = certainty.gather(1, graph.y[threat.targets][:, None]).squeeze(1)
    edges = max(threat.edges_per_injected_node, 1)
    return (own + 2) * (0.9 / degrees + 0.1 / (degrees * edges).sqrt())


def label_groups(certainty: Tensor, labels: Tensor) -> Tensor:
    """One number int64 [t] for each pair of a target's label and the most probable other class.

    Args:
        certainty: class probabilities [t, c].
        labels: int64 [t].
    """
    runner_up = certainty.scatter(1, labels[:, None], -1.0).argmax(1)
    return labels * certainty.shape[1] + runner_up
