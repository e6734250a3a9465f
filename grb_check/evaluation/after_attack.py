"""Predictions for the targets after an attack: on one attacked graph, or each on its own."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.threat import Perturbation, apply
from grb_check.evaluation.own_models import TrainedModel, predict
from grb_check.user_code.randomness import isolated_randomness
from grb_check.victims.receptive_field import receptive_hops


def predicted_after(
    model: TrainedModel, graph: Data, perturbation: Perturbation, targets: Tensor, seed: int
) -> Tensor:
    """Return the predicted classes of the targets after an attack, int64 [t], on the CPU.

    If targets are attacked one by one (`Perturbation.flip_targets`), the graph of each has only
    the flips made for it, and the model is called once for each such target; on the part that it
    depends on, if that is certain from the model's type (`receptive_field`). A target without
    flips keeps its class on the clean graph.

    Args:
        model: trained.
        graph: clean graph.
        perturbation: within the threat.
        targets: int64 [t].
        seed: of the global random states during each call.
    """
    targets = targets.cpu()
    if not perturbation.flip_targets.numel():
        return predict(model.victim, apply(graph, perturbation), seed)[targets]
    result = model.predicted[targets].clone()
    nothing = graph.x.new_empty((0, graph.x.shape[1]))
    in_part = receptive_hops(model.victim.module) is not None
    for target in torch.unique(perturbation.flip_targets).tolist():
        attacked = apply(graph, perturbation.of_target(target))
        node = targets[target : target + 1]
        if not in_part:
            result[target] = predict(model.victim, attacked, seed)[node]
            continue
        at_node = node.to(graph.x.device)
        with isolated_randomness(seed), torch.no_grad():
            logits_of = model.victim.with_injected(attacked.x, attacked.edge_index, 0, at_node)
            result[target] = logits_of(nothing).argmax(dim=1).cpu()
    return result
