"""How long an audit may take, from one training and one pass of each model. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from grb_check.attacks.names import WORST, base_name, without_budgets
from grb_check.cases.case import Case

# Passes through a model and back that an attack takes, measured on GAT with GNNGuard, whose layers
# have no shorter way (`--grb-suite=audit`, synthetic-cora): seconds of the case by those of a pass.
PASSES: Final[Mapping[str, int]] = MappingProxyType(
    {
        "injection/pgd+white-box": 40,
        "injection/tdgia+white-box": 80,
        "injection/agia+white-box": 1200,
        "modification/pgd+white-box": 30,
        "modification/prbcd": 400,
        "modification/grbcd": 700,
        "modification/eva": 600,
        "modification/lrbcd": 350,
    }
)
SURROGATES: Final = 1  # passes of a black-box case, which attacks another model


def seconds(cases: Iterable[Case], repeats: int, *, training: float, one_pass: float) -> float:
    """Return the seconds that the cases of one model and dataset may take.

    Models whose layers attacks know need much less, models without a gradient more.

    Args:
        cases: of the model and dataset; `worst` costs nothing beside its members.
        repeats: of each case.
        training: seconds of one training.
        one_pass: seconds of a pass through the model and back.
    """
    names = [f"{case.scenario}/{without_budgets(case.attack)}" for case in cases]
    passes = sum(
        PASSES.get(name, SURROGATES) for name in names if base_name(name.split("/")[1]) != WORST
    )
    return repeats * (training + passes * one_pass)


def duration(of_seconds: float) -> str:
    """Return seconds in words: minutes from two on."""
    minutes = round(of_seconds / 60)
    return f"{minutes} min" if minutes >= 2 else f"{of_seconds:.0f} s"
