"""Users' attacks: checks, errors and isolation."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch
from torch_geometric.data import Data

from grb_check.attacks.registry import describe
from grb_check.attacks.threat import Perturbation, Threat
from grb_check.attacks.user_attacks import UserAttack, made
from grb_check.errors import AttackError, ModelError, UsageError


@dataclass(frozen=True)
class Mine:
    size: float = 0.5
    name: ClassVar[str] = "mine"
    scenario: ClassVar[str] = "injection"
    knowledge: ClassVar[str] = "black-box"

    def perturb(self, graph: Any, threat: Any, model: Any, generator: Any) -> Perturbation:
        return Perturbation()


@dataclass(frozen=True)
class Versioned(Mine):
    version: ClassVar[int] = 3


def returning(result: object) -> Any:
    """An attack that returns an object, or the result of a function."""

    def perturb(graph: Any, threat: Any, model: Any, generator: Any) -> object:
        return result() if callable(result) else result

    attributes = {"name": "mine", "scenario": "injection", "knowledge": "black-box"}
    return SimpleNamespace(**attributes, perturb=perturb)


def run(attack: Any) -> Perturbation:
    threat = Threat(scenario="injection", targets=torch.arange(2))
    return UserAttack(attack).perturb(Data(), threat, None, torch.Generator())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (3, "attack x is a int without name, scenario, knowledge, perturb; an attack has name"),
        (SimpleNamespace(name="a", perturb=print), "without scenario, knowledge"),
        (lambda: None, "attack x is a NoneType without"),
        (lambda size: Mine(), "raised when called without arguments:\n.*missing 1 required"),
        (SimpleNamespace(**vars(returning(0)) | {"name": "a/b"}), "'a/b' cannot be"),
        (SimpleNamespace(**vars(returning(0)) | {"name": "a+b"}), "cannot be part of a case id"),
        (SimpleNamespace(**vars(returning(0)) | {"name": 3}), "its name 3 cannot be"),
        (
            SimpleNamespace(**vars(returning(0)) | {"scenario": "evasion"}),
            "scenario is 'evasion'; allowed: modification, injection, poisoning",
        ),
        (
            SimpleNamespace(**vars(returning(0)) | {"knowledge": "all"}),
            "knowledge is 'all'; allowed: black-box, white-box",
        ),
        (
            SimpleNamespace(**vars(returning(0)) | {"perturb": lambda graph: None}),
            r"its perturb cannot be called as perturb\(graph, threat, model, generator\)",
        ),
        (SimpleNamespace(**vars(returning(0)) | {"perturb": 3}), "perturb cannot be called"),
        (
            SimpleNamespace(**vars(returning(0)) | {"surrogates": "gcn"}),
            "attack x: surrogates is 'gcn'; it must be a tuple of gcn, gcn_ln, gin",
        ),
        (
            SimpleNamespace(**vars(returning(0)) | {"surrogates": ("gcn", "gni")}),
            "attack x: unknown surrogate 'gni' .did you mean 'gin'",
        ),
    ],
)
def test_other_objects_are_refused(found: object, message: str) -> None:
    """The message says what is missing or allowed."""
    with pytest.raises(UsageError, match=message):
        made(found, "attack x")


def test_an_attack_that_raises_is_named_with_the_users_frames() -> None:
    """Errors of the harness, such as the victim's, pass unchanged."""

    def fault() -> None:
        raise RuntimeError("the user's own fault")

    with pytest.raises(AttackError) as caught:
        run(returning(fault))
    text = str(caught.value)
    assert text.startswith("attack injection/mine raised:\n")
    assert "in fault" in text
    assert text.endswith("RuntimeError: the user's own fault")
    assert "attacks/user_attacks.py" not in text

    def of_the_model() -> None:
        raise ModelError("the victim's")

    with pytest.raises(ModelError, match=r"^the victim's$"):
        run(returning(of_the_model))


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (None, "attack injection/mine: perturb returned a NoneType; it must return a grb_check"),
        ({"injected_x": 3}, "perturb returned a dict"),
        (
            Perturbation(injected_edges=[[0], [1]]),  # type: ignore[arg-type]
            "injected_edges of its perturbation is a list; it must be a tensor",
        ),
    ],
)
def test_other_results_are_refused(result: object, message: str) -> None:
    """The message has its type."""
    with pytest.raises(AttackError, match=message):
        run(returning(result))


def test_a_users_attack_draws_the_same_again_and_leaves_the_global_state() -> None:
    """Draws from global generators do not affect later cases."""
    drawn: list[float] = []

    def draw() -> Perturbation:
        drawn.extend([random.random(), float(torch.rand(()))])
        return Perturbation()

    before = torch.get_rng_state(), random.getstate()
    run(returning(draw))
    run(returning(draw))
    assert drawn[:2] == drawn[2:]
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]


def test_attacks_without_version_are_never_stored() -> None:
    """A change of its output could go unnoticed; settings of plain objects are unknown."""
    assert describe(UserAttack(Mine())) is None  # type: ignore[arg-type]
    assert describe(returning(0)) is None
    assert describe(SimpleNamespace(**vars(returning(0)), version=1)) is None  # type: ignore[arg-type]
    described = describe(UserAttack(Versioned(size=0.25)))  # type: ignore[arg-type]
    assert described == f"{__name__}:Versioned v3 (size=0.25)"


@dataclass(frozen=True)
class WithAnything(Versioned):
    size: Any = 0.5  # type: ignore[assignment]


@pytest.mark.parametrize(
    "size",
    [torch.arange(3), print, (1, torch.arange(3)), [1], object()],
    ids=["tensor", "function", "tensor in a tuple", "list", "object"],
)
def test_attacks_with_settings_of_unstable_repr_are_never_stored(size: object) -> None:
    """Two long tensors print alike, and a function's address changes with each run."""
    assert describe(WithAnything(size=size)) is None  # type: ignore[arg-type]
    assert describe(UserAttack(WithAnything(size=size))) is None  # type: ignore[arg-type]
    assert describe(WithAnything(size=(1, "a", None, (2.5,)))) is not None  # type: ignore[arg-type]


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_users_attack_can_be_copied(copied: Callable[[Any], Any]) -> None:
    """The copy equals the original."""
    wrapped = UserAttack(Mine(size=0.25))  # type: ignore[arg-type]
    assert copied(wrapped) == wrapped
    assert copied(wrapped).size == 0.25
