"""Accuracy under the strongest attacks of each threat, and differences of drops to a reference.

What black-box attacks leave says nothing about attackers who know the model: Carlini et al. 2019,
"On Evaluating Adversarial Robustness", and Mujkanovic et al. 2022, "Are Defenses for Graph Neural
Networks Robust?". So the two are kept apart, each beside what the same attacks leave of an
undefended model.

Guerranti et al. 2023, "On the Adversarial Robustness of Graph Contrastive Learning Methods": the
rows "Min" of Tables 5 and 6, and Equations 4 and 5. Attacks of different threats are not
comparable, so each threat is treated separately; `worst`, which is made of the others, is left
out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeAlias, TypeVar

from grb_check.attacks.names import (
    WORST,
    base_name,
    split_budget,
    split_gang,
    with_budget,
    with_gang,
    with_local_budget,
)
from grb_check.attacks.registry import is_targeted, local_budget_of, source_of
from grb_check.attacks.scenarios import INJECTION, POISONING
from grb_check.cases.case import Case
from grb_check.cases.case_record import CaseRecord
from grb_check.cases.metrics import Figure, average, delta, over_repeats
from grb_check.cases.outcomes import MAIN_REFERENCE, Outcome

SINGLE_NODES: Final = "single-nodes"  # the threat of attacks on each target alone

Group = TypeVar("Group", "Where", "Threat")
Attacks: TypeAlias = Mapping[str, Outcome]
Drops: TypeAlias = Mapping[str, Sequence[float]]  # `dataset/difficulty` -> in each repeat


class Where(NamedTuple):
    """The dataset, difficulty and budget over which drops are compared with a reference."""

    dataset: str
    difficulty: str
    budget: float | None

    @property
    def group(self) -> str:
        """`dataset/difficulty`."""
        return f"{self.dataset}/{self.difficulty}"


class Threat(NamedTuple):
    """Attacks that may do the same, so that the strongest of them counts.

    Attributes:
        dataset, difficulty: the targets.
        name: see `threat_name`.
    """

    dataset: str
    difficulty: str
    name: str


@dataclass(frozen=True, kw_only=True)
class Strongest:
    """The attack that leaves the lowest mean accuracy over the repeats.

    Attributes:
        attack: `scenario/attack`.
        attacks: number of attacks that it is the strongest of.
        repeats: number of repeats of its case.
        accuracy: under it, over the repeats.
        drop: relative drop under it, over the repeats.
        reference: lowest accuracy of the reference GCN under any of these attacks, each made on the
            GCN itself where it was made on the model itself.
    """

    attack: str
    attacks: int
    repeats: int
    accuracy: Figure
    drop: Figure
    reference: Figure

    @property
    def ahead(self) -> float:
        """The accuracy beyond that of the undefended GCN, as a fraction."""
        return self.accuracy.mean - self.reference.mean


@dataclass(frozen=True, kw_only=True)
class Lowest:
    """The lowest accuracies of one model over two or more attacks of the same threat.

    Attributes:
        model: name.
        label: the name in ids; empty if the run has one model.
        dataset: name.
        difficulty: name.
        threat: see `threat_name`.
        black_box: the strongest of the attacks that do not see the model; None without one.
        adaptive: the strongest of those that do; None without one.
    """

    model: str
    label: str
    dataset: str
    difficulty: str
    threat: str
    black_box: Strongest | None
    adaptive: Strongest | None

    @property
    def strongest(self) -> Strongest:
        """The stronger of the two."""
        known = [
            candidate for candidate in (self.black_box, self.adaptive) if candidate is not None
        ]
        return min(known, key=lambda candidate: candidate.accuracy.mean)

    @property
    def known(self) -> Strongest | None:
        """The accuracy under the strongest attack, those that know the model and the others.

        Its accuracy and that of the GCN are the lowest of both kinds of attacks. None if no attack
        knew the model.
        """
        if self.adaptive is None or self.black_box is None:
            return self.adaptive
        reference = min(
            self.adaptive.reference, self.black_box.reference, key=lambda reference: reference.mean
        )
        return replace(self.strongest, reference=reference)

    @property
    def gap(self) -> float:
        """The accuracy that adaptive attacks take beyond black-box ones, as a fraction.

        0 without both.
        """
        if self.black_box is None or self.adaptive is None:
            return 0.0
        return self.black_box.accuracy.mean - self.adaptive.accuracy.mean

    @property
    def id(self) -> str:
        """`[model@]dataset/difficulty/threat`."""
        prefix = f"{self.label}@" if self.label else ""
        return f"{prefix}{self.dataset}/{self.difficulty}/{self.threat}"


@dataclass(frozen=True, kw_only=True)
class Delta:
    """Difference of the drops of a model and of the reference GCN; negative is more robust.

    Attributes:
        model: name.
        label: the name in ids; empty if the run has one model.
        budget: that the cases name; None if they name none.
        groups: `dataset/difficulty` of each that the value is a mean over.
        value: mean difference of the largest relative drops; None if it cannot be formed.
        deviation: of the model over its repeats; None if unknown, as for one repeat.
        why_none: why there is no value; empty if there is one.
    """

    model: str
    label: str
    budget: float | None
    groups: tuple[str, ...] = ()
    value: float | None = None
    deviation: float | None = None
    why_none: str = ""


def threat_name(case: Case) -> str:
    """Return what an attack may do, in the words of case ids.

    The scenario with the budgets that the case has besides the dataset's own:
    `modification+local=0.5+budget=0.1`. `single-nodes` stands for attacks on each target
    alone.
    """
    scenario = source_of(case.scenario, case.attack)[0]
    kind = SINGLE_NODES if is_targeted(case.scenario, case.attack) else scenario
    if case.scenario == POISONING:
        kind = f"{POISONING}/{kind}" if kind in (INJECTION, SINGLE_NODES) else POISONING
    local_budget = local_budget_of(case.scenario, case.attack)
    kind = with_gang(kind, split_gang(case.attack)[1])
    return with_budget(with_local_budget(kind, local_budget), split_budget(case.attack)[1])


def lowest(rows: Sequence[CaseRecord], *, least: int = 2) -> list[Lowest]:
    """Return one for each model, dataset, difficulty and threat with at least so many attacks."""
    several = _several(rows)
    return [
        _lowest(model, model if several else "", threat, attacks)
        for model, groups in _by_model(rows, _threat).items()
        for threat, attacks in groups.items()
        if len(attacks) >= least
    ]


def deltas(rows: Sequence[CaseRecord]) -> list[Delta]:
    """Return one for each model and budget, over the datasets and difficulties, in order.

    A model below the clean floor has no delta: it cannot lose accuracy that it never had. Nor has
    one with a case without figures, which may be that of the strongest attack.
    """
    several, models = _several(rows), _by_model(rows, _where)
    low = {row.outcome.model for row in rows if row.outcome is not None and row.below_floor}
    incomplete = _incomplete(rows)
    result = []
    for model, groups in models.items():
        for budget in dict.fromkeys(where.budget for where in groups):
            label = model if several else ""
            head = Delta(model=model, label=label, budget=budget)
            matching = {
                where: attacks for where, attacks in groups.items() if where.budget == budget
            }
            if model in low:
                why = f"the clean accuracy of {model} is below the floor"
                result.append(replace(head, why_none=why))
            elif model in incomplete:
                result.append(replace(head, why_none=f"a case of {model} has no figures"))
            else:
                result.append(_filled(head, _drops(matching), _reference_drops(matching)))
    return result


def _several(rows: Sequence[CaseRecord]) -> bool:
    """Whether ids hold the names of models."""
    names = {row.outcome.model for row in rows if row.outcome is not None}
    return len(names) > 1 or any(row.case.model for row in rows)


def _incomplete(rows: Sequence[CaseRecord]) -> set[str]:
    """Return the names of the models that have a case without figures."""
    labels = {row.case.model for row in rows if row.outcome is None}
    return {row.outcome.model for row in rows if row.outcome and row.case.model in labels}


def _by_model(
    rows: Sequence[CaseRecord], group_of: Callable[[Outcome], Group]
) -> dict[str, dict[Group, dict[str, Outcome]]]:
    """Return model -> comparable cases -> attack -> outcome."""
    result: dict[str, dict[Group, dict[str, Outcome]]] = {}
    for row in rows:
        outcome = row.outcome
        if outcome is None or base_name(outcome.case.attack) == WORST:
            continue
        case = outcome.case
        attacks = result.setdefault(outcome.model, {}).setdefault(group_of(outcome), {})
        attacks[f"{case.scenario}/{case.attack}"] = outcome
    return result


def _where(outcome: Outcome) -> Where:
    return Where(outcome.case.dataset, outcome.case.difficulty, outcome.budget)


def _threat(outcome: Outcome) -> Threat:
    return Threat(outcome.case.dataset, outcome.case.difficulty, threat_name(outcome.case))


def _lowest(model: str, label: str, threat: Threat, attacks: Attacks) -> Lowest:
    return Lowest(
        model=model,
        label=label,
        dataset=threat.dataset,
        difficulty=threat.difficulty,
        threat=threat.name,
        black_box=_strongest(
            {name: outcome for name, outcome in attacks.items() if not outcome.adaptive}
        ),
        adaptive=_strongest(
            {name: outcome for name, outcome in attacks.items() if outcome.adaptive}
        ),
    )


def _strongest(attacks: Attacks) -> Strongest | None:
    if not attacks:
        return None
    name = min(attacks, key=lambda attack: attacks[attack].attacked)
    outcome = attacks[name]
    return Strongest(
        attack=name,
        attacks=len(attacks),
        repeats=len(outcome.repeats),
        accuracy=over_repeats(average, [[repeat.victim.attacked for repeat in outcome.repeats]]),
        drop=over_repeats(average, [outcome.drops]),
        reference=min(map(_of_reference, attacks.values()), key=lambda reference: reference.mean),
    )


def _of_reference(outcome: Outcome) -> Figure:
    """Return the accuracy of the reference GCN under an attack, over its trainings."""
    return over_repeats(average, [outcome.references[MAIN_REFERENCE].attacked])


def _drops(groups: Mapping[Where, Attacks]) -> Drops:
    """Return the drops of a model under the attack of its largest mean drop, in each group."""
    return {
        where.group: max((attack.drops for attack in attacks.values()), key=average)
        for where, attacks in groups.items()
    }


def _reference_drops(groups: Mapping[Where, Attacks]) -> Drops:
    """Return the same of the reference GCN, whose largest drop may be under another attack."""
    return {
        where.group: max((attack.reference_drops for attack in attacks.values()), key=average)
        for where, attacks in groups.items()
    }


def _filled(head: Delta, drops: Drops, reference: Drops) -> Delta:
    value = delta(
        {group: average(values) for group, values in drops.items()},
        {group: average(values) for group, values in reference.items()},
    )
    return replace(head, groups=tuple(drops), value=value, deviation=_deviation(drops))


def _deviation(drops: Drops) -> float | None:
    """Return the deviation of the mean drop over the repeats."""
    if min(map(len, drops.values())) == 1:
        return None
    return over_repeats(average, list(drops.values())).deviation
