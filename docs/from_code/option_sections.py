"""The options of pytest and the values of the ini file, as they are registered."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from grb_check.settings import pytest_options
from grb_check.settings.options import OPTIONS

PAGE: Final = re.compile(r"\bdocs/((?:[\w-]+/)?)([\w-]+)\.md")
CODE: Final = re.compile(
    r"(--[a-z][a-z-]+(?:=[^\s,;)]+)?|python -m grb_check \w+|\$\w+"
    r"|\b[a-z]+_[a-z_/.]+|(?<!\w)'[^']+'(?!\w))"
)
GROUP: Final = re.compile(r"<!-- from the code: option_group ([\w -]+) -->")
INI_TYPES: Final = {
    "linelist": "list of strings",
    "int": "integer",
    "float": "number",
    "bool": "true or false",
    "string": "string",
}


@dataclass(frozen=True)
class Described:
    """An option, or an ini value without one."""

    flag: str
    metavar: str
    help: str
    ini: str = ""
    ini_type: str = ""


@dataclass
class Recorder:
    """Takes the calls that grb_check makes to pytest's parser."""

    options: list[Described] = field(default_factory=list)
    ini_types: dict[str, tuple[str, str]] = field(default_factory=dict)

    def getgroup(self, name: str, description: str = "") -> Recorder:
        """Return itself: there is one group."""
        return self

    def addoption(self, flag: str, *, help: str, metavar: str = "", **_: Any) -> None:
        """Record an option."""
        self.options.append(Described(flag, metavar, help.replace("%%", "%")))

    def addini(self, name: str, help: str, *, type: str = "string", **_: Any) -> None:
        """Record an ini value."""
        self.ini_types[name] = (type, help)


def registered() -> dict[str, Described]:
    """Return every option and ini value by its name."""
    recorder = Recorder()
    pytest_options.register(recorder)  # type: ignore[arg-type]
    found = {}
    for each in recorder.options:
        text, _, rest = each.help.partition(" (ini: ")
        ini = rest.rstrip(")")
        ini_type = INI_TYPES[recorder.ini_types[ini][0]] if ini else ""
        found[each.flag] = Described(each.flag, each.metavar, text, ini, ini_type)
    named = {each.ini for each in found.values()}
    for ini, (kind, text) in recorder.ini_types.items():
        if ini not in named:
            found[ini] = Described("", "", text, ini, INI_TYPES[kind])
    return found


def option_group(section: str, *others: str) -> str:
    """Return the options of a section of `settings.options`, and others by their names."""
    known = registered()
    return "\n".join(option_text(known[name]) for name in _names(section, *others))


def missing_options(pages: Iterable[str]) -> list[str]:
    """Return a sentence for each option that no group of the pages has, or that two have."""
    groups = [found.split() for page in pages for found in GROUP.findall(page)]
    placed = [name for group in groups for name in _names(*group)]
    return [
        f"option {name} stands {placed.count(name)} times on the pages, and not once"
        for name in sorted(registered())
        if placed.count(name) != 1
    ]


def _names(section: str, *others: str) -> list[str]:
    return [each.flag or each.ini for each in OPTIONS if each.section == section] + list(others)


def option_text(option: Described) -> str:
    """Return the Markdown of one option."""
    if not option.flag:
        signature = option.ini
        ini = f"Only in the ini file, {option.ini_type}."
    else:
        equals = "=" if option.metavar else ""
        signature = f"{option.flag}{equals}{option.metavar}"
        ini = f"Ini: `{option.ini}`, {option.ini_type}." if option.ini else "Not in the ini file."
    sentence = option.help[0].upper() + option.help[1:]
    full_stop = "" if sentence.endswith(".") else "."
    text = PAGE.sub(r"[\2](../\1\2.md)", help_text(sentence))
    return f"### `{signature}`\n\n{text}{full_stop}\n\n{ini}\n"


def help_text(text: str) -> str:
    """Return a help text with options, commands and names as code, and no other markup."""
    parts = CODE.split(text)  # what is between is code
    parts[::2] = [re.sub(r"([*_\[\]<${])", r"\\\1", part) for part in parts[::2]]
    parts[1::2] = [f"`{part}`" for part in parts[1::2]]
    return "".join(parts)
