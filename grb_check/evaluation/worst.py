"""The worst case over several attacks: of a repeat, and of each target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from grb_check.attacks.names import split_budget
from grb_check.cases.outcomes import Finding, Measurement
from grb_check.evaluation.diagnostics import about_model


def worst_of(members: Sequence[tuple[str, Measurement]], targets: int) -> Measurement:
    """The repeat of the strongest attack: the papers' rows "Min".

    The reference has its own strongest attack, since it is a model like any other. `per_target` is
    the fraction of targets that stay right under every attack, as if the attacker could choose for
    each target. Of equally strong attacks the first counts. What a diagnostic of any member says of
    the model is kept, and of the others what the strongest one's say.

    Args:
        members: names of attacks, and how they went in the same repeat; one or more.
        targets: how many there are.
    """
    names = [split_budget(name)[0] for name, _ in members]
    repeats = [repeat for _, repeat in members]
    place = min(range(len(repeats)), key=lambda each: repeats[each].victim.attacked)
    strongest = repeats[place]
    reference = min((each.reference for each in repeats), key=lambda each: each.attacked)
    return replace(
        strongest,
        reference=reference,
        notes=(f"worst of {len(names)} ({', '.join(names)}): {names[place]}", *strongest.notes),
        diagnostics=_findings(strongest, repeats),
        member=names[place],
        per_target=_right_under_all(repeats, targets),
    )


def _findings(strongest: Measurement, repeats: Sequence[Measurement]) -> tuple[Finding, ...]:
    found = {each.name: each for each in strongest.diagnostics}
    for repeat in repeats:
        for each in about_model(repeat.diagnostics):
            found.setdefault(each.name, each)
    return tuple(found.values())


def _right_under_all(repeats: Sequence[Measurement], targets: int) -> float:
    bits = [np.frombuffer(each.victim.right_after, np.uint8) for each in repeats]
    return int(np.unpackbits(np.bitwise_and.reduce(bits)).sum()) / targets
