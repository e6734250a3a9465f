"""Import what "pkg.module:attr" names, and call it with the arguments that it declares.

Imports no torch.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from importlib.util import find_spec
from types import ModuleType
from typing import Final

from grb_check.errors import ModelError, UsageError
from grb_check.user_code.calls import restored_after_import, short_traceback, users_code

ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    "num_features": ("in_channels", "in_features"),
    "num_classes": ("out_channels", "out_features"),
}

_PAIRS: Final = {"(": ")", "[": "]", "{": "}"}
_VARIADIC: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def parse_model_args(text: str) -> dict[str, object]:
    """Return the keyword arguments in `name=value,name=value`.

    A value is a Python literal if it can be read as one, else a string; commas in brackets or
    quotes belong to the value.

    >>> parse_model_args("hidden_channels=64, sizes=[32, 16], act=relu")
    {'hidden_channels': 64, 'sizes': [32, 16], 'act': 'relu'}

    Raises:
        UsageError: a part is not `name=value`, a name stands twice, or a bracket or quote is open.
    """
    arguments: dict[str, object] = {}
    for part in _split(text):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not name.isidentifier() or not value:
            raise UsageError(
                f"model arguments {text!r}: {part.strip()!r} must have the form "
                f"name=value; write for example hidden_channels=64,num_layers=2"
            )
        if name in arguments:
            raise UsageError(f"model arguments {text!r}: {name} is given twice; give it once")
        arguments[name] = _literal(value)
    return arguments


def load_factory(target: str) -> Callable[..., object]:
    """Return the factory that `pkg.module:attr` (or `pkg.module:attr.sub`) names.

    The user's directories must be on `sys.path`.

    Raises:
        UsageError: the text has another form; the module or attribute does not exist, cannot be
            imported, or is not a factory.
    """
    result = import_target(target, "model", "function or class in it that makes the model")
    if any(cls.__module__.startswith("torch.nn") for cls in type(result).__mro__):
        raise UsageError(
            f"model {target!r} is a module, not a factory: name a function or class that returns "
            f"it, or for one that is trained, a function that returns grb_check.Trained(module)"
        )
    if not callable(result):
        raise UsageError(
            f"model {target!r} is a {type(result).__name__} and cannot be called: name a function "
            f"or class that makes the model"
        )
    return result


def check_package(target: str, what: str) -> None:
    """Refuse a target whose package, or module at the top, does not exist. Imports nothing.

    Args:
        target: `pkg.module:attr`.
        what: word for it in messages.

    Raises:
        UsageError: there is none.
    """
    name = target.partition(":")[0].strip().partition(".")[0]
    if name.isidentifier() and name not in sys.modules and find_spec(name) is None:
        raise _no_module(name, f"{what} {target!r}")


def import_target(target: str, what: str, expected: str) -> object:
    """Import and return what `pkg.module:attr` (or `pkg.module:attr.sub`) names.

    Args:
        target: as the user wrote it.
        what: word for it in messages.
        expected: description of the attribute for messages.

    Raises:
        UsageError: the text has another form; the module or attribute does not exist or cannot be
            imported.
    """
    module_name, colon, path = (piece.strip() for piece in target.partition(":"))
    names = [*module_name.split("."), *path.split(".")]
    label = f"{what} {target!r}"
    if not colon or not all(name.isidentifier() for name in names):
        raise UsageError(
            f"{label}: give pkg.module:attr, a dotted module name (no file path), a colon, and the "
            f"{expected}"
        )
    check_package(target, what)  # the import restores what users change of torch, and loads it
    result: object = _import(module_name, label)
    for name in path.split("."):
        result = _attribute(result, name, label)
    return result


def call_factory(
    factory: Callable[..., object],
    *,
    offered: Mapping[str, object],
    given: Mapping[str, object],
) -> object:
    """Call a factory with those of the offered arguments that it declares.

    A function with `**kwargs` also receives every offered name whose value it has not received
    under another name. A class does not: classes such as PyG's `GCN` pass `**kwargs` on to their
    layers, which refuse unknown names.

    Args:
        factory: makes the model.
        offered: `data`, `num_features`, ...: passed by name, also as one of `ALIASES`.
        given: the user's own arguments; they override what is offered.

    Raises:
        UsageError: a required argument is neither offered nor given, or a given one is unknown.
        ModelError: the factory raised; the message holds a short traceback.
    """
    name = _name(factory)
    parameters = _parameters(factory, name)
    named = {key: p for key, p in parameters.items() if p.kind not in _VARIADIC}
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    arguments = _arguments(
        offered, given, named, everything=takes_any and not inspect.isclass(factory)
    )
    unknown = [key for key in given if key not in named]
    if unknown and not takes_any:
        raise UsageError(
            f"model {name} takes no argument {unknown[0]!r}{_nearest(unknown[0], named)}; it "
            f"takes {', '.join(named) or 'none'}"
        )
    _check_complete(name, named, arguments, offered)
    with users_code(f"model {name} raised when called", ModelError):
        return factory(**arguments)


def _arguments(
    offered: Mapping[str, object],
    given: Mapping[str, object],
    named: Mapping[str, inspect.Parameter],
    *,
    everything: bool,
) -> dict[str, object]:
    arguments: dict[str, object] = {}
    for canonical, value in offered.items():
        names = (canonical, *ALIASES.get(canonical, ()))
        declared = [name for name in names if name in named]
        if not declared and everything and not any(name in given for name in names):
            declared = [canonical]
        arguments.update(dict.fromkeys(declared, value))
    return {**arguments, **given}


def _check_complete(
    name: str,
    named: Mapping[str, inspect.Parameter],
    arguments: Mapping[str, object],
    offered: Mapping[str, object],
) -> None:
    by_position = [key for key, p in named.items() if p.kind is inspect.Parameter.POSITIONAL_ONLY]
    if by_position:
        raise UsageError(
            f"model {name} takes {', '.join(by_position)} by position only; arguments are passed "
            f"by name, so remove the '/' from its signature"
        )
    missing = [key for key, p in named.items() if p.default is p.empty and key not in arguments]
    if missing:
        offers = [" / ".join((key, *ALIASES.get(key, ()))) for key in offered]
        example = ",".join(f"{key}=..." for key in missing)
        raise UsageError(
            f"model {name} needs {', '.join(missing)}, which nothing provides; the harness "
            f"offers {', '.join(offers)}; give the rest with --grb-model-args '{example}'"
        )


def _parameters(factory: Callable[..., object], name: str) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(factory).parameters
    except (TypeError, ValueError):
        raise UsageError(
            f"model {name} has no signature that Python can read: name a function of your own "
            f"that calls it"
        ) from None


def _import(name: str, label: str) -> ModuleType:
    try:
        with restored_after_import():
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _broken(name, label, error) from error
        raise _no_module(error.name, label) from None
    except (Exception, SystemExit) as error:
        raise _broken(name, label, error) from error


def _no_module(name: str, label: str) -> UsageError:
    parent, _, last = name.rpartition(".")
    inside = getattr(sys.modules[parent], "__path__", []) if parent in sys.modules else None
    siblings = [module.name for module in pkgutil.iter_modules(inside)]
    where = f"the package {parent}" if parent else f"{sys.path[0] or 'the working directory'}"
    return UsageError(
        f"{label}: there is no module {name}{_nearest(last, siblings)}; looked "
        f"in {where}{'' if parent else ' first, then the rest of sys.path'}"
    )


def _broken(name: str, label: str, error: BaseException) -> UsageError:
    return UsageError(f"{label}: importing {name} failed:\n{short_traceback(error)}")


def _attribute(owner: object, name: str, label: str) -> object:
    try:
        return getattr(owner, name)
    except AttributeError:
        where = getattr(owner, "__name__", type(owner).__name__)
        public = [attribute for attribute in dir(owner) if not attribute.startswith("_")]
        raise UsageError(
            f"{label}: {where} has no attribute {name!r}{_nearest(name, public)}"
        ) from None


def _nearest(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, list(known), n=1)
    return f" (nearest: {close[0]})" if close else ""


def _name(factory: Callable[..., object]) -> str:
    qualified = getattr(factory, "__qualname__", type(factory).__name__)
    return f"{getattr(factory, '__module__', type(factory).__module__)}:{qualified}"


def _split(text: str) -> list[str]:
    """Return the parts between commas outside brackets and quotes."""
    parts, start = [], 0
    closers: list[str] = []
    quote = ""
    for position, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in _PAIRS:
            closers.append(_PAIRS[character])
        elif character in _PAIRS.values():
            if not closers or closers.pop() != character:
                raise UsageError(
                    f"model arguments {text!r}: {character!r} closes nothing; remove it"
                )
        elif character == "," and not closers:
            parts.append(text[start:position])
            start = position + 1
    if quote or closers:
        end = quote or closers[-1]
        raise UsageError(f"model arguments {text!r}: {end!r} is missing; add it")
    parts.append(text[start:])
    return [part for part in parts if part.strip()]


def _literal(value: str) -> object:
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return value


@contextmanager
def quiet_imports() -> Iterator[None]:
    """Hide the warnings of torch_geometric about torch, which users cannot act on."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", FutureWarning)
        yield
