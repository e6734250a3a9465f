"""Accuracy under the strongest attacks, and differences of drops to those of a reference.

What black-box attacks leave says nothing about attackers who know the model: Carlini et al. 2019,
"On Evaluating Adversarial Robustness", and Mujkanovic et al. 2022, "Are Defenses for Graph Neural
Networks Robust?". So the two are kept apart.

Guerranti et al. 2023, "On the Adversarial Robustness of Graph Contrastive Learning Methods": the
rows "Min" of Tables 5 and 6, and Equations 4 and 5. Attacks with different budgets are not
comparable, so each budget is treated separately; `worst`, which is made of the others, is left
out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeAlias

from grb_check.attacks.names import WORST, base_name, with_budget
from grb_check.cases.expected_cases import Row
from grb_check.cases.metrics import Figure, average, delta, over_repeats
from grb_check.cases.outcomes import Outcome

REFERENCE: Final = "the reference GCN"

Attacks: TypeAlias = Mapping[str, Outcome]
Drops: TypeAlias = Mapping[str, Sequence[float]]  # `dataset/difficulty` -> in each repeat


class Where(NamedTuple):
    """The dataset, difficulty and budget of attacks that are comparable."""

    dataset: str
    difficulty: str
    budget: float | None

    @property
    def group(self) -> str:
        """`dataset/difficulty`."""
        return f"{self.dataset}/{self.difficulty}"


@dataclass(frozen=True, kw_only=True)
class Strongest:
    """The attack that leaves the lowest mean accuracy over the repeats.

    Attributes:
        attack: `scenario/attack`.
        attacks: number of attacks that it is the strongest of.
        repeats: number of repeats of its case.
        accuracy: under it, over the repeats.
        drop: relative drop under it, over the repeats.
    """

    attack: str
    attacks: int
    repeats: int
    accuracy: Figure
    drop: Figure


@dataclass(frozen=True, kw_only=True)
class Lowest:
    """The lowest accuracies of one model over two or more attacks on the same targets.

    Attributes:
        model: name.
        label: the name in ids; empty if the run has one model.
        dataset: name.
        difficulty: name.
        budget: that the cases name; None if they name none.
        black_box: the strongest of the attacks that do not see the model; None without one.
        adaptive: the strongest of those that do; None without one.
    """

    model: str
    label: str
    dataset: str
    difficulty: str
    budget: float | None
    black_box: Strongest | None
    adaptive: Strongest | None

    @property
    def strongest(self) -> Strongest:
        """The stronger of the two."""
        known = [each for each in (self.black_box, self.adaptive) if each is not None]
        return min(known, key=lambda each: each.accuracy.mean)

    @property
    def gap(self) -> float:
        """What adaptive attacks take beyond black-box ones, as a fraction; 0 without both."""
        if self.black_box is None or self.adaptive is None:
            return 0.0
        return self.black_box.accuracy.mean - self.adaptive.accuracy.mean

    @property
    def id(self) -> str:
        """`[model@]dataset/difficulty[+budget=SHARE]`."""
        prefix = f"{self.label}@" if self.label else ""
        return with_budget(f"{prefix}{self.dataset}/{self.difficulty}", self.budget)


@dataclass(frozen=True, kw_only=True)
class Delta:
    """Difference of the accuracy that a model and a reference lose; negative is more robust.

    Attributes:
        model: name.
        label: the name in ids; empty if the run has one model.
        to: the reference: a model of the run, or `REFERENCE`.
        budget: that the cases name; None if they name none.
        groups: `dataset/difficulty` of each that the value is a mean over.
        value: mean difference of the largest relative drops; None if it cannot be formed.
        deviation: over the repeats; None if unknown, as for one repeat.
        why_none: why there is no value; empty if there is one.
    """

    model: str
    label: str
    to: str
    budget: float | None
    groups: tuple[str, ...] = ()
    value: float | None = None
    deviation: float | None = None
    why_none: str = ""


def lowest(rows: Sequence[Row]) -> list[Lowest]:
    """Return one for each model, dataset, difficulty and budget with two or more attacks."""
    several = _several(rows)
    return [
        _lowest(model, model if several else "", where, attacks)
        for model, groups in _by_model(rows).items()
        for where, attacks in groups.items()
        if len(attacks) > 1
    ]


def deltas(rows: Sequence[Row], to: str = "") -> list[Delta]:
    """Return one for each model and budget, over the datasets and difficulties, in order.

    A model below the clean floor has no delta: it cannot lose accuracy that it never had. Nor has
    one with a case without figures, which may be that of the strongest attack.

    Args:
        rows: of the run.
        to: label of the model to compare the others with, over the cases that both have; empty for
            the reference GCN, whose drops every outcome holds.
    """
    several, models = _several(rows), _by_model(rows)
    rival = _named(rows, to) if to else ""
    low = {row.outcome.model for row in rows if row.outcome is not None and row.below_floor}
    incomplete = _incomplete(rows)
    found = []
    for model, groups in models.items():
        if model == rival:
            continue
        below = " and ".join(name for name in (model, rival) if name in low)
        partly = " and ".join(name for name in (model, rival) if name in incomplete)
        for budget in dict.fromkeys(where.budget for where in groups):
            label = model if several else ""
            head = Delta(model=model, label=label, to=rival or REFERENCE, budget=budget)
            own = {where: attacks for where, attacks in groups.items() if where.budget == budget}
            if below:
                why = f"the clean accuracy of {below} is below the floor"
                found.append(replace(head, why_none=why))
            elif partly:
                found.append(replace(head, why_none=f"a case of {partly} has no figures"))
            elif to:
                found.append(_filled(head, *_common(own, models.get(rival, {}))))
            else:
                found.append(_filled(head, _drops(own), _reference_drops(own)))
    return found


def _several(rows: Sequence[Row]) -> bool:
    """Whether ids hold the names of models."""
    names = {row.outcome.model for row in rows if row.outcome is not None}
    return len(names) > 1 or any(row.case.model for row in rows)


def _named(rows: Sequence[Row], label: str) -> str:
    """Return the name of the model with that label; the label if none of its cases has figures."""
    names = (row.outcome.model for row in rows if row.outcome and row.case.model == label)
    return next(names, label)


def _incomplete(rows: Sequence[Row]) -> set[str]:
    """Return the names of the models that have a case without figures."""
    labels = {row.case.model for row in rows if row.outcome is None}
    return {row.outcome.model for row in rows if row.outcome and row.case.model in labels}


def _by_model(rows: Sequence[Row]) -> dict[str, dict[Where, dict[str, Outcome]]]:
    """Return model -> comparable cases -> attack -> outcome."""
    found: dict[str, dict[Where, dict[str, Outcome]]] = {}
    for row in rows:
        outcome = row.outcome
        if outcome is None or base_name(outcome.case.attack) == WORST:
            continue
        case = outcome.case
        where = Where(case.dataset, case.difficulty, outcome.budget)
        attacks = found.setdefault(outcome.model, {}).setdefault(where, {})
        attacks[f"{case.scenario}/{case.attack}"] = outcome
    return found


def _lowest(model: str, label: str, where: Where, attacks: Attacks) -> Lowest:
    return Lowest(
        model=model,
        label=label,
        dataset=where.dataset,
        difficulty=where.difficulty,
        budget=where.budget,
        black_box=_strongest({name: each for name, each in attacks.items() if not each.adaptive}),
        adaptive=_strongest({name: each for name, each in attacks.items() if each.adaptive}),
    )


def _strongest(attacks: Attacks) -> Strongest | None:
    if not attacks:
        return None
    name = min(attacks, key=lambda each: attacks[each].attacked)
    outcome = attacks[name]
    return Strongest(
        attack=name,
        attacks=len(attacks),
        repeats=len(outcome.repeats),
        accuracy=over_repeats(average, [[each.victim.attacked for each in outcome.repeats]]),
        drop=over_repeats(average, [outcome.drops]),
    )


def _drops(groups: Mapping[Where, Attacks]) -> Drops:
    """Return the drops of a model under the attack of its largest mean drop, in each group."""
    return {
        where.group: max((each.drops for each in attacks.values()), key=average)
        for where, attacks in groups.items()
    }


def _reference_drops(groups: Mapping[Where, Attacks]) -> Drops:
    """Return the same of the reference GCN, whose largest drop may be under another attack."""
    return {
        where.group: max((each.reference_drops for each in attacks.values()), key=average)
        for where, attacks in groups.items()
    }


def _common(own: Mapping[Where, Attacks], others: Mapping[Where, Attacks]) -> tuple[Drops, Drops]:
    """Return the largest drops of two models, over the attacks that both were judged under."""
    names = {where: attacks.keys() & others.get(where, {}).keys() for where, attacks in own.items()}
    both = [where for where in own if names[where]]
    mine = {where: {name: own[where][name] for name in names[where]} for where in both}
    theirs = {where: {name: others[where][name] for name in names[where]} for where in both}
    return _drops(mine), _drops(theirs)


def _filled(head: Delta, drops: Drops, reference: Drops) -> Delta:
    if not drops:
        return replace(head, why_none="they have no case in common")
    value = delta(
        {group: average(own) for group, own in drops.items()},
        {group: average(own) for group, own in reference.items()},
    )
    return replace(head, groups=tuple(drops), value=value, deviation=_deviation(drops, reference))


def _deviation(drops: Drops, reference: Drops) -> float | None:
    """Return the deviation of the differences in each repeat, whose two models share a seed."""
    counts = {len(own) for own in (*drops.values(), *reference.values())}
    if len(counts) > 1 or counts == {1}:
        return None
    differences = [
        [own - other for own, other in zip(drops[group], reference[group], strict=True)]
        for group in drops
    ]
    return over_repeats(average, differences).deviation
