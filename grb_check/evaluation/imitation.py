"""A model that imitates the victim's answers, for its gradient where the victim's leads nowhere.

`Practical Black-Box Attacks against Machine Learning <https://arxiv.org/abs/1602.02697>`_ (Papernot
et al. 2017): a substitute is trained on the answers of the model under attack. Here it is a GCN,
and the answers are logits on the clean graph and on attacked ones. (our choice)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional as F

from grb_check.attacks.threat import Perturbation, apply
from grb_check.evaluation.trained_model import TrainedModel
from grb_check.evaluation.trial import Trial
from grb_check.gradients.rescaled import AnyVictim, Rescaled, standardised
from grb_check.gradients.victim import Victim
from grb_check.models.reference.gcn import GCN
from grb_check.user_code.randomness import derive_seed, isolated_randomness
from grb_check.victims.adapter import Adapter
from grb_check.victims.conventions import PLAIN
from grb_check.victims.wrappers import freeze

HIDDEN: Final = (64,)
STEPS: Final = 200
LEARNING_RATE: Final = 0.01


def imitation(
    trial: Trial, model: TrainedModel, perturbations: Sequence[Perturbation]
) -> AnyVictim:
    """Return a GCN that was trained to give the model's logits.

    Args:
        trial: gives the clean graph, of nodes.
        model: to ask.
        perturbations: perturbations under which it is asked, beside the clean graph.
    """
    graph = trial.harness.dataset.graph
    attacked = [apply(graph, perturbation) for perturbation in (Perturbation(), *perturbations)]
    with isolated_randomness(derive_seed("imitation", trial.seed)):
        with torch.no_grad():
            answers = [
                _centred(model.victim(attacked_graph.x, attacked_graph.edge_index))
                for attacked_graph in attacked
            ]
        module = GCN(trial.harness.dataset.num_features, answers[0].shape[1], HIDDEN, dropout=0.0)
        module.to(graph.x.device)
        calls = [
            module.on_topology(attacked_graph.edge_index, attacked_graph.x.shape[0])
            for attacked_graph in attacked
        ]
        units = None if trial.threat.columns is None else standardised(graph.x)
        features = [
            attacked_graph.x if units is None else units(attacked_graph.x)
            for attacked_graph in attacked
        ]
        optimizer = torch.optim.Adam(module.parameters(), lr=LEARNING_RATE)
        with torch.enable_grad():
            for step in range(STEPS):
                which = step % len(attacked)
                optimizer.zero_grad()
                loss = F.mse_loss(_centred(calls[which](features[which])), answers[which])
                torch.autograd.backward(loss)
                optimizer.step()
    freeze(module)
    result = Victim(Adapter(module, "imitation of the model", PLAIN), answers[0].shape[1])
    return result if units is None else Rescaled(result, units)


def _centred(logits: Tensor) -> Tensor:
    """Return logits of mean 0 for each node: a constant beside them does not change a class."""
    return logits - logits.mean(1, keepdim=True)
