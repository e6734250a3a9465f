"""EvA: search for flips on accuracy itself, without gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch_geometric.data import Data

from grb_check.attacks.modification.shared.answer_search import (
    VERSION,
    forwards_on,
    search_by_answers,
)
from grb_check.attacks.modification.shared.edge_set import edge_set
from grb_check.attacks.modification.shared.flip_sweeps import Question
from grb_check.attacks.modification.shared.removable import shortfall
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.scenarios import MODIFICATION, Scenario
from grb_check.attacks.setting_checks import check_at_least, check_knowledge
from grb_check.attacks.threat import Knowledge, Perturbation, Threat


@dataclass(frozen=True, kw_only=True)
class ModificationEva:
    """Search for the flips that leave the fewest targets right, by the model's answers alone.

    After `EvA: Evolutionary Attacks on Graphs <https://arxiv.org/abs/2507.08212>`_ (Akhondzadeh et
    al. 2026): the discrete problem is searched itself, instead of a relaxation of it; the objective
    is accuracy and needs no gradient; flips are kept as a list of pairs, in memory that is linear
    in the budget; mutations are aimed at targets that are still right.

    Differences from the paper (our choices): there is one set of flips instead of a population. In
    place of crossover, additions, returns and exchanges are weighed apart and then made together.
    Where only the rows that a change reaches are computed, each is weighed alone, a small part of a
    forward pass (`answer_search`); else, and on large graphs, many in each pass (`flip_sweeps`).
    The objective is a smooth count of right targets, which sharpens during the search. The search
    begins without flips, with none of another attack.

    A model whose forward is random is searched under one of its draws.

    It ends after a fixed amount of work, counted in forward passes and never in time. On graphs of
    more than `answer_search.LARGE` nodes and edges it is proportionally less, but 500 passes.

    Args:
        forwards: work, in forward passes on the whole graph.
        isolate: whether a node may lose its last edge.
        surrogates: models that a black-box attack attacks together, see `names.SURROGATES`.
        knowledge: `black-box` or `white-box`.
    """

    forwards: int = 1000
    isolate: bool = True
    surrogates: tuple[str, ...] = ("gcn",)
    knowledge: Knowledge = "white-box"

    name: ClassVar[str] = "eva"
    scenario: ClassVar[Scenario] = MODIFICATION
    version: ClassVar[int] = VERSION

    def __post_init__(self) -> None:
        check_knowledge(self)
        check_at_least(1, self, "forwards")

    def perturb(
        self,
        graph: Data,
        threat: Threat,
        model: DifferentiableModel,
        generator: torch.Generator,
    ) -> Perturbation:
        """Flip any pairs of nodes; the model is only asked for logits."""
        clean, flips = edge_set(graph), graph.edge_index.new_empty(0)
        if threat.edge_budget and threat.targets.numel() and graph.num_nodes > 1:
            targets = threat.targets.to(graph.x.device)
            question = Question(
                model=model,
                x=graph.x,
                clean=clean,
                targets=targets,
                labels=graph.y[targets],
                budget=threat.edge_budget,
                isolate=self.isolate,
                room=threat.local_budgets,
                ends=threat.ends,
            )
            work = forwards_on(clean, self.forwards)
            flips = search_by_answers(question, flips, work, generator)
        reason = "no other flip that was tried helps"
        return clean.perturbation(flips, shortfall(flips.numel(), threat.edge_budget, reason))
