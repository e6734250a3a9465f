"""The conclusion of a run on each model, in one or two sentences, from the table of its cases."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from grb_check.attacks.names import WORST, base_name
from grb_check.attacks.scenarios import POISONING
from grb_check.cases.case_record import CaseRecord
from grb_check.cases.node_ids import is_node_id
from grb_check.cases.outcomes import MAIN_REFERENCE, Outcome
from grb_check.files.text import fit
from grb_check.gate.limits import Gate
from grb_check.ranking.boards.files import shipped_board
from grb_check.ranking.ranks import rank_over_difficulties
from grb_check.reports.rank_words import ordinal
from grb_check.reports.record import RunRecord

GATE_ADVICE: Final = (
    "to make a gate of it: a run with --grb-base=main fails if the model loses more than that of "
    "the branch main does"
)

Levels = Mapping[str, Sequence[Outcome]]  # difficulty -> the attacks of some attackers


def conclusions(record: RunRecord) -> list[str]:
    """Return what an attacker leaves of each model on each dataset, beside what is left of others.

    Of each difficulty the strongest attack counts. Those who know a model may also use the attacks
    that do not need that.
    """
    groups: dict[tuple[str, str], list[CaseRecord]] = {}
    for row in record.cases:
        counts = is_node_id(row.node_id) and base_name(row.case.attack) != WORST
        if row.outcome is not None and counts:
            groups.setdefault((row.outcome.model, row.case.dataset), []).append(row)
    several = len({dataset for _, dataset in groups}) > 1
    return [
        fit(_conclusion(f"{model} on {dataset}" if several else model, rows, record.settings.gate))
        for (model, dataset), rows in groups.items()
    ]


def no_gate(record: RunRecord) -> bool:
    """Whether a run has neither limits of its own nor a baseline."""
    gate = record.settings.gate
    return not (gate.thresholds or record.baseline or record.shard) and gate.max_drop is None


def _conclusion(model: str, rows: Sequence[CaseRecord], gate: Gate) -> str:
    outcomes = [row.outcome for row in rows if row.outcome is not None]
    if any(row.below_floor for row in rows):
        clean = statistics.fmean(outcome.clean for outcome in outcomes)
        return (
            f"{model} classifies only {clean:.0%} correctly without an attack: too few to lose any."
        )
    poisoning = [outcome for outcome in outcomes if outcome.case.scenario == POISONING]
    evasion = [outcome for outcome in outcomes if outcome.case.scenario != POISONING]
    unknown = _by_level([outcome for outcome in evasion if not outcome.adaptive])
    known = _by_level(evasion) if any(outcome.adaptive for outcome in evasion) else {}
    attackers = (
        (unknown, "do not know it"),
        (known, "do" if unknown else "know it"),
        (_by_level(poisoning), "change what it is trained on"),
    )
    sides = [side for side, _ in attackers if side]
    accuracies = " and ".join(
        f"{_range(side, lambda outcome: outcome.attacked)} against "
        f"{'attackers' if side is sides[0] else 'those'} who {who}"
        for side, who in attackers
        if side
    )
    average = "on average " if len(sides[0]) > 1 else ""
    below = " It would do better without the graph." if _is_below(sides[-1]) else ""
    return f"{model} keeps {accuracies}; {average}{_others(sides)}.{_rank(rows, gate)}{below}"


def _rank(rows: Sequence[CaseRecord], gate: Gate) -> str:
    """The rank on the leaderboard that is shipped for these data, if there is one."""
    case = rows[0].case
    board = shipped_board(case.dataset)
    data = {row.outcome.dataset for row in rows if row.outcome is not None}
    if board is None or data != {board.fingerprint}:
        return ""
    rank = rank_over_difficulties(rows, board, gate)
    return f" {ordinal(rank[0])} of {rank[1]} on the shipped leaderboard." if rank else ""


def _is_below(levels: Levels) -> bool:
    """Whether less is left than of a model that ignores the graph, at every difficulty."""
    return all(
        any(
            outcome.no_graph is not None and outcome.attacked < outcome.no_graph
            for outcome in level
        )
        for level in levels.values()
    )


def _others(sides: Sequence[Levels]) -> str:
    """Attacked accuracies of other models, against the attackers of each side."""
    every = [outcome for side in sides for level in side.values() for outcome in level]
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
        return "no other model has learned the data"
    (first, figures), *rest = reported
    return ", ".join([f"{first} keeps {figures}", *map(" ".join, rest)])


def _of_gcn(outcome: Outcome) -> float:
    return statistics.fmean(outcome.references[MAIN_REFERENCE].attacked)


def _by_level(outcomes: Sequence[Outcome]) -> Levels:
    result: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        result.setdefault(outcome.case.difficulty, []).append(outcome)
    return result


def _range(levels: Levels, left: Callable[[Outcome], float]) -> str:
    """Return `41 to 48 %`: the least and the most that is left, over the difficulties."""
    lowest = [round(100 * min(map(left, level))) for level in levels.values()]
    least, most = min(lowest), max(lowest)
    return f"{least} %" if least == most else f"{least} to {most} %"


def _means(sides: Sequence[Levels], left: Callable[[Outcome], float]) -> str:
    """Return `42 and 39 %`: what is left by each side, the mean over the difficulties."""
    means = [
        round(100 * statistics.fmean(min(map(left, values)) for values in side.values()))
        for side in sides
    ]
    return f"{' and '.join(map(str, dict.fromkeys(means)))} %"
