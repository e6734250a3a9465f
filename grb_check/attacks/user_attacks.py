"""Users' attacks: objects with four attributes, checked before the run and isolated during it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Final, cast, final, get_args

from grb_check.attacks.names import check_surrogates
from grb_check.attacks.scenarios import Scenario
from grb_check.errors import AttackError, GrbCheckError, UsageError
from grb_check.user_code.calls import users_code
from grb_check.user_code.factories import import_target

if TYPE_CHECKING:
    import torch
    from torch_geometric.data import Data

    from grb_check.attacks.protocol import Attack, DifferentiableModel
    from grb_check.attacks.threat import Knowledge, Perturbation, Threat

GROUP: Final = "grb_check.attacks"
ATTRIBUTES: Final = ("name", "scenario", "knowledge", "perturb")
CALL: Final = "perturb(graph, threat, model, generator)"

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def from_path(path: str) -> tuple[object, Attack]:
    """Import `pkg.module:attr`; return it and the attack that it is or makes.

    Raises:
        UsageError: it cannot be imported, or is not an attack.
    """
    result = import_target(path, "attack", "attack, or a class or function in it that makes one")
    return result, made(result, f"attack {path!r}")


def entry_point_names() -> tuple[str, ...]:
    """Return the names under which installed packages offer attacks, without importing any."""
    return tuple(sorted({point.name for point in entry_points(group=GROUP)}))


def from_entry_point(name: str) -> tuple[object, Attack]:
    """Load an entry point of that name; return it and the attack that it is or makes.

    Raises:
        UsageError: it cannot be imported, is not an attack, or has another name.
    """
    points = sorted(set(entry_points(group=GROUP, name=name)), key=lambda point: point.value)
    label = f"attack {name!r} of {' and '.join(map(_package, points))}"
    if len({point.value for point in points}) > 1:
        raise UsageError(f"{label}: two packages offer it; select one as pkg.module:attr")
    with users_code(f"{label}: importing {points[0].value} failed", UsageError):
        result = points[0].load()
    return result, _of_name(name, result, label)


def registered(name: str, path: str, label: str) -> tuple[object, Attack]:
    """Import `pkg.module:attr`; return it and the attack that it is or makes.

    Args:
        name: under which a plugin registered it.
        path: what it registered.
        label: for messages.

    Raises:
        UsageError: it cannot be imported, is not an attack, or has another name.
    """
    result = import_target(path, f"{label}:", "attack, or a class or function in it that makes one")
    return result, _of_name(name, result, label)


def _of_name(name: str, user_object: object, label: str) -> Attack:
    attack = made(user_object, label)
    if attack.name != name:
        raise UsageError(f"{label}: its own name is {attack.name!r}; offer it under that name")
    return attack


def made(user_object: object, label: str) -> Attack:
    """Return the attack that a user's object is, or makes when called without arguments.

    Raises:
        UsageError: see `check`, or the call failed.
    """
    attack = user_object
    if inspect.isclass(user_object) or (
        callable(user_object) and not hasattr(user_object, "perturb")
    ):
        with users_code(f"{label} raised when called without arguments", UsageError):
            attack = cast("Callable[[], object]", user_object)()
    check(attack, label)
    return cast("Attack", attack)


def check(attack: object, label: str) -> None:
    """Check that an object is an attack.

    Raises:
        UsageError: an attribute is missing or has a value that is not allowed.
    """
    # Imports torch, which an attack needs anyway.
    from grb_check.attacks.threat import Knowledge

    missing = [name for name in ATTRIBUTES if not hasattr(attack, name)]
    if missing:
        raise UsageError(
            f"{label} is a {type(attack).__name__} without {', '.join(missing)}; an attack has "
            f"name, scenario, knowledge and {CALL}"
        )
    given = cast("Attack", attack)
    if not isinstance(given.name, str) or not _NAME.fullmatch(given.name):
        raise UsageError(
            f"{label}: its name {given.name!r} cannot be part of a case id; use letters, digits, "
            f"'.', '_' and '-', starting with a letter or digit"
        )
    for attribute, allowed in (("scenario", Scenario), ("knowledge", Knowledge)):
        value = getattr(given, attribute)
        if value not in get_args(allowed):
            raise UsageError(
                f"{label}: {attribute} is {value!r}; allowed: {', '.join(get_args(allowed))}"
            )
    try:
        check_surrogates(getattr(given, "surrogates", ("gcn",)))
    except UsageError as error:
        raise UsageError(f"{label}: {error}") from None
    if not _takes_four(given.perturb):
        raise UsageError(f"{label}: its perturb cannot be called as {CALL}; change its signature")


@final
@dataclass(frozen=True)
class UserAttack:
    """A user's attack: errors name it, and global random states are protected from it.

    All other attributes are those of the user's object.
    """

    attack: Attack

    @property
    def name(self) -> str:
        """Name of the user's attack."""
        return self.attack.name

    @property
    def scenario(self) -> Scenario:
        """Scenario of the user's attack."""
        return self.attack.scenario

    @property
    def knowledge(self) -> Knowledge:
        """Knowledge of the user's attack."""
        return self.attack.knowledge

    def __getattr__(self, name: str) -> Any:
        if name == "attack" or name.startswith("__"):  # not set yet while a copy is made
            raise AttributeError(name)
        return getattr(self.attack, name)

    def perturb(
        self,
        graph: Data,
        threat: Threat,
        model: DifferentiableModel,
        generator: torch.Generator,
    ) -> Perturbation:
        """Return the perturbation of the user's attack, on the CPU.

        Raises:
            AttackError: the attack raised, or did not return a perturbation.
        """
        # Imported here because this module is imported without torch.
        from grb_check.attacks.graph_sets.attacks import perturb
        from grb_check.user_code.randomness import derive_seed, isolated_randomness

        label = f"attack {self.scenario}/{self.name}"
        seed = derive_seed(label, generator.initial_seed())
        with (
            isolated_randomness(seed),
            users_code(f"{label} raised", AttackError, passing=GrbCheckError),
        ):
            result = perturb(self.attack, graph, threat, model, generator)
        return _checked(result, label)


def _checked(result: object, label: str) -> Perturbation:
    # Imported here because this module is imported without torch.
    from torch import Tensor

    from grb_check.attacks.threat import Perturbation

    if not isinstance(result, Perturbation):
        raise AttackError(
            f"{label}: perturb returned a {type(result).__name__}; it must return a "
            f"grb_check.attacks.threat.Perturbation"
        )
    parts = {name: value for name, value in vars(result).items() if name != "notes"}
    wrong = [name for name, value in parts.items() if not isinstance(value, Tensor)]
    if wrong:
        raise AttackError(
            f"{label}: {wrong[0]} of its perturbation is a {type(parts[wrong[0]]).__name__}; it "
            f"must be a tensor"
        )
    return replace(result, **{name: value.detach().cpu() for name, value in parts.items()})


def _takes_four(function: object) -> bool:
    if not callable(function):
        return False
    try:
        inspect.signature(function).bind(*CALL.split(","))
    except TypeError:
        return False
    except ValueError:  # no signature to read
        return True
    return True


def _package(point: EntryPoint) -> str:
    return f"package {point.dist.name}" if point.dist is not None else f"entry point {point.value}"
