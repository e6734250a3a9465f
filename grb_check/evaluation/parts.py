"""Threats in parts: each is attacked on a graph of its own, and all count as one case."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from grb_check.attacks.names import HELD_BACK
from grb_check.attacks.parts import joined_parts
from grb_check.cases.findings import Finding
from grb_check.cases.outcomes import Measurement, Method, Scores
from grb_check.cases.repeat_results import RepeatResult
from grb_check.errors import count
from grb_check.evaluation.diagnostics import DIAGNOSTICS, no_effect
from grb_check.evaluation.rankings import mean_rankings
from grb_check.evaluation.results import measured
from grb_check.evaluation.scores import Right, scores
from grb_check.evaluation.trained_model import TrainedModel
from grb_check.evaluation.trial import Trial
from grb_check.store.perturbation_bytes import from_bytes

_SPENT: Final = re.compile(r"(\d+) of (\d+) edge changes")  # of notes on unused budget


def result_of_parts(
    trial: Trial, victim: TrainedModel, results: Sequence[RepeatResult]
) -> RepeatResult:
    """Put the results of the parts of a threat together, in their order; without references.

    What is left by a method is told if every part was attacked by it.
    """
    measurements = [result.measurement for result in results]
    total = len(results)
    every = trial.harness.dataset.test[trial.case.difficulty].numel()
    notes = [
        f"{count(total, 'gang')}, {trial.threat.targets.numel()} of {every} targets",
        *_notes([note for part in measurements for note in part.notes], total),
    ]
    methods = Counter(part.method for part in measurements)
    if len(methods) > 1:
        notes.append(", ".join(f"{name}: {count(n, 'gang')}" for name, n in methods.most_common()))
    before, after = _sides(trial, [part.victim for part in measurements])
    result = measured(
        trial,
        victim,
        joined_parts(
            [from_bytes(part.perturbation) for part in results],
            trial.harness.dataset.num_nodes,
            tuple(notes),
        ),
        all(part.from_store for part in measurements),
        scores(trial, before, after),
        {},
        method=methods.most_common(1)[0][0],
        methods=tuple(dict.fromkeys(name for part in results for name in part.methods)),
        diagnostics=_findings(measurements, before, after),
        left_by=_left_by(trial, measurements),
    )
    warnings = dict.fromkeys(text for part in results for text in part.warnings)
    rankings = mean_rankings([part.rankings for part in measurements])
    return replace(
        result,
        measurement=replace(result.measurement, rankings=rankings),
        warnings=tuple(warnings),
    )


def references_of_parts(trial: Trial, parts: Sequence[Mapping[str, Scores]]) -> dict[str, Scores]:
    """Return the scores of each reference from those on the parts of a threat, in their order."""
    kinds = parts[0] if parts else {}
    return {kind: scores(trial, *_sides(trial, [part[kind] for part in parts])) for kind in kinds}


def _sides(trial: Trial, parts: Sequence[Scores]) -> tuple[Right, Right]:
    """Return which targets of all parts are right before and after the attack, bool [t] each."""
    sizes = [part.targets.numel() for part in trial.threat.parts]
    before, after = (
        np.concatenate([_right(bits, size) for bits, size in zip(side, sizes, strict=True)])
        for side in (
            [part.right_before for part in parts],
            [part.right_after for part in parts],
        )
    )
    return before, after


def _right(bits: bytes, size: int) -> Right:
    return np.unpackbits(np.frombuffer(bits, np.uint8), count=size).astype(bool)


def _notes(notes: Sequence[str], total: int) -> list[str]:
    """Return each note with the number of parts that have it; one for all unused budgets."""
    spent: dict[tuple[str, str], list[tuple[int, int]]] = {}  # by the text before and after
    others: Counter[str] = Counter()
    for note in notes:
        match = _SPENT.search(note)
        if match is None:
            text, held_back, _ = note.partition(HELD_BACK)  # how much differs from part to part
            others[text + held_back] += 1
        else:
            texts = note[: match.start()], note[match.end() :]
            spent.setdefault(texts, []).append((int(match[1]), int(match[2])))
    result = []
    for (before, after), sizes in spent.items():
        used, budget = (sum(side) for side in zip(*sizes, strict=True))
        text = f"{before}{used} of {budget} edge changes{after}"
        result.append(f"{text} ({len(sizes)} of {total} gangs)")
    return [*result, *(f"{note} ({number} of {total} gangs)" for note, number in others.items())]


def _findings(parts: Sequence[Measurement], before: Right, after: Right) -> tuple[Finding, ...]:
    """Return what is found of the parts: of each name the finding that is farthest from its limit.

    Those that do not concern the model compare a few targets each: they stand if most parts have
    them. Whether there is an effect is asked of the whole.
    """
    by_name: dict[str, list[Finding]] = {}
    for part in parts:
        for finding in part.diagnostics:
            by_name.setdefault(finding.name, []).append(finding)
    result = []
    for name, findings in by_name.items():
        most = 2 * len(findings) > len(parts) and name != "no-effect"
        if most or DIAGNOSTICS[name].about_model:
            farthest = max(findings, key=lambda finding: abs(finding.figure - finding.limit))
            text = f"{farthest.text} ({len(findings)} of {len(parts)} gangs)"
            result.append(replace(farthest, text=text))
    effect = no_effect(before, after) if parts[0].left_by else None
    return (*result, *filter(None, [effect]))


def _left_by(trial: Trial, parts: Sequence[Measurement]) -> dict[Method, float]:
    """Return what each method leaves of all targets, of those that every part was attacked by."""
    sizes = np.array([part.targets.numel() for part in trial.threat.parts], dtype=float)
    common = [name for name in parts[0].left_by if all(name in part.left_by for part in parts)]
    return {
        name: float(np.average([part.left_by[name] for part in parts], weights=sizes))
        for name in common
    }
