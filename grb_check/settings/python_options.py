"""Options that are given in Python: keyword arguments of `grb_check.run` and `evaluate`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grb_check.cases.attack_registry import AttackRegistry
from grb_check.errors import UsageError, unknown
from grb_check.settings.options import COMMAND_LINE, DEFAULT, MISSING, Option, tagged
from grb_check.settings.reading import read
from grb_check.settings.registered_names import RegisteredNames
from grb_check.settings.settings import RunSettings


def read_python(options: Mapping[str, Any], registry: AttackRegistry) -> RunSettings:
    """Return the settings that options give, read as those of the command line.

    Args:
        options: without `--grb-` and with `_`; None for one that is not given. One that may be
            repeated takes a list as well.
        registry: resolves names of attacks.

    Raises:
        UsageError: an option is unknown, or its value is wrong.
    """
    taken = [option.dest.removeprefix("grb_") for option in tagged("python")]
    for name in options.keys() - {"model", *taken}:
        raise UsageError(f"{unknown('option of run()', name, taken)}; for all others use pytest")
    given = {f"grb_{name}": value for name, value in options.items()}

    def lookup(option: Option) -> tuple[Any, str]:
        value = given.get(option.dest)
        return (MISSING, DEFAULT) if value is None else (_text(value, option), COMMAND_LINE)

    cwd = Path.cwd()
    return read(lookup, cwd, cwd, registry, RegisteredNames())


def _text(value: Any, option: Option) -> Any:
    """A value of Python as the command line would give it."""
    if option.type == "bool":
        return value
    if option.repeatable:
        several = value if isinstance(value, (list, tuple)) else [value]
        return [str(item) for item in several]
    return str(value) if option.type == "string" else value
