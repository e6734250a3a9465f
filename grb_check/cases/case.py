"""A case: dataset x difficulty x attack, of one of the models of a run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Final

from grb_check.attacks.names import (
    without_budgets,
)
from grb_check.cases.attack_pairs import attack_order

DIFFICULTIES: Final = ("easy", "medium", "hard", "full")
WHOLE: Final = "full"  # the only difficulty of a set of graphs


@dataclass(frozen=True, order=True)
class Case:
    """One dataset x difficulty x attack, and the model's label if a run has several models.

    >>> Case("grb-cora", "easy", "injection", "pgd").id
    'grb-cora/easy/injection/pgd'
    """

    dataset: str
    difficulty: str
    scenario: str
    attack: str
    model: str = ""

    @property
    def cell(self) -> str:
        """Return the part in the brackets of the node id."""
        return f"{self.difficulty}/{self.scenario}/{self.attack}"

    @property
    def id(self) -> str:
        """Return `[model@]dataset/difficulty/scenario/attack`."""
        prefix = f"{self.model}@" if self.model else ""
        return f"{prefix}{self.dataset}/{self.cell}"

    @property
    def order(self) -> tuple[str, str, int, tuple[int, int, str, float]]:
        """Return the key that sorts cases as reports show them."""
        level = DIFFICULTIES.index(self.difficulty)
        return (self.model, self.dataset, level, attack_order((self.scenario, self.attack)))

    def matches(self, pattern: str) -> bool:
        """Whether a shell pattern matches the id, with or without its `model@`."""
        return fnmatchcase(self.id, pattern) or fnmatchcase(f"{self.dataset}/{self.cell}", pattern)

    def fits(self, pattern: str) -> bool:
        """Whether a pattern matches the case, or the case without its budgets."""
        plain = replace(self, attack=without_budgets(self.attack))
        return self.matches(pattern) or plain.matches(pattern)
