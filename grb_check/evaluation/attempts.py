"""Attempts to attack a model: perturbations by different methods, and what each leaves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from grb_check.attacks.threat import Perturbation
from grb_check.cases.outcomes import Method
from grb_check.evaluation.scores import Right


class Attempt(NamedTuple):
    """A perturbation, whether the store had it, and the targets that stay right under it."""

    perturbation: Perturbation
    from_store: bool
    right: Right


# "adaptive" or "score-based" is there.
Attempts: TypeAlias = Mapping[Method, Attempt]
