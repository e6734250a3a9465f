"""Make what comes along for the first run: perturbations and references of the suite smoke.

    python -m benchmarks.shipped perturbations
    python -m benchmarks.shipped references --store FOLDER

The second takes a quarter of an hour and continues from its store if it is interrupted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from grb_check import datasets
from grb_check.attacks.threat import Perturbation
from grb_check.cases.case import Case
from grb_check.cases.outcomes import Reference, Scores
from grb_check.cases.suites import SUITES
from grb_check.datasets.formats.bundled import GRAPH
from grb_check.errors import GradientError
from grb_check.evaluation.devices import threads_for
from grb_check.evaluation.evaluator import Evaluator
from grb_check.evaluation.packed import requests_of
from grb_check.evaluation.perturbations import attack_surrogates
from grb_check.evaluation.repeats import reference_scores
from grb_check.evaluation.shipped import (
    SHIPPED_REFERENCES,
    ReferencesContent,
    shipped_references,
    write_references,
)
from grb_check.evaluation.store_keys import shipped_key
from grb_check.evaluation.surrogates import references_on
from grb_check.evaluation.trial import Trial
from grb_check.files.versions import versions
from grb_check.ranking.boards.board import NO_ATTACK
from grb_check.ranking.boards.files import measured_board
from grb_check.store.pack import SHIPPED, PerturbationRequest, write_pack
from grb_check.store.place import open_store, place_of
from grb_check.store.store import Store
from grb_check.user_code.calls import restored

SUITE = SUITES["smoke"]
LICENCE = "The graph is synthetic; the perturbations have the licence of grb_check."
TRAININGS = 20


def trials(store: Store) -> Iterator[tuple[Case, Trial]]:
    """Those of the suite on the bundled graph."""
    evaluator, source = Evaluator(store=store, device="cpu"), datasets.find(GRAPH)
    for level in SUITE.difficulties:
        for attack in SUITE.attacks:
            case = Case(GRAPH, level, *attack)
            trial = evaluator.trial(source, case)
            with threads_for(trial.harness.dataset.num_nodes), restored():
                yield case, trial


def perturbations() -> Iterator[tuple[PerturbationRequest, Perturbation | GradientError]]:
    """All black-box perturbations that the cases may need, none of which is taken from a store."""
    requests: set[PerturbationRequest] = set()
    for _, trial in trials(Store(None)):
        for request, request_trial in requests_of(trial).items():
            if request in requests:
                continue
            requests.add(request)
            try:
                yield request, attack_surrogates(request_trial)
            except GradientError as error:
                yield request, error


def references(store: Store) -> Iterator[tuple[str, dict[str, Reference]]]:
    """The key of each case, and what it leaves of each reference in every training.

    Those whose key has not changed stay: all that their accuracies depend on is in it.
    """
    shipped = shipped_references()
    for case, trial in trials(store):
        key = shipped_key(trial)
        if key in shipped:
            kinds = references_on(trial.harness.dataset)
            yield key, {kind: shipped[key][kind] for kind in kinds} | most_robust(case)
            continue
        methods = ("adaptive",) if trial.attack.knowledge == "white-box" else ()
        kinds = references_on(trial.harness.dataset)
        trial.harness.trainings = TRAININGS
        by_training: list[dict[str, Scores]] = []
        for seed in range(TRAININGS):
            by_training.append(reference_scores(replace(trial, seed=seed), methods, kinds))
            sys.stderr.write(f"{case.id}, training {seed + 1} of {TRAININGS}\n")
        reference_by_kind = {
            kind: Reference(
                clean=tuple(round(scores[kind].clean, 6) for scores in by_training),
                attacked=tuple(round(scores[kind].attacked, 6) for scores in by_training),
            )
            for kind in kinds
        }
        yield key, reference_by_kind | most_robust(case)


def most_robust(case: Case) -> dict[str, Reference]:
    """The defence of the shipped leaderboard of which the attack leaves most, by its title."""
    board = measured_board(GRAPH, Path())
    assert board is not None
    rows = board.cells[f"{case.scenario}/{case.attack}"]
    best = max(board.defences, key=lambda defence: rows[defence][case.difficulty].mean)
    return {
        best: Reference(
            clean=board.cells[NO_ATTACK][best][case.difficulty].repeats,
            attacked=rows[best][case.difficulty].repeats,
        )
    }


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shipped", description=__doc__)
    parser.add_argument("what", choices=["perturbations", "references"])
    parser.add_argument("--store", help="folder, so that an interrupted command continues")
    options = parser.parse_args(arguments)
    if options.what == "perturbations":
        pack = write_pack(SHIPPED, perturbations(), LICENCE)
        sys.stdout.write(f"{SHIPPED}: {pack.content}, digest {pack.digest[:16]}\n")
        return 0
    store = open_store(place_of(options.store, "--store")) if options.store else Store(None)
    about = (f"{TRAININGS} trainings of each reference, see python -m benchmarks.shipped",)
    content = ReferencesContent(about=about, environment=versions(), cases=dict(references(store)))
    write_references(content, SHIPPED_REFERENCES)
    sys.stdout.write(f"{SHIPPED_REFERENCES}: {len(content.cases)} cases\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
