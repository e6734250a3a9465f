"""The conclusion of a run on each model, in one or two sentences, from the table of its cases."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Final

from grb_check.cases.case_record import CaseRecord
from grb_check.cases.outcomes import MAIN_REFERENCE, Outcome
from grb_check.cases.suites import SUITES
from grb_check.cases.target_weights import ACCURACY
from grb_check.files.text import fit
from grb_check.gate.limits import Gate
from grb_check.ranking.boards.files import shipped_board
from grb_check.ranking.ranks import rank_over_difficulties
from grb_check.reports.levels import (
    KNOWING,
    UNLEARNED,
    Side,
    above_floor,
    by_level,
    by_model,
    poor,
    sides_of,
)
from grb_check.reports.rank_words import ordinal
from grb_check.reports.record import RunRecord

RANKED: Final = "smoke"  # the suite whose cases make a rank
GATE_ADVICE: Final = (
    "to make a gate of it: a run with --grb-base=main fails if the model loses more than that of "
    "the branch main does"
)


def conclusions(record: RunRecord) -> list[str]:
    """Return what these attacks leave of each model on each dataset, beside what is left of others.

    Of each difficulty the strongest attack counts. Those who know a model may also use the attacks
    that do not need that. All figures are means over the difficulties.
    """
    groups = by_model(record)
    several = len({dataset for _, dataset in groups}) > 1
    return [
        fit(_conclusion(f"{model} on {dataset}" if several else model, rows, record.settings.gate))
        for (model, dataset), rows in groups.items()
    ]


def no_gate(record: RunRecord) -> bool:
    """Whether a run has neither limits of its own nor anything that it is compared with."""
    settings, gate = record.settings, record.settings.gate
    other = settings.base or settings.baseline or record.baseline or record.shard
    return not (gate.thresholds or other) and gate.max_drop is None


def _conclusion(model: str, rows: Sequence[CaseRecord], gate: Gate) -> str:
    outcomes, too_low = above_floor(rows)
    if not outcomes:
        return f"{model} {poor(too_low)}: too few to lose any."
    sides = sides_of(outcomes)
    first, *rest = sides
    words = [f"attackers who {first.who}"]
    words += [f"those who {'do' if side.who == KNOWING else side.who}" for side in rest]
    average = "on average " if len(sides[0].attacks) > 1 else ""
    left = _means(sides, lambda outcome: outcome.attacked)
    of = "" if outcomes[0].metric == ACCURACY else f" ({outcomes[0].metric})"
    if any(outcome.undecided for outcome in outcomes):
        left = f"at least {left}"
    return (
        f"{model} keeps {average}{left}{of} under these attacks, by {' and by '.join(words)}; "
        f"{_others(sides)}.{_at(too_low)}{_rank(rows, gate)}"
    )


def _at(too_low: Sequence[Outcome]) -> str:
    """The difficulties that are not in the sentence, and why."""
    if not too_low:
        return ""
    return f" At {' and '.join(by_level(too_low))} it {poor(too_low)}: too few to lose any."


def _rank(rows: Sequence[CaseRecord], gate: Gate) -> str:
    """The rank on the leaderboard that is shipped for these data, if there is one.

    Of a part of the cases there is none, nor where a diagnostic doubts an attack.
    """
    case = rows[0].case
    board = shipped_board(case.dataset)
    outcomes = [row.outcome for row in rows if row.outcome is not None]
    if board is None or {outcome.dataset for outcome in outcomes} != {board.fingerprint}:
        return ""
    suite = SUITES[RANKED]
    needed = {(level, *attack) for level in suite.difficulties for attack in suite.attacks}
    cells = {
        (outcome.case.difficulty, outcome.case.scenario, outcome.case.attack)
        for outcome in outcomes
    }
    if needed - cells:
        return f" Rank: needs all {len(needed)} cases of the suite {RANKED}."
    if any(outcome.findings for outcome in outcomes):
        return " Rank: none, since diagnostics doubt an attack."
    rank = rank_over_difficulties(rows, board, gate)
    return f" {ordinal(rank[0])} of {rank[1]} on the shipped leaderboard." if rank else ""


def _others(sides: Sequence[Side]) -> str:
    """Attacked accuracies of other models, against the attackers of each side."""
    every = [outcome for side in sides for level in side.attacks.values() for outcome in level]
    reported = []
    if all(outcome.no_graph is not None for outcome in every):
        reported.append(
            ("a model without the graph", _means(sides, lambda outcome: outcome.no_graph or 0.0))
        )
    if all(outcome.has_learned(MAIN_REFERENCE) for outcome in every):
        reported.append(("an undefended GCN", _means(sides, _of_gcn)))
    titles = {outcome.most_robust[0] if outcome.most_robust else "" for outcome in every}
    if "" not in titles:
        name = f" ({titles.pop()})" if len(titles) == 1 else ""
        best = _means(sides, lambda outcome: outcome.most_robust[1] if outcome.most_robust else 0.0)
        reported.append((f"the most robust known{name}", best))
    if not reported:
        return UNLEARNED
    (first, figures), *rest = reported
    return ", ".join([f"{first} keeps {figures}", *map(" ".join, rest)])


def _of_gcn(outcome: Outcome) -> float:
    return statistics.fmean(outcome.references[MAIN_REFERENCE].attacked)


def _means(sides: Sequence[Side], left: Callable[[Outcome], float]) -> str:
    """Return `42 and 39 %`: what is left by each side, the mean over the difficulties."""
    means = [
        round(100 * statistics.fmean(min(map(left, values)) for values in side.attacks.values()))
        for side in sides
    ]
    return f"{' and '.join(map(str, dict.fromkeys(means)))} %"
