"""Make what comes along for the first run: the perturbations of the suite smoke.

python -m benchmarks.shipped perturbations
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from grb_check import datasets
from grb_check.attacks.threat import Perturbation
from grb_check.cases.case import Case
from grb_check.cases.suites import SUITES
from grb_check.datasets.formats.bundled import GRAPH
from grb_check.errors import GradientError
from grb_check.evaluation.devices import threads_for
from grb_check.evaluation.evaluator import Evaluator
from grb_check.evaluation.packed import wanted_by
from grb_check.evaluation.trials import ATTACK_SEEDS, attack_surrogates
from grb_check.store.pack import Wanted, write_pack
from grb_check.store.packs import SHIPPED
from grb_check.store.store import Store
from grb_check.user_code.calls import restored

SUITE = SUITES["smoke"]
LICENCE = "The graph is synthetic; the perturbations have the licence of grb_check."


def cases() -> list[Case]:
    """The cases of the suite on the bundled graph."""
    return [Case(GRAPH, level, *attack) for level in SUITE.difficulties for attack in SUITE.attacks]


def perturbations() -> Iterator[tuple[Wanted, Perturbation | GradientError]]:
    """All black-box perturbations that the cases may need, none of which is taken from a store."""
    evaluator = Evaluator(store=Store(None), device="cpu")
    source = datasets.find(GRAPH)
    made: set[Wanted] = set()
    for case in cases():
        for trial in evaluator.trials(source, case):
            for wanted, each in wanted_by(trial, ATTACK_SEEDS).items():
                if wanted in made:
                    continue
                made.add(wanted)
                with threads_for(trial.own.dataset.num_nodes), restored():
                    try:
                        yield wanted, attack_surrogates(each)
                    except GradientError as error:
                        yield wanted, error


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shipped", description=__doc__)
    parser.add_argument("what", choices=["perturbations"])
    parser.add_argument("--out", type=Path, default=SHIPPED)
    options = parser.parse_args(arguments)
    pack = write_pack(options.out, perturbations(), LICENCE)
    sys.stdout.write(f"{options.out}: {pack.content}, digest {pack.digest[:16]}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
