"""The finding of a run on each model, as one of five levels (docs/explanation/levels.md).

A model is on a level if its repeats show that it is above what bounds the level from below. Where
they do not, the lower one counts: a level is never kinder than what was found.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from grb_check.attacks.names import WORST, base_name, split_gang, with_gang
from grb_check.attacks.scenarios import POISONING
from grb_check.cases.case_record import CaseRecord
from grb_check.cases.node_ids import case_of, is_node_id
from grb_check.cases.outcomes import MAIN_REFERENCE, Outcome
from grb_check.cases.target_weights import ACCURACY
from grb_check.errors import count
from grb_check.files.text import fit
from grb_check.gate.drop_interval import ONE_REPEAT_FREEDOM, ONE_REPEAT_SCALE
from grb_check.reports.audit import audit_conclusions
from grb_check.reports.plain import enumerated
from grb_check.reports.record import RunRecord

NEAR: Final = 0.05  # of accuracy below the most robust known model
GOOD: Final = 4  # the lowest level of a model that withstood more than an undefended one
TITLES: Final = {
    3: "No more robust than an undefended model",
    4: "More robust than an undefended model",
    5: "Near the most robust known model",
}
KNOWING: Final = "know it"
UNSHOWN: Final = "Not shown to be more robust than an undefended model"
UNLEARNED: Final = "neither an undefended GCN nor a model without the graph has learned the data"
_TAIL: Final = 0.975  # of the two-sided 95 % interval

Attacks = Mapping[str, Sequence[Outcome]]  # difficulty -> the attacks of some attackers


@dataclass(frozen=True)
class Level:
    """The finding on a model on a dataset.

    Attributes:
        model: its name.
        dataset: name.
        rank: from 1 to 5, the best; 0 if nothing can be said.
        text: one line, with the figures that make it.
        certain: whether both kinds of attackers were tried, all cases came back, no audit gives an
            alarm, and no diagnostic doubts an attack.
    """

    model: str
    dataset: str
    rank: int
    text: str
    certain: bool = False

    @property
    def good(self) -> bool:
        """Whether a green sign may stand beside it."""
        return self.rank >= GOOD and self.certain


@dataclass(frozen=True)
class Side:
    """Attackers who know as much, and what they left.

    Attributes:
        who: `attackers who ...`.
        attacks: by difficulty.
        rank: of the level if the model falls to them.
    """

    who: str
    attacks: Attacks
    rank: int

    @property
    def strongest(self) -> list[Outcome]:
        """The attack of each difficulty that leaves least."""
        return [min(level, key=lambda outcome: outcome.attacked) for level in self.attacks.values()]


def levels(record: RunRecord) -> list[Level]:
    """Return the level of each model on each dataset, in the order of the cases."""
    conclusions = audit_conclusions(record)
    result = []
    for (model, dataset), rows in by_model(record).items():
        alarms = [
            f"the audit: it {conclusion.alarm}"
            for conclusion in conclusions
            if (conclusion.model, conclusion.dataset) == (rows[0].case.model, dataset)
            and conclusion.alarm
        ]
        result.append(_level(model, dataset, rows, [*alarms, *_lacks(record, rows)]))
    return result


def by_model(record: RunRecord) -> dict[tuple[str, str], list[CaseRecord]]:
    """Return the built-in cases that have figures, by model and dataset.

    `worst` is left out: it is made of others.
    """
    groups: dict[tuple[str, str], list[CaseRecord]] = {}
    for row in record.cases:
        counts = is_node_id(row.node_id) and base_name(row.case.attack) != WORST
        if row.outcome is not None and counts:
            groups.setdefault((row.outcome.model, row.case.dataset), []).append(row)
    return groups


def sides_of(outcomes: Sequence[Outcome]) -> list[Side]:
    """Return who attacked: those who know a model may use the attacks that do not need that."""
    poisoning = [outcome for outcome in outcomes if outcome.case.scenario == POISONING]
    evasion = [outcome for outcome in outcomes if outcome.case.scenario != POISONING]
    unknown = [outcome for outcome in evasion if not outcome.adaptive]
    known = evasion if len(unknown) < len(evasion) else []
    sides = (
        Side("do not know it", by_level(unknown), 1),
        Side(KNOWING, by_level(known), 2),
        Side("change what it is trained on", by_level(poisoning), 2),
    )
    return [side for side in sides if side.attacks]


def by_level(outcomes: Sequence[Outcome]) -> Attacks:
    """Return outcomes by difficulty; those of gangs apart, whose targets are others."""
    result: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        level = with_gang(outcome.case.difficulty, split_gang(outcome.case.attack)[1])
        result.setdefault(level, []).append(outcome)
    return result


def range_of(outcomes: Sequence[Outcome], left: Callable[[Outcome], float]) -> str:
    """Return `41 to 48 %`: the least and the most that is left, over the difficulties."""
    figures = [round(100 * left(outcome)) for outcome in outcomes]
    least, most = min(figures), max(figures)
    return f"{least} %" if least == most else f"{least} to {most} %"


def _level(model: str, dataset: str, rows: Sequence[CaseRecord], lacks: Sequence[str]) -> Level:
    outcomes, too_low = above_floor(rows)
    why = _why_not_judged(outcomes, too_low)
    if why:
        return Level(fit(model), dataset, 0, f"Not judged: {why}")
    sides = sides_of(outcomes)
    rank, side = min(
        ((_rank(side), side) for side in sides),
        key=lambda pair: (pair[0], statistics.fmean(map(_attacked, pair[1].strongest))),
    )
    adaptive = any(outcome.adaptive for outcome in outcomes)
    title = _title(rank, side)
    title += f" against attackers who {side.who}" * (rank in TITLES and not adaptive)
    of = "" if outcomes[0].metric == ACCURACY else f" ({outcomes[0].metric})"
    left = f"{range_of(side.strongest, _attacked)}{of}"
    remarks = [f"{title}: {_strongest_of(side)} leaves {left}", _beside(rank, side)]
    if too_low:
        where = " and ".join(by_level(too_low))
        remarks.append(f"not judged at {where}, where it {poor(too_low)}")
    if not adaptive:
        remarks.append("nobody who knows it attacked")
    undecided = max(outcome.undecided for outcome in outcomes)
    if undecided:
        most = range_of(side.strongest, lambda outcome: outcome.attacked_at_most)
        remarks.append(f"{undecided} undecided targets count as lost, with them {most} may be left")
    findings = sorted({finding.name for outcome in outcomes for finding in outcome.findings})
    if findings:
        remarks.append(f"diagnostics doubt the attacks: {enumerated(findings)}")
    certain = adaptive and not (findings or lacks or too_low or undecided)
    return Level(fit(model), dataset, rank, fit("; ".join([*remarks, *lacks])), certain)


def _title(rank: int, side: Side) -> str:
    """The title of a level; where the repeats do not show a higher one, that is what it says."""
    if rank not in TITLES:
        above = statistics.fmean(
            outcome.attacked_at_most for outcome in side.strongest
        ) > statistics.fmean(map(_no_graph, side.strongest))
        return f"{'Not shown to withstand' if above else 'Falls to'} attackers who {side.who}"
    learned = all(outcome.has_learned(MAIN_REFERENCE) for outcome in side.strongest)
    above = learned and statistics.fmean(map(_attacked, side.strongest)) > statistics.fmean(
        outcome.reference_attacked for outcome in side.strongest
    )
    return UNSHOWN if rank == min(TITLES) and above else TITLES[rank]


def above_floor(rows: Sequence[CaseRecord]) -> tuple[list[Outcome], list[Outcome]]:
    """Return the outcomes of difficulties whose cases are all above their clean floor, and others.

    A model that has too little to lose at one difficulty may be judged by the others.
    """
    low = {row.case.difficulty for row in rows if row.below_floor}
    outcomes = [row.outcome for row in rows if row.outcome is not None]
    return (
        [outcome for outcome in outcomes if outcome.case.difficulty not in low],
        [outcome for outcome in outcomes if outcome.case.difficulty in low],
    )


def _strongest_of(side: Side) -> str:
    """Return `at each difficulty the strongest of 6 attacks`; by gangs of each size likewise."""
    outcomes = [outcome for level in side.attacks.values() for outcome in level]
    attacks = len({(outcome.case.scenario, outcome.case.attack) for outcome in outcomes})
    if attacks == 1:
        return "1 attack"
    difficulties = {outcome.case.difficulty for outcome in outcomes}
    gangs = {split_gang(outcome.case.attack)[1] for outcome in outcomes}
    each = ["at each difficulty"] * (len(difficulties) > 1) + ["by each gang"] * (len(gangs) > 1)
    return " ".join([*filter(None, [" and ".join(each)]), f"the strongest of {attacks} attacks"])


def _why_not_judged(outcomes: Sequence[Outcome], too_low: Sequence[Outcome]) -> str:
    if not outcomes:
        return f"it {poor(too_low)}"
    known = all(
        outcome.no_graph is not None or outcome.has_learned(MAIN_REFERENCE) for outcome in outcomes
    )
    return "" if known else UNLEARNED


def poor(outcomes: Sequence[Outcome]) -> str:
    """Return what a model does without an attack that does too little."""
    clean = statistics.fmean(outcome.clean for outcome in outcomes)
    if outcomes[0].metric != ACCURACY:
        return f"has a {outcomes[0].metric} of only {clean:.0%} without an attack"
    return f"classifies only {clean:.0%} correctly without an attack"


def _rank(side: Side) -> int:
    strongest = side.strongest
    if all(outcome.no_graph is not None for outcome in strongest) and not _above(
        strongest, lambda outcome: outcome.no_graph or 0.0
    ):
        return side.rank
    learned = all(outcome.has_learned(MAIN_REFERENCE) for outcome in strongest)
    if not learned or not _above(strongest, lambda outcome: outcome.reference_attacked):
        return 3
    best = all(outcome.most_robust is not None for outcome in strongest)
    return 5 if best and _above(strongest, lambda outcome: _best(outcome) - NEAR) else 4


def _above(strongest: Sequence[Outcome], mark: Callable[[Outcome], float]) -> bool:
    """Whether the mean over the difficulties is above that of a mark, by its 95 % interval."""
    from scipy.special import stdtrit

    repeats = min(len(outcome.repeats) for outcome in strongest)
    excess = [
        statistics.fmean(
            outcome.repeats[repeat].victim.attacked - mark(outcome) for outcome in strongest
        )
        for repeat in range(repeats)
    ]
    if repeats > 1:
        freedom, variance = repeats - 1.0, statistics.variance(excess)
    else:
        freedom = ONE_REPEAT_FREEDOM
        variance = ONE_REPEAT_SCALE * statistics.fmean(
            outcome.attacked * (1 - outcome.attacked) / outcome.effective_targets
            for outcome in strongest
        )
    width = float(stdtrit(freedom, _TAIL)) * math.sqrt(variance / repeats)
    return statistics.fmean(excess) - width > 0.0


def _attacked(outcome: Outcome) -> float:
    return outcome.attacked


def _best(outcome: Outcome) -> float:
    return outcome.most_robust[1] if outcome.most_robust is not None else 0.0


def _beside(rank: int, side: Side) -> str:
    """The model that the level compares with, and what is left of it."""
    strongest = side.strongest
    if rank not in TITLES:
        return f"a model without the graph keeps {range_of(strongest, _no_graph)}"
    if rank == max(TITLES):
        return f"that keeps {range_of(strongest, _best)}"
    if all(outcome.has_learned(MAIN_REFERENCE) for outcome in strongest):
        gcn = range_of(strongest, lambda outcome: outcome.reference_attacked)
        return f"an undefended GCN keeps {gcn}"
    return f"a model without the graph keeps {range_of(strongest, _no_graph)}"


def _no_graph(outcome: Outcome) -> float:
    return outcome.no_graph or 0.0


def _lacks(record: RunRecord, rows: Sequence[CaseRecord]) -> list[str]:
    """The parts of the run that are not there: cases without figures, and other shards."""
    group = (rows[0].case.model, rows[0].case.dataset)
    named = [case for case in map(case_of, record.missing) if case is not None]
    failed = [row.case for row in record.cases if row.outcome is None and is_node_id(row.node_id)]
    lost = sum((case.model, case.dataset) == group for case in {*named, *failed})
    result = [f"{count(lost, 'case')} without figures may hold stronger attacks"] if lost else []
    if record.shard is not None:
        result.append(f"part {record.shard.index} of {record.shard.count} of the run")
    return result
