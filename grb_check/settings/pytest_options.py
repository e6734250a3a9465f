"""Options registered with pytest and looked up in its configuration."""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pytest

from grb_check.errors import UsageError, unknown
from grb_check.settings.options import (
    COMMAND_LINE,
    DEFAULT,
    INI,
    MISSING,
    OPTIONS,
    UPDATE_FLAG,
    Option,
    tagged,
)

JUNIT_PROPERTIES: Final = "grb_junit_properties"
LIST_FLAG: Final = "--grb-list"
LISTS: Final = {
    "models": "reference models, defences and contrastive encoders",
    "attacks": "attacks, their settings, and the modifiers of their names",
    "datasets": "datasets, their sizes, and where they are looked for",
    "suites": "suites of cases",
    "leaderboards": "leaderboards, and the reference models that they lack",
}


def register(parser: pytest.Parser) -> None:
    """Add every option and ini value to pytest's."""
    group = parser.getgroup("grb", "robustness of a graph neural network (grb_check)")
    for option in OPTIONS:
        if option.flag:
            kind: dict[str, Any] = {"action": "store_true"}
            if option.type != "bool":
                action = "append" if option.repeatable else "store"
                kind = {"action": action, "metavar": option.metavar}
            text = f"{option.help} (ini: {option.ini})"
            group.addoption(option.flag, default=None, help=text, **kind)
        parser.addini(option.ini, option.help.replace("%%", "%"), type=option.type, default=None)
    group.addoption(
        "--grb-only",
        action="store_true",
        help="run the robustness cases only, without the repository's own tests",
    )
    group.addoption(
        UPDATE_FLAG,
        action="store_true",
        help="write this run to the file of --grb-baseline instead of comparing with it",
    )
    parser.addini(
        JUNIT_PROPERTIES,
        "whether --junitxml has the figures as properties of each case (default: true); set it to "
        "false for readers with a strict schema, such as Jenkins' xUnit plugin",
        type="bool",
        default=True,
    )
    group.addoption(
        LIST_FLAG,
        nargs="?",
        const="",
        metavar="|".join(LISTS),
        help="list what is available and run nothing; without a value, what can be listed",
    )


def check_flags(parser: pytest.Parser, args: Sequence[str]) -> None:
    """Refuse an unknown option whose name is near to one of these, which pytest refuses without it.

    Raises:
        UsageError: names the nearest.
    """
    for text in parser.parse_known_and_unknown_args(list(args))[1]:
        name = text.partition("=")[0]
        flags = [option.flag for option in OPTIONS if option.flag]
        near = difflib.get_close_matches(name, flags, n=1, cutoff=0.8)
        if name.startswith("--grb-") and near:
            raise UsageError(f"there is no option {name}; did you mean {near[0]}?")


def in_use(config: pytest.Config) -> bool:
    """Whether the command line, or a model in the ini file, asks for the plugin."""
    flags = config.getoption("grb_only") or config.getoption("grb_update_baseline")
    if flags or any(arg.startswith("grb::") for arg in config.args):
        return True
    named = any(config.getoption(option.dest, None) is not None for option in OPTIONS)
    return named or bool(ini_value(config, "grb_model"))


def names_users_code(config: pytest.Config) -> bool:
    """Whether a model, an attack or a dataset is named that lies in the user's directories."""
    others = [
        value
        for dest, ini in (("grb_attack", "grb_attacks"), ("grb_dataset", "grb_datasets"))
        for value in (config.getoption(dest), ini_value(config, ini))
    ]
    named = config.getoption("grb_model") or ini_value(config, "grb_model")
    return bool(named) or ":" in str(others)


def selecting(config: pytest.Config) -> str | None:
    """Return the first option on the command line that needs a model; None if there is none."""
    if config.getoption("grb_only"):
        return "--grb-only"
    given = (
        attack for attack in tagged("needs a model") if config.getoption(attack.dest) is not None
    )
    return next((option.flag for option in given), None)


def lookup(config: pytest.Config) -> Callable[[Option], tuple[Any, str]]:
    """Return a function from an option to its raw value (`MISSING` if not given) and origin."""

    def find(option: Option) -> tuple[Any, str]:
        given = config.getoption(option.dest, None)
        if given is not None:
            return given, COMMAND_LINE
        from_ini = ini_value(config, option.ini)
        return (MISSING, DEFAULT) if from_ini is None else (from_ini, INI)

    return find


def ini_value(config: pytest.Config, name: str) -> Any:
    """Return a value of the ini file, of its type, or as it is written if it is not of its type.

    pytest's own error says neither which option it is about nor what is allowed, and there `20%` is
    no number.
    """
    try:
        return config.getini(name)
    except (TypeError, ValueError, pytest.UsageError):  # the last since pytest 9.2
        if name not in _ini_file(config):
            raise
        return _ini_file(config)[name].value


def check_ini_file(config: pytest.Config) -> None:
    """Refuse names that begin as ours and that no option has, and what `read` does not look at.

    pytest only warns about unknown names, and a limit whose name is misspelt would not hold.

    Raises:
        UsageError: names the nearest name, or the value.
    """
    known = [*(option.ini for option in OPTIONS), JUNIT_PROPERTIES]
    for name in sorted(_ini_file(config)):
        ours = name.replace("-", "_").lower().startswith("grb_")
        if ours and name not in known and not _is_registered(config, name):
            raise unknown("ini value", name, known)
    properties = ini_value(config, JUNIT_PROPERTIES)
    if not isinstance(properties, bool):
        raise UsageError(
            f"{JUNIT_PROPERTIES} = {reprlib.repr(properties)} must be true or false; see "
            f"{JUNIT_PROPERTIES} in pytest --help"
        )


def _is_registered(config: pytest.Config, name: str) -> bool:
    """Whether another plugin or a conftest.py has an ini value of that name."""
    try:
        config.getini(name)
    except (KeyError, ValueError):
        return False
    return True


def _ini_file(config: pytest.Config) -> Mapping[str, Any]:
    """Return what the ini file and `-o` give, by name, each with the attribute `value`.

    The name is private to pytest: without it, misspelt names are pytest's warnings again.
    """
    result: Mapping[str, Any] | None = getattr(config, "_inicfg", None)
    return getattr(config, "inicfg", {}) if result is None else result  # its name in pytest 9.0
