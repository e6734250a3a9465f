"""The commands of `python -m grb_check`, from their parsers."""

from __future__ import annotations

import argparse

from markdown_text import in_cell, table
from option_sections import help_text

from grb_check import __main__ as command_line


def commands() -> str:
    """Return a section for each command."""
    parser = command_line._parser()
    (chosen,) = (each for each in parser._actions if isinstance(each, argparse._SubParsersAction))
    return "\n".join(command_text(name, sub) for name, sub in chosen.choices.items())


def command_text(name: str, parser: argparse.ArgumentParser) -> str:
    """Return what a command does, how it is called and what its arguments mean."""
    actions = [each for each in parser._actions if not isinstance(each, argparse._HelpAction)]
    words = ["[OPTION ...]" if any(each.option_strings for each in actions) else ""]
    words += [_values(each) for each in actions if not each.option_strings]
    call = " ".join(filter(None, [f"python -m grb_check {name}", *words]))
    rows = [(f"`{_signature(each)}`", in_cell(help_text(each.help or ""))) for each in actions]
    about = help_text((parser.description or "").strip())
    return f"## {name}\n\n{about}\n\n```text\n{call}\n```\n\n{table(('argument', ''), rows)}"


def _signature(action: argparse.Action) -> str:
    if not action.option_strings:
        return _values(action)
    return " ".join(filter(None, [action.option_strings[0], _values(action)])).replace("|", "\\|")


def _values(action: argparse.Action) -> str:
    if action.nargs == 0:
        return ""
    name = "|".join(action.choices) if action.choices else str(action.metavar)
    return f"{name} [{name} ...]" if action.nargs == "+" else name
