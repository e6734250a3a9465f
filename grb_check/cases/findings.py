"""Findings of diagnostics: reasons to doubt that an attack was strong enough."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DIAGNOSTICS_PAGE: Final = "docs/explanation/diagnostics.md"


def anchor(diagnostic: str) -> str:
    """Return the place in the documentation that explains a diagnostic."""
    return f"{DIAGNOSTICS_PAGE}#{diagnostic}"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A reason to doubt that the attack was strong enough.

    Attributes:
        name: of the diagnostic, see `evaluation.diagnostics`.
        figure: that was measured.
        limit: of the figure.
        text: both, for people.
    """

    name: str
    figure: float
    limit: float
    text: str
