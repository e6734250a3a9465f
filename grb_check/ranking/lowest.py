"""What is left under the strongest attack, and how a model's drops compare with a reference's.

Guerranti et al. 2023, "On the Adversarial Robustness of Graph Contrastive Learning Methods": the
rows "Min" of Tables 5 and 6, and Equations 4 and 5. Attacks with different budgets are not
comparable, so that each budget is apart; `worst`, which is made of the others, is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, NamedTuple, TypeAlias

from grb_check.attacks.names import WORST, base_name
from grb_check.cases.expected_cases import Row
from grb_check.cases.metrics import Figure, average, delta, over_repeats
from grb_check.cases.outcomes import Outcome

REFERENCE: Final = "the reference GCN"
PREFIX: Final = "grb"

Attacks: TypeAlias = Mapping[str, Outcome]
Drops: TypeAlias = Mapping[str, Sequence[float]]  # `dataset/difficulty` -> of each repeat


class Where(NamedTuple):
    """What the attacks of one comparison share."""

    dataset: str
    difficulty: str
    budget: float | None

    @property
    def group(self) -> str:
        """`dataset/difficulty`."""
        return f"{self.dataset}/{self.difficulty}"


@dataclass(frozen=True, kw_only=True)
class Lowest:
    """The lowest accuracy of one model over two or more attacks on the same targets.

    Attributes:
        model: name.
        label: the name in ids; empty where the run has one model.
        dataset: name.
        difficulty: name.
        budget: that the cases name, if they do.
        attack: with the lowest mean accuracy over the repeats.
        attacks: how many there were.
        repeats: of that case.
        accuracy: under it, over the repeats.
        drop: relative, under it, over the repeats.
    """

    model: str
    label: str
    dataset: str
    difficulty: str
    budget: float | None
    attack: str
    attacks: int
    repeats: int
    accuracy: Figure
    drop: Figure

    @property
    def id(self) -> str:
        """`[model@]dataset/difficulty[+budget=SHARE]`."""
        prefix = f"{self.label}@" if self.label else ""
        return f"{prefix}{self.dataset}/{self.difficulty}{_at(self.budget)}"


@dataclass(frozen=True, kw_only=True)
class Delta:
    """How much more of its accuracy a model loses than a reference: negative is more robust.

    Attributes:
        model: name.
        label: the name in ids; empty where the run has one model.
        to: the reference: a model of the run, or `REFERENCE`.
        budget: that the cases name, if they do.
        groups: `dataset/difficulty` of all that it is the mean over.
        value: the mean difference of the largest relative drops; None where there is none.
        deviation: of that over the repeats; None where it is not known, as for one repeat.
        why_none: why there is none; empty where there is one.
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
    """One for each model, dataset, difficulty and budget with two or more attacks, in order."""
    several = _several(rows)
    return [
        _lowest(model, model if several else "", where, attacks)
        for model, groups in _by_model(rows).items()
        for where, attacks in groups.items()
        if len(attacks) > 1
    ]


def deltas(rows: Sequence[Row], to: str = "") -> list[Delta]:
    """One for each model and budget, over the datasets and difficulties, in order.

    A model below the clean floor has none: what it never had it cannot lose. One of which a case
    has no figures has none either: that may be the attack that takes most.

    Args:
        rows: of the run.
        to: label of the model to compare the others with, over the cases that both have; empty for
            the reference GCN, whose drops stand in every outcome.
    """
    several, models = _several(rows), _by_model(rows)
    rival = _named(rows, to) if to else ""
    low = {row.outcome.model for row in rows if row.outcome is not None and row.below_floor}
    torn = _incomplete(rows)
    found = []
    for model, groups in models.items():
        if model == rival:
            continue
        below = " and ".join(name for name in (model, rival) if name in low)
        partly = " and ".join(name for name in (model, rival) if name in torn)
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


def lowest_line(entry: Lowest) -> str:
    """For people, below the table of the model and dataset."""
    return (
        f"lowest on {entry.dataset}/{entry.difficulty}: {entry.attack} "
        f"{_percent(entry.accuracy, entry.repeats)} (drop {_percent(entry.drop, entry.repeats)})"
    )


def delta_lines(entries: Sequence[Delta]) -> list[str]:
    """A line for each; with the model's name where the run has several."""
    lines = []
    for entry in entries:
        name = f" of {entry.label}" if entry.label else ""
        budget = "" if entry.budget is None else f" at budget {entry.budget:g}"
        if entry.value is None:
            lines.append(f"no delta{name} to {entry.to}{budget}: {entry.why_none}")
        else:
            points = round(100 * entry.value, 1)
            spread = f" +- {100 * entry.deviation:.1f}" if entry.deviation is not None else ""
            lines.append(
                f"delta{name} to {entry.to} over {_over(entry.groups)}{budget}: "
                f"{points or 0.0:+.1f}{spread} points ({_judged(entry)})"
            )
    return lines


def suite_properties(lows: Sequence[Lowest], differences: Sequence[Delta]) -> dict[str, str]:
    """For JUnit's properties of the suite."""
    properties = {
        f"{PREFIX}.lowest.{each.id}": f"{each.attack} {each.accuracy.mean:.4f}, "
        f"drop {each.drop.mean:.4f}"
        for each in lows
    }
    for each in differences:
        if each.value is not None:
            name = f"{PREFIX}.delta{f'.{each.label}' if each.label else ''}{_at(each.budget)}"
            properties[name] = f"{each.value:.4f} to {each.to} over {_over(each.groups)}"
    return properties


def lowest_records(entries: Sequence[Lowest]) -> list[dict[str, Any]]:
    """For JSON."""
    return [asdict(entry) for entry in entries]


def delta_records(entries: Sequence[Delta]) -> list[dict[str, Any]]:
    """For JSON."""
    return [asdict(entry) | {"groups": list(entry.groups)} for entry in entries]


def _several(rows: Sequence[Row]) -> bool:
    """Whether ids need the names of models."""
    names = {row.outcome.model for row in rows if row.outcome is not None}
    return len(names) > 1 or any(row.case.model for row in rows)


def _named(rows: Sequence[Row], label: str) -> str:
    """The name of the model with that label; the label where none of its cases has figures."""
    names = (row.outcome.model for row in rows if row.outcome and row.case.model == label)
    return next(names, label)


def _incomplete(rows: Sequence[Row]) -> set[str]:
    """Names of the models of which a case has no figures."""
    labels = {row.case.model for row in rows if row.outcome is None}
    return {row.outcome.model for row in rows if row.outcome and row.case.model in labels}


def _by_model(rows: Sequence[Row]) -> dict[str, dict[Where, dict[str, Outcome]]]:
    """Name -> what is comparable -> attack -> its outcome.

    Where several tests have the same case, the lowest counts.
    """
    found: dict[str, dict[Where, dict[str, Outcome]]] = {}
    for row in rows:
        outcome = row.outcome
        if outcome is None or base_name(outcome.case.attack) == WORST:
            continue
        case = outcome.case
        where = Where(case.dataset, case.difficulty, outcome.budget)
        attacks = found.setdefault(outcome.model, {}).setdefault(where, {})
        name = f"{case.scenario}/{case.attack}"
        attacks[name] = min(attacks.get(name, outcome), outcome, key=lambda each: each.attacked)
    return found


def _lowest(model: str, label: str, where: Where, attacks: Attacks) -> Lowest:
    name = min(attacks, key=lambda each: attacks[each].attacked)
    outcome = attacks[name]
    return Lowest(
        model=model,
        label=label,
        dataset=where.dataset,
        difficulty=where.difficulty,
        budget=where.budget,
        attack=name,
        attacks=len(attacks),
        repeats=len(outcome.repeats),
        accuracy=over_repeats(average, [[each.victim.attacked for each in outcome.repeats]]),
        drop=over_repeats(average, [outcome.drops]),
    )


def _drops(groups: Mapping[Where, Attacks]) -> Drops:
    """The drops of a model under the attack of its largest mean drop, in each group."""
    return {
        where.group: max((each.drops for each in attacks.values()), key=average)
        for where, attacks in groups.items()
    }


def _reference_drops(groups: Mapping[Where, Attacks]) -> Drops:
    """Those of the reference GCN, whose largest drop may be another attack's."""
    return {
        where.group: max((each.reference_drops for each in attacks.values()), key=average)
        for where, attacks in groups.items()
    }


def _common(own: Mapping[Where, Attacks], others: Mapping[Where, Attacks]) -> tuple[Drops, Drops]:
    """The largest drops of two models, over the attacks that both were judged under."""
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
    """Of the difference that each repeat shows: its victim and its reference share a seed."""
    counts = {len(own) for own in (*drops.values(), *reference.values())}
    if len(counts) > 1 or counts == {1}:
        return None
    differences = [
        [own - other for own, other in zip(drops[group], reference[group], strict=True)]
        for group in drops
    ]
    return over_repeats(average, differences).deviation


def _over(groups: Iterable[str]) -> str:
    """`2 datasets`, or `3 difficulties of 1 dataset`."""
    groups = tuple(groups)
    count = len({group.rpartition("/")[0] for group in groups})
    datasets = f"{count} dataset{'' if count == 1 else 's'}"
    return datasets if len(groups) == count else f"{len(groups)} difficulties of {datasets}"


def _judged(entry: Delta) -> str:
    """In words; a difference that the repeats do not agree on is none."""
    assert entry.value is not None
    if entry.deviation is not None and abs(entry.value) <= entry.deviation:
        return "no clear difference"
    if round(entry.value, 3) == 0:
        return "as robust"
    return "more robust" if entry.value < 0 else "less robust"


def _percent(figure: Figure, repeats: int) -> str:
    spread = f" +- {100 * figure.deviation:.1f}" if repeats > 1 else ""
    return f"{figure.mean:.1%}{spread}"


def _at(budget: float | None) -> str:
    return "" if budget is None else f"+budget={budget:g}"
