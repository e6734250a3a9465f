"""Diagnostics: named checks whether an attack was strong enough, as AutoAttack has for images.

Each check takes figures and returns a `Finding` or None. docs/explanation/diagnostics.md explains
the names and what to do. Needs no torch: `gradient_checks` and `white_box` measure
the figures.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from grb_check.attacks.scenarios import INJECTION
from grb_check.cases.findings import Finding
from grb_check.errors import count

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from grb_check.attacks.threat import Threat

    Right = NDArray[np.bool_]  # [t], which targets are classified correctly

TRANSFER: Final = "transfer-stronger"
ENOUGH_TARGETS: Final = 20  # right before the attack; with fewer, an effect may be chance


@dataclass(frozen=True, kw_only=True)
class Diagnostic:
    """One check: its figure, and the limit beyond which the figure is a finding.

    Attributes:
        name: in reports, and the heading in docs/explanation/diagnostics.md.
        limit: of the figure.
        figure: description of what is measured.
        about_model: whether it concerns the model, and so every attack on it.
    """

    name: str
    limit: float
    figure: str
    about_model: bool = False


_ROWS: Final = (
    Diagnostic(
        name="no-gradient",
        limit=0.1,
        figure="share of sampled targets whose margin has no gradient",
        about_model=True,
    ),
    Diagnostic(
        name="wrong-gradient",
        limit=0.1,
        figure="share of sampled targets whose margin does not change as its gradient predicts",
        about_model=True,
    ),
    Diagnostic(
        name="cut-off",
        limit=0.1,
        figure="share of linked targets whose logits the injected nodes do not change",
        about_model=True,
    ),
    Diagnostic(
        name="random-forward",
        limit=0.01,
        figure="share of targets whose class differs between two calls",
        about_model=True,
    ),
    Diagnostic(
        name="kept-state",
        limit=0.001,
        figure="share of nodes whose class depends on earlier calls",
        about_model=True,
    ),
    Diagnostic(
        name=TRANSFER,
        limit=0.01,
        figure="share of targets that the transferred perturbation takes beyond the adaptive one",
    ),
    Diagnostic(
        name="random-stronger",
        limit=0.01,
        figure="share of targets that a random perturbation takes beyond the adaptive one",
    ),
    Diagnostic(
        name="no-effect",
        limit=1.64,
        figure="deviations of chance by which lost targets outnumber gained ones",
    ),
    Diagnostic(name="budget-unused", limit=0.9, figure="share of the budget that was used"),
)
DIAGNOSTICS: Final[Mapping[str, Diagnostic]] = {row.name: row for row in _ROWS}


def no_gradient(missing: float | None, error: str, with_respect_to: str) -> Finding | None:
    """Many targets have a margin without a usable gradient.

    Args:
        missing: their share, see `gradient_checks.missing_gradients`.
        error: that was raised, empty if there was none.
        with_respect_to: features or edges, for the message.
    """
    if missing is None or missing <= DIAGNOSTICS["no-gradient"].limit:
        return None
    text = (
        f"the margins of {missing:.0%} of the sampled targets have no gradient with respect to "
        f"{with_respect_to}, or one of exactly zero or not finite (limit 10%)"
        + (f"; raised: {error}" if error else "")
    )
    return _finding("no-gradient", missing, text)


def wrong_gradient(wrong: float, with_respect_to: str) -> Finding | None:
    """Many margins do not change as their gradient predicts, see `gradient_checks`."""
    if wrong <= DIAGNOSTICS["wrong-gradient"].limit:
        return None
    text = (
        f"the margins of {wrong:.0%} of the sampled targets do not change as their gradient with "
        f"respect to {with_respect_to} predicts (limit 10%)"
    )
    return _finding("wrong-gradient", wrong, text)


def cut_off(share: float, under: str = "") -> Finding | None:
    """Many targets do not notice the injected nodes that are linked to them.

    Args:
        share: of these targets.
        under: what linked them, if not the attack.
    """
    if share <= DIAGNOSTICS["cut-off"].limit:
        return None
    text = f"{share:.0%} of the targets with injected neighbours keep their logits{under}"
    return _finding("cut-off", share, f"{text} (limit 10%)")


def random_forward(differing: float) -> Finding | None:
    """Two calls on the attacked graph disagree on this share of the targets."""
    if differing <= DIAGNOSTICS["random-forward"].limit:
        return None
    text = f"two calls on the attacked graph give {differing:.1%} of the targets another class"
    return _finding("random-forward", differing, f"{text} (limit 1%)")


def kept_state(clean: float, attacked: float | None, again: float = 0.0) -> Finding | None:
    """Predictions depend on earlier calls.

    Args:
        clean: share of the nodes whose class on the clean graph changed during the attack.
        attacked: share of the targets whose class on the attacked graph differs from the prediction
            of a copy that had seen neither graph; None if the model cannot be copied.
        again: share of the targets whose class on the attacked graph differs between two calls with
            the same seed.
    """
    for share, where in (
        (again, "on the attacked graph differ between two calls with the same seed"),
        (clean, "on the clean graph differ after the attack from before it"),
        (
            attacked,
            "on the attacked graph differ from those of a copy that had seen no graph before",
        ),
    ):
        if share is not None and share > DIAGNOSTICS["kept-state"].limit:
            text = f"{share:.1%} of the predictions {where} (limit 0.1%)"
            return _finding("kept-state", share, text)
    return None


def nearly_all_lost(right: Right) -> bool:
    """Whether so few targets stay right, bool [t], that no perturbation can be clearly stronger."""
    return int(right.sum()) <= DIAGNOSTICS[TRANSFER].limit * right.size


def stronger(
    name: str,
    adaptive: Right,
    other: Right,
    what: str,
    than: str = "the attack on the model itself",
) -> Finding | None:
    """Another perturbation of the same budget is clearly stronger than the adaptive one.

    Args:
        name: `transfer-stronger` or `random-stronger`.
        adaptive: targets that stay right under the adaptive perturbation, bool [t].
        other: targets that stay right under the other one, bool [t].
        what: description of the other one, for the message.
        than: description of the adaptive one.
    """
    ahead = int(adaptive.sum()) - int(other.sum())
    limit = DIAGNOSTICS[name].limit
    if ahead <= max(1.0, limit * adaptive.size):
        return None
    text = (
        f"{what} leaves {ahead} of {count(adaptive.size, 'target')} fewer right than {than} "
        f"(limit {limit:.0%}, at least 1)"
    )
    return _finding(name, ahead / adaptive.size, text)


def no_effect(before: Right, after: Right) -> Finding | None:
    """The attack changes no more targets than chance would: a one-sided sign test at 5 %.

    A changed target is lost or gained. If both were equally likely, the standard deviation of their
    difference would be sqrt(lost + gained).
    """
    lost, gained = int((before & ~after).sum()), int((~before & after).sum())
    if int(before.sum()) < ENOUGH_TARGETS:
        return None
    deviations = (lost - gained) / math.sqrt(max(lost + gained, 1))
    if deviations > DIAGNOSTICS["no-effect"].limit:
        return None
    text = (
        f"{count(lost, 'target')} lost and {gained} gained of {int(before.sum())} right ones, "
        "no more than "
        f"chance (a difference above 1.64 deviations would be)"
    )
    return _finding("no-effect", deviations, text)


def budget_unused(spent: Mapping[str, int], threat: Threat) -> Finding | None:
    """Less than 90 % of the budget was used, of the kinds of changes that the attack makes.

    Args:
        spent: sizes of the parts of a perturbation by name; `link_ends` counts the injected ends of
            links.
        threat: the budget.
    """
    used, allowed, what = min(_used(spent, threat), key=lambda usage: usage[0] / max(usage[1], 1))
    if used >= DIAGNOSTICS["budget-unused"].limit * allowed:
        return None
    return _finding("budget-unused", used / allowed, f"{used} of {allowed} {what} used (limit 90%)")


def about_model(findings: Iterable[Finding]) -> list[Finding]:
    """Findings that concern the model itself."""
    return [finding for finding in findings if DIAGNOSTICS[finding.name].about_model]


def _used(spent: Mapping[str, int], threat: Threat) -> list[tuple[int, int, str]]:
    """Used and allowed numbers of each kind of change."""
    if threat.scenario == INJECTION:
        links = threat.injected_nodes * threat.edges_per_injected_node
        return [
            (spent["injected_nodes"], threat.injected_nodes, "injected nodes"),
            (spent["link_ends"], links, "links of injected nodes"),
        ]
    edges = spent["added_edges"] + spent["removed_edges"]
    nodes = spent["modified_nodes"]
    result = []
    if nodes:
        result.append((nodes, threat.modified_nodes, "nodes with modified features"))
    if edges or not nodes:  # unless only features are attacked
        result.append((edges, threat.edge_budget, "edge changes"))
    return result


def _finding(name: str, figure: float, text: str) -> Finding:
    return Finding(name=name, figure=float(figure), limit=DIAGNOSTICS[name].limit, text=text)
