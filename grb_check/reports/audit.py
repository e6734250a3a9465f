"""The conclusion of the suite `audit` on each model and dataset."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from grb_check.attacks.names import NOT_EXCHANGED
from grb_check.cases.case_record import CaseRecord
from grb_check.cases.node_ids import case_of
from grb_check.cases.outcomes import AHEAD, MAIN_REFERENCE, Method, Outcome
from grb_check.errors import count
from grb_check.ranking.lowest import Lowest, Strongest, lowest, threat_name
from grb_check.reports.record import RunRecord

AUDIT: Final = "audit"  # the suite
AGREE: Final = 0.02  # of accuracy, that searches by gradients and by answers may be apart
SEARCHES: Final[Mapping[Method, str]] = {"adaptive": "gradients", "score-based": "answers"}


@dataclass(frozen=True)
class Conclusion:
    """The conclusion on a model.

    Attributes:
        model: its label in case ids; empty if the run has one model.
        dataset: name.
        text: one line.
        alarm: what it comes to, if an attacker who knows it leaves it no better than an undefended
            model, under a threat or more: `test_audit` fails. Else empty.
    """

    model: str
    dataset: str
    text: str
    alarm: str

    @property
    def falls(self) -> bool:
        """Whether there is an alarm."""
        return bool(self.alarm)


def audit_conclusions(record: RunRecord) -> list[Conclusion]:
    """Return the conclusion on each model and dataset; none for other suites and parts of a run.

    A model stands against a threat if an attacker who knows it, and who may use the attacks that do
    not need that, too, leaves more than `AHEAD` beyond what is left of an undefended GCN. It only
    looks robust if it is that far ahead of the GCN under the attacks that do not know it, and under
    those that do it is not. It only may stand if a stronger attack of that threat that knows it may
    have been missed: diagnostics doubt one, or the strongest of the searches by gradients and the
    strongest of those by answers are more than `AGREE` apart.
    """
    if record.settings.suite != AUDIT or record.shard is not None:
        return []
    groups: dict[tuple[str, str], list[CaseRecord]] = {}
    for row in record.cases:
        groups.setdefault((_model_of(row, record), row.case.dataset), []).append(row)
    several = len({dataset for _, dataset in groups}) > 1
    return [
        Conclusion(
            rows[0].case.model,
            dataset,
            *_conclusion(f"{model} on {dataset}" if several else model, rows, record),
        )
        for (model, dataset), rows in groups.items()
        if model
    ]


def _conclusion(model: str, rows: Sequence[CaseRecord], record: RunRecord) -> tuple[str, str]:
    """The conclusion in words, and the alarm."""
    why = ""
    if any(row.verdict is not None and row.verdict.below_floor for row in rows):
        why = "its figure without an attack is below the floor"
    elif any(row.outcome and not row.outcome.has_learned(MAIN_REFERENCE) for row in rows):
        why = "the undefended GCN has not learned the data"
    if why:
        return f"{model} is not judged: {why}", ""
    entries = lowest(rows, least=1)
    standing = [entry for entry in entries if entry.known and entry.known.ahead > AHEAD]
    falling = [entry for entry in entries if entry.known and entry.known.ahead <= AHEAD]
    apart = [words for entry in standing if (words := _disagreement(entry, record))]
    doubted = bool(apart) or any(_is_doubted(entry, record) for entry in standing)
    alarm = _alarm(falling, alone=not standing) if falling else ""
    text = f"{model} {_verdict(standing, falling, 'may stand' if doubted else 'stands', alarm)}"
    unknown = [entry.threat for entry in entries if entry.known is None]
    if unknown and (standing or falling):
        text += f"; nobody who knows it attacked under {', '.join(dict.fromkeys(unknown))}"
    return "; ".join([text, *apart, *_doubts(rows, record)]), alarm


def _is_doubted(entry: Lowest, record: RunRecord) -> bool:
    """Return whether an adaptive attack of a threat has a finding, or could not be all it is."""
    return any(outcome.findings or _kept_its_links(outcome) for outcome in _adaptive(entry, record))


def _adaptive(entry: Lowest, record: RunRecord) -> list[Outcome]:
    """The outcomes of the attacks of a threat that know the model."""
    key = entry.model, entry.dataset, entry.difficulty, entry.threat
    outcomes = [row.outcome for row in record.cases if row.outcome is not None]
    return [
        outcome
        for outcome in outcomes
        if outcome.adaptive
        and key
        == (outcome.model, outcome.case.dataset, outcome.case.difficulty, threat_name(outcome.case))
    ]


def _disagreement(entry: Lowest, record: RunRecord) -> str:
    """Words on searches that do not find the same, or were not both made; empty if they do.

    Of the attacks in a repeat the strongest of each search counts; of repeats the mean, of those
    with both. A repeat in which the model falls to gradients is not searched by answers.
    """
    by_seed: dict[int, dict[Method, float]] = {}
    for outcome in _adaptive(entry, record):
        for repeat in outcome.repeats:
            least = by_seed.setdefault(repeat.seed, {})
            for method in SEARCHES.keys() & repeat.left_by.keys():
                least[method] = min(repeat.left_by[method], least.get(method, 1.0))
    both = [least for least in by_seed.values() if len(least) == len(SEARCHES)]
    if not both:
        made = {method for least in by_seed.values() for method in least}
        missing = [words for method, words in SEARCHES.items() if method not in made]
        return f"{entry.threat} was not searched by {' and '.join(missing or SEARCHES.values())}"
    figures = {
        words: statistics.fmean(least[method] for least in both)
        for method, words in SEARCHES.items()
    }
    if max(figures.values()) - min(figures.values()) <= AGREE:
        return ""
    each = " and ".join(f"{figure:.1%} by {words}" for words, figure in figures.items())
    return f"searches do not agree on {entry.threat}: {each}"


def _kept_its_links(outcome: Outcome) -> bool:
    return any(NOT_EXCHANGED in note for repeat in outcome.repeats for note in repeat.notes)


def _alarm(falling: Sequence[Lowest], *, alone: bool) -> str:
    """What a model does under threats to which it falls; `alone` if it stands under none."""
    if any(row.black_box is not None and row.black_box.ahead > AHEAD for row in falling):
        return "only looks robust"
    return "is no more robust than an undefended GCN" if alone else "does not stand"


def _verdict(standing: Sequence[Lowest], falling: Sequence[Lowest], stands: str, alarm: str) -> str:
    if not standing and not falling:
        return "was not attacked by anyone who knows it: nothing can be concluded"
    if not falling:
        return f"{stands} against attackers who know it: {_listed(standing)}"
    if not standing:
        return f"{alarm}: attackers who know it leave {_listed(falling)}"
    return (
        f"{stands} against attackers who know it only under {_listed(standing)}; "
        f"it {alarm} under {_listed(falling)}"
    )


def _listed(entries: Sequence[Lowest]) -> str:
    """Name each threat with what is left: of the model, of the GCN, and of the model unknown."""
    where = {(entry.dataset, entry.difficulty) for entry in entries}
    return ", ".join(_place(entry, short=len(where) == 1) for entry in entries)


def _place(entry: Lowest, *, short: bool) -> str:
    assert entry.known is not None
    name = entry.threat if short else f"{entry.dataset}/{entry.difficulty}/{entry.threat}"
    return f"{name} {_figures(entry.known, entry.black_box)}"


def _figures(known: Strongest, black_box: Strongest | None) -> str:
    unknown = ""
    if black_box is not None:
        unknown = f"; {black_box.accuracy.mean:.1%} by attackers who do not know it"
    return f"{known.accuracy.mean:.1%} (GCN {known.reference.mean:.1%}{unknown})"


def _doubts(rows: Sequence[CaseRecord], record: RunRecord) -> list[str]:
    """Return what weakens the conclusion: attacks without figures, and findings."""
    group = (rows[0].case.model, rows[0].case.dataset)
    lost = [case for case in map(case_of, record.missing) if case is not None]
    missing = [case for case in lost if (case.model, case.dataset) == group]
    failed = sum(row.outcome is None for row in rows) + len(missing)
    doubted = sum(bool(row.outcome and row.outcome.findings) for row in rows)
    result = []
    if failed:
        result.append(f"{count(failed, 'case')} without figures may hold stronger attacks")
    if doubted:
        result.append(f"diagnostics doubt {count(doubted, 'case')}")
    return result


def _model_of(row: CaseRecord, record: RunRecord) -> str:
    """The model of a case; of one without figures by its label."""
    if row.outcome is not None:
        return row.outcome.model
    models = record.settings.models
    return row.case.model or (models[0].label if len(models) == 1 else "")
