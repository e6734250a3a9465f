"""What the gradient attacks on edges have in common."""

from __future__ import annotations

from typing import Protocol, get_args

from torch import Tensor
from torch_geometric.data import Data

from grb_check.attacks.edges.flip_sources import Aim
from grb_check.attacks.edges.removable import shortfall
from grb_check.attacks.names import check_surrogates
from grb_check.attacks.objectives import objective_named
from grb_check.attacks.protocol import DifferentiableModel
from grb_check.attacks.threat import Knowledge, Threat
from grb_check.errors import UsageError, choose


class EdgeSearch(Protocol):
    """The settings that all of them have."""

    @property
    def objective(self) -> str: ...
    @property
    def surrogates(self) -> tuple[str, ...]: ...
    @property
    def knowledge(self) -> Knowledge: ...


def check_edge_search(settings: EdgeSearch, **counts: int) -> None:
    """Refuse settings that no search can have.

    Args:
        counts: settings that have to be 1 or more.

    Raises:
        UsageError: names the setting, its value and what is allowed.
    """
    objective_named(settings.objective)
    for name, value in counts.items():
        if value < 1:
            raise UsageError(f"{name} is {value}, allowed are 1 and more")
    choose("knowledge", settings.knowledge, get_args(Knowledge))
    check_surrogates(settings.surrogates)
    if settings.knowledge == "white-box" and settings.surrogates != ("gcn",):
        raise UsageError(
            f"surrogates is {settings.surrogates!r} with knowledge 'white-box', which attacks the "
            f"model itself; leave one of the two out"
        )


def check_step_size(value: float) -> None:
    """Refuse what is no step size.

    Raises:
        UsageError: it is not above 0.
    """
    if not value > 0:
        raise UsageError(f"step_size is {value}, allowed is anything above 0")


def check_share(name: str, value: float) -> None:
    """Refuse what is no share.

    Raises:
        UsageError: it is not above 0 and at most 1.
    """
    if not 0 < value <= 1:
        raise UsageError(f"{name} is {value}, allowed is above 0 and at most 1")


def aim_of(
    graph: Data, threat: Threat, model: DifferentiableModel, objective: str, rows: Tensor
) -> Aim:
    """What an attack with these settings wants, with an end of every flip among `rows` [m].

    All of it is on the graph's device, wherever the threat's targets are.
    """
    targets, rows = (nodes.to(graph.x.device) for nodes in (threat.targets, rows))
    return Aim(model, graph.x, targets, graph.y[targets], objective_named(objective), rows)


def unused(threat: Threat, used: int) -> tuple[str, ...]:
    """The note on what is left of the budget."""
    return shortfall(used, threat.edge_budget, "no other one raises the objective")
