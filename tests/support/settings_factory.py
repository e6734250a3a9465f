"""RunSettings made of option values by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from grb_check.cases.attack_registry import AttackRegistry
from grb_check.settings.options import COMMAND_LINE, DEFAULT, INI, MISSING, Option
from grb_check.settings.reading import read
from grb_check.settings.registered_names import RegisteredNames
from grb_check.settings.settings import RunSettings


def settings(tmp_path: Path, ini: dict[str, Any] | None = None, **given: Any) -> RunSettings:
    """RunSettings from command line values (`model=[...]`) and ini values by option name."""

    def lookup(option: Option) -> tuple[Any, str]:
        name = option.dest.removeprefix("grb_")
        if name in given:
            return given[name], COMMAND_LINE
        if ini and name in ini:
            return ini[name], INI
        return MISSING, DEFAULT

    folder = tmp_path / "sub"
    folder.mkdir(exist_ok=True)
    return read(lookup, tmp_path, folder, AttackRegistry(), RegisteredNames())
