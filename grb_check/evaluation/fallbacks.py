"""Alternatives to an attack on the model itself: on a surrogate, at random, or by queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import torch

from grb_check.attacks.injection.blended_search import (
    improve_injections,
    search_injections,
    search_kept,
)
from grb_check.attacks.injection.shared.injected_nodes import InjectionQuestion
from grb_check.attacks.modification.shared.answer_search import search_by_answers
from grb_check.attacks.modification.shared.edge_set import edge_set
from grb_check.attacks.modification.shared.flip_sweeps import Question
from grb_check.attacks.modification.shared.removable import room_beside
from grb_check.attacks.names import base_name, has_setting, with_settings
from grb_check.attacks.objectives import margins_of, tanh_margin
from grb_check.attacks.protocol import Attack, DifferentiableModel
from grb_check.attacks.query_search import ExchangedParts, GraphFlips, GraphInjections, search
from grb_check.attacks.referee import verify
from grb_check.attacks.registry import attack_names, load_attack
from grb_check.attacks.scenarios import INJECTION, MODIFICATION
from grb_check.attacks.threat import Perturbation
from grb_check.attacks.user_attacks import UserAttack
from grb_check.cases.attack_pairs import on_graphs
from grb_check.datasets.dataset import digest
from grb_check.errors import GradientError, ModelError, UsageError
from grb_check.evaluation.fewer_flips import fewer_flips, with_note
from grb_check.evaluation.imitation import imitation
from grb_check.evaluation.open_gradients import without_steps
from grb_check.evaluation.perturbations import on_surrogates, seed_of, white_box_view
from grb_check.evaluation.scores import answers_after
from grb_check.evaluation.store_keys import describe_threat, starts_from_blends
from grb_check.evaluation.surrogates import kinds_on
from grb_check.evaluation.trained_model import TrainedModel
from grb_check.evaluation.trial import Trial
from grb_check.evaluation.unit_space import (
    from_units,
    graph_in_units,
    model_in_units,
    threat_in_units,
    to_units,
)
from grb_check.gradients.rescaled import AnyVictim
from grb_check.user_code.randomness import isolated_randomness

# Random attacks of both scenarios; restrictions of the attack under test are passed on to them.
_RANDOM = ((INJECTION, "rnd"), (MODIFICATION, "rnd"), (MODIFICATION, "random-flips"))
_RESTRICTIONS = ("restrict", "isolate")
SEARCH: Final = 9  # raised whenever a search by queries may find something else
FORWARDS: Final = 500  # of a search for edges ...
OF_A_GANG: Final = 100  # ... and of one at a few nodes, of which there are several

Stored: TypeAlias = tuple[Perturbation, bool]  # and whether it came from the store


@dataclass(frozen=True, kw_only=True)
class Grounds:
    """Why a search by queries is made.

    Attributes:
        doubted: the model's gradient is missing or wrong, or links are cut off: injected rows are
            kept like those of the data, too.
        misled: it is missing or wrong: that of another model is followed.
        beaten: the attack on a surrogate is stronger: injections are searched from there, too.
    """

    doubted: bool = False
    misled: bool = False
    beaten: bool = False


def transferred_variant(trial: Trial, **settings: object) -> Stored | None:
    """The same attack on a surrogate, with other settings; None if it has no such variant."""
    variant = _variant(trial, **settings)
    if variant is None:
        return None
    try:
        return on_surrogates(variant)
    except GradientError:
        return None


def random_ones(trial: Trial) -> list[Perturbation]:
    """Perturbations by other, random attacks with the same budget and restrictions."""
    return [on_surrogates(random_trial)[0] for random_trial in _random_trials(trial)]


def black_box_trials(trial: Trial) -> list[Trial]:
    """The trials whose black-box perturbations a trial may need, whatever the victim is."""
    if trial.attack.knowledge != "white-box":
        return [trial]
    kinds: list[dict[str, object]] = [{}]
    if has_setting(_plain(trial.attack), "surrogates"):
        kinds += [{"surrogates": (kind,)} for kind in kinds_on(trial.harness.dataset)]
    variants = [_variant(trial, **settings) for settings in kinds]
    return [variant for variant in variants if variant is not None] + _random_trials(trial)


def _variant(trial: Trial, **settings: object) -> Trial | None:
    """The trial of the same attack on a surrogate; None if it has no such variant."""
    plain = _plain(trial.attack)
    if not has_setting(plain, "knowledge"):
        return None
    try:
        variant = with_settings(plain, {"knowledge": "black-box", **settings}, plain.name)
    except UsageError:  # it refuses that knowledge
        return None
    return replace(trial, attack=variant if plain is trial.attack else UserAttack(variant))


def _random_trials(trial: Trial) -> list[Trial]:
    """The trials of other, random attacks with the same budget and restrictions."""
    result = []
    for scenario, name in _RANDOM:
        other = scenario != trial.case.scenario or name == base_name(trial.case.attack)
        if other or (scenario, name) not in attack_names():
            continue
        if trial.threat.batch is not None and not on_graphs((scenario, name)):
            continue
        attack = load_attack(scenario, name)
        if not isinstance(trial.attack, UserAttack):
            both = [
                restriction for restriction in _RESTRICTIONS if has_setting(attack, restriction)
            ]
            shared = {e: getattr(trial.attack, e) for e in both if has_setting(trial.attack, e)}
            attack = with_settings(attack, shared, name)
        case = replace(trial.case, attack=name)
        result.append(replace(trial, attack=attack, case=case))
    return result


def from_blends(
    trial: Trial,
    model: TrainedModel,
    *,
    by_answers: bool = False,
    imitated: bool = False,
    starts: Sequence[Perturbation] = (),
) -> Perturbation | None:
    """Return the best injection of `blended_search`.

    None unless `starts_from_blends`, and if the model fails on the way.

    Args:
        trial: of the attack.
        model: to ask.
        by_answers: see `blended_search.search_injections`.
        imitated: whether the gradients that are followed are those of the model without its steps,
            if it has any, or else of an imitation, of its answers on the clean graph and under
            random attacks.
        starts: perturbations to start from as well.
    """
    if not starts_from_blends(trial):
        return None
    key = _key(trial, f"{by_answers}, {imitated}, {trial.seed if imitated else ''}", starts)
    if key not in model.blended:
        model.blended[key] = _search_blends(trial, model, by_answers, imitated, starts)
    return model.blended[key]


def _search_blends(
    trial: Trial,
    model: TrainedModel,
    by_answers: bool,
    imitated: bool,
    starts: Sequence[Perturbation],
) -> Perturbation | None:
    guide: DifferentiableModel = _asked(trial, model)
    if imitated:
        shown = random_ones(trial)
        guide = without_steps(trial, model, shown) or imitation(trial, model, shown)
    question = _question(trial, model, guide)
    given = [to_units(trial.threat, start) for start in starts]
    try:
        with isolated_randomness(trial.seed):
            result = search_injections(question, by_answers=by_answers, starts=given)
    except ModelError:
        return None
    return _verified(trial, result)


def kept(trial: Trial, model: TrainedModel, *, misled: bool) -> list[Perturbation]:
    """Return the best injections whose rows are kept like those of the data, see `search_kept`.

    None unless `starts_from_blends`, and if the model fails on the way.

    Args:
        trial: of the attack.
        model: to ask.
        misled: whether the gradient is followed that it has without its steps, if any.
    """
    if not starts_from_blends(trial):
        return []
    key = _key(trial, f"{misled}", ())
    if key not in model.kept:
        guide = without_steps(trial, model, random_ones(trial)) if misled else None
        try:
            with isolated_randomness(trial.seed):
                found = search_kept(_question(trial, model, guide or _asked(trial, model)))
        except ModelError:
            found = []
        model.kept[key] = [_verified(trial, one) for one in found]
    return model.kept[key]


def improved(
    trial: Trial, model: TrainedModel, starts: Sequence[Perturbation]
) -> Perturbation | None:
    """Return the best injection that is found from these on, by gradients and by answers.

    None unless `starts_from_blends`, if none of them can be searched from, and if the model fails
    on the way.
    """
    if not starts_from_blends(trial):
        return None
    key = _key(trial, "improved", starts)
    if key not in model.blended:
        model.blended[key] = _improve(trial, model, starts)
    return model.blended[key]


def _improve(
    trial: Trial, model: TrainedModel, starts: Sequence[Perturbation]
) -> Perturbation | None:
    question = _question(trial, model, _asked(trial, model))
    given = [to_units(trial.threat, start) for start in starts]
    try:
        with isolated_randomness(trial.seed):
            result = improve_injections(question, given)
    except ModelError:
        return None
    return None if result is None else _verified(trial, result)


def _key(trial: Trial, ways: str, starts: Sequence[Perturbation]) -> tuple[str, ...]:
    """The key of what is found in these ways from these perturbations on, for all attacks."""
    given = (digest(start.tensors()) for start in starts)
    return trial.case.difficulty, describe_threat(trial.threat), ways, *given


def _question(trial: Trial, model: TrainedModel, guide: DifferentiableModel) -> InjectionQuestion:
    view, asked = white_box_view(trial, model), _asked(trial, model)
    threat = replace(trial.threat, targets=trial.threat.targets.to(view.x.device))
    in_units = model_in_units(threat, asked)
    return InjectionQuestion(
        graph_in_units(threat, view),
        threat_in_units(threat),
        in_units,
        in_units if guide is asked else model_in_units(threat, guide),
    )


def _asked(trial: Trial, model: TrainedModel) -> AnyVictim:
    return model.for_searches(trial.harness.dataset.graph)


def _verified(trial: Trial, found: Perturbation) -> Perturbation:
    result = from_units(trial.threat, found)
    verify(result, trial.harness.dataset.graph, trial.threat)
    return result


def searched(
    trial: Trial,
    model: TrainedModel,
    adaptive: Perturbation | None,
    transferred: Stored | None,
    grounds: Grounds,
) -> Perturbation:
    """Improve these perturbations, and those made on other surrogates, by queries to the model.

    Injections that may start from blends are searched from there, and from the adaptive one on,
    instead; from blends with another gradient, too, if the model's is missing or wrong, and with
    rows like those of the data if it is in doubt at all.

    Args:
        trial: of the attack.
        model: to ask.
        adaptive: made on the model itself, if it has a gradient.
        transferred: made on a surrogate, if there is such a variant of the attack.
        grounds: of the search.
    """
    starts = [transferred[0]] if transferred is not None and grounds.beaten else []
    injections = kept(trial, model, misled=grounds.misled) if grounds.doubted else []
    further = None if adaptive is None else improved(trial, model, [adaptive, *starts])
    if further is not None:
        injections = [further, *injections]
    if further is None or grounds.misled:
        blended = from_blends(trial, model, by_answers=True, imitated=grounds.misled, starts=starts)
        injections = injections if blended is None else [blended, *injections]

    def score(perturbation: Perturbation) -> tuple[float, ...]:
        return _score(trial, model, perturbation)

    if injections and not grounds.misled:
        return min(injections, key=score)
    moved = [] if transferred is None else [transferred]
    if has_setting(_plain(trial.attack), "surrogates"):
        moved = [
            created
            for kind in kinds_on(trial.harness.dataset)
            if (created := transferred_variant(trial, surrogates=(kind,))) is not None
        ]
    starts = [created for created, _ in moved] + ([] if adaptive is None else [adaptive])
    starts += fewer_flips(trial, model)
    if injections:
        return min([*starts, *injections], key=score)
    result = _recombined(trial, model, starts)
    verify(result, trial.harness.dataset.graph, trial.threat)
    return with_note(trial, result)


def _recombined(trial: Trial, model: TrainedModel, starts: Sequence[Perturbation]) -> Perturbation:
    """Return the best that a search by queries makes of these perturbations and of random ones."""
    random = random_ones(trial)
    clean = trial.harness.dataset.graph
    generator = torch.Generator().manual_seed(seed_of("score search", trial))
    if trial.threat.node_budgets is not None:
        graph_injections = GraphInjections(
            starts or random or [Perturbation()],
            random,
            clean,
            margins=lambda perturbation: margins_of(*answers_after(trial, model, perturbation)),
            generator=generator,
        )
        return search(graph_injections)
    if trial.threat.edge_budgets is not None:
        graph_flips = GraphFlips(
            [*starts, *random, Perturbation()],
            clean,
            trial.threat.edge_budgets,
            margins=lambda perturbation: margins_of(*answers_after(trial, model, perturbation)),
            isolate=getattr(trial.attack, "isolate", True),
            generator=generator,
        )
        return search(graph_flips)
    if _any_edge_may_change(trial, [*starts, *random]):
        return _best_flips(trial, model, [*starts, *random, Perturbation()], generator)
    parts = ExchangedParts(
        starts or random or [Perturbation()],
        random,
        clean,
        trial.threat.scenario,
        score=lambda perturbation: _score(trial, model, perturbation),
        allowed=lambda perturbation: _is_allowed(trial, perturbation),
        generator=generator,
    )
    return search(parts)


def _any_edge_may_change(trial: Trial, perturbations: list[Perturbation]) -> bool:
    """Whether the attack flips edges of any kind, and changes nothing else."""
    restrictions = {getattr(trial.attack, name, "none") for name in ("restrict", "structure")}
    features = any(perturbation.modified_nodes.numel() for perturbation in perturbations)
    return trial.threat.scenario == MODIFICATION and restrictions == {"none"} and not features


def _best_flips(
    trial: Trial, model: TrainedModel, starts: list[Perturbation], generator: torch.Generator
) -> Perturbation:
    """Search from the strongest of these on for any flips within the budget."""
    graph = trial.harness.dataset.graph
    clean, targets = edge_set(graph), trial.threat.targets.to(graph.x.device)
    allowed = [candidate for candidate in starts if _is_allowed(trial, candidate)]
    start = min(allowed, key=lambda candidate: _score(trial, model, candidate))
    flips = clean.encode(
        torch.cat([start.added_edges, start.removed_edges], dim=1).to(graph.x.device)
    )
    if not targets.numel() or not trial.threat.edge_budget:
        return start
    question = Question(
        model=_asked(trial, model),
        x=graph.x,
        clean=clean,
        targets=targets,
        labels=graph.y[targets],
        budget=trial.threat.edge_budget,
        isolate=getattr(trial.attack, "isolate", True),
        room=trial.threat.local_budgets,
        ends=trial.threat.ends,
        seed=trial.seed,
    )
    forwards = FORWARDS if trial.threat.ends is None else OF_A_GANG
    result = search_by_answers(question, flips, forwards, generator)
    return clean.perturbation(result)


def _plain(attack: Attack) -> Attack:
    """A user's attack without the harness's wrapper."""
    return attack.attack if isinstance(attack, UserAttack) else attack


def _score(trial: Trial, model: TrainedModel, perturbation: Perturbation) -> tuple[float, ...]:
    """Number of targets that stay right, and minus the mean margin by which others are lost."""
    logits, labels = answers_after(trial, model, perturbation)
    right = int((logits.argmax(dim=1) == labels).sum())
    return right, -float(tanh_margin(logits, labels))


def _is_allowed(trial: Trial, perturbation: Perturbation) -> bool:
    """Whether local budgets are kept, and last edges unless the attack may take them."""
    flips = torch.cat([perturbation.added_edges, perturbation.removed_edges], dim=1)
    room = room_beside(trial.threat, flips)
    if room is not None and bool((room < 0).any()):
        return False
    if getattr(trial.attack, "isolate", True):
        return True
    count = trial.harness.dataset.num_nodes
    degrees = torch.bincount(trial.harness.dataset.graph.edge_index[0].cpu(), minlength=count)
    left = degrees - torch.bincount(perturbation.removed_edges.flatten(), minlength=count)
    return not bool(((degrees > 0) & (left <= 0)).any())
