"""Users' attacks: objects with four attributes, checked before the run and fenced in it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Final, cast, final, get_args

from grb_check.attacks.names import check_surrogates
from grb_check.errors import AttackError, GrbCheckError, UsageError
from grb_check.user_code.factories import import_target
from grb_check.user_code.tracebacks import short_traceback

if TYPE_CHECKING:
    import torch
    from torch_geometric.data import Data

    from grb_check.attacks.protocol import Attack, DifferentiableModel
    from grb_check.attacks.threat import Knowledge, Perturbation, Scenario, Threat

GROUP: Final = "grb_check.attacks"
ATTRIBUTES: Final = ("name", "scenario", "knowledge", "perturb")
CALL: Final = "perturb(graph, threat, model, generator)"

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def from_path(path: str) -> tuple[object, Attack]:
    """What `pkg.module:attr` names, and the attack that it is or makes.

    Raises:
        UsageError: it cannot be imported, or is no attack.
    """
    found = import_target(path, "attack", "attack, or a class or function in it that makes one")
    return found, made(found, f"attack {path!r}")


def entry_point_names() -> tuple[str, ...]:
    """Names under which installed packages offer attacks; none of them is imported."""
    return tuple(sorted({point.name for point in entry_points(group=GROUP)}))


def from_entry_point(name: str) -> tuple[object, Attack]:
    """What an installed package offers under that name, and the attack that it is or makes.

    Raises:
        UsageError: it cannot be imported, is no attack, or has another name.
    """
    points = sorted(set(entry_points(group=GROUP, name=name)), key=lambda point: point.value)
    label = f"attack {name!r} of {' and '.join(map(_package, points))}"
    if len({point.value for point in points}) > 1:
        raise UsageError(f"{label}: two packages offer it; name one as pkg.module:attr")
    try:
        found = points[0].load()
    except (Exception, SystemExit) as error:
        reason = f"importing {points[0].value} failed:\n{short_traceback(error)}"
        raise UsageError(f"{label}: {reason}") from error
    attack = made(found, label)
    if attack.name != name:
        raise UsageError(
            f"{label}: its own name is {attack.name!r}; give the entry point the same name"
        )
    return found, attack


def made(found: object, label: str) -> Attack:
    """The attack that a user's object is, or makes when called without arguments.

    Raises:
        UsageError: see `check`, or the call failed.
    """
    attack = found
    if inspect.isclass(found) or (callable(found) and not hasattr(found, "perturb")):
        try:
            attack = cast("Callable[[], object]", found)()
        except (Exception, SystemExit) as error:
            raise UsageError(
                f"{label} raised when called without arguments:\n{short_traceback(error)}"
            ) from error
    check(attack, label)
    return cast("Attack", attack)


def check(attack: object, label: str) -> None:
    """Refuse what is no attack.

    Raises:
        UsageError: a missing attribute, or one with a value that is not allowed.
    """
    from grb_check.attacks.threat import Knowledge, Scenario  # torch, which an attack needs anyway

    missing = [name for name in ATTRIBUTES if not hasattr(attack, name)]
    if missing:
        raise UsageError(
            f"{label} is a {type(attack).__name__} without {', '.join(missing)}; an attack has "
            f"name, scenario, knowledge and {CALL}"
        )
    given = cast("Attack", attack)
    if not isinstance(given.name, str) or not _NAME.fullmatch(given.name):
        raise UsageError(
            f"{label}: its name {given.name!r} cannot stand in a case id; use letters, digits, "
            f"'.', '_' and '-', beginning with a letter or digit"
        )
    for attribute, allowed in (("scenario", Scenario), ("knowledge", Knowledge)):
        value = getattr(given, attribute)
        if value not in get_args(allowed):
            raise UsageError(
                f"{label}: {attribute} is {value!r}, allowed: {', '.join(get_args(allowed))}"
            )
    try:
        check_surrogates(getattr(given, "surrogates", ("gcn",)))
    except UsageError as error:
        raise UsageError(f"{label}: {error}") from None
    if not _takes_four(given.perturb):
        raise UsageError(f"{label}: its perturb cannot be called as {CALL}")


@final
@dataclass(frozen=True)
class OwnAttack:
    """A user's attack whose errors name it, and which leaves global random states alone.

    Other attributes than the four of an attack are those of the user's object.
    """

    attack: Attack

    @property
    def name(self) -> str:
        return self.attack.name

    @property
    def scenario(self) -> Scenario:
        return self.attack.scenario

    @property
    def knowledge(self) -> Knowledge:
        return self.attack.knowledge

    def __getattr__(self, name: str) -> Any:
        if name == "attack" or name.startswith("__"):  # not there yet while a copy is made
            raise AttributeError(name)
        return getattr(self.attack, name)

    def perturb(
        self,
        graph: Data,
        threat: Threat,
        model: DifferentiableModel,
        generator: torch.Generator,
    ) -> Perturbation:
        """What the user's attack returns, on the CPU.

        Raises:
            AttackError: it raised, or returned something else.
        """
        from grb_check.user_code.randomness import derive_seed, isolated_randomness

        label = f"attack {self.scenario}/{self.name}"
        with isolated_randomness(derive_seed(label, generator.initial_seed())):
            try:
                result = self.attack.perturb(graph, threat, model, generator)
            except GrbCheckError:
                raise
            except (Exception, SystemExit) as error:
                raise AttackError(f"{label} raised:\n{short_traceback(error)}") from error
        return _checked(result, label)


def _checked(result: object, label: str) -> Perturbation:
    from torch import Tensor

    from grb_check.attacks.threat import Perturbation

    if not isinstance(result, Perturbation):
        raise AttackError(
            f"{label}: perturb returned a {type(result).__name__}, not a "
            f"grb_check.attacks.threat.Perturbation"
        )
    parts = {name: value for name, value in vars(result).items() if name != "notes"}
    wrong = [name for name, value in parts.items() if not isinstance(value, Tensor)]
    if wrong:
        raise AttackError(
            f"{label}: {wrong[0]} of its perturbation is a {type(parts[wrong[0]]).__name__}, not a "
            f"tensor"
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
