"""Sphinx extension: tables of options, attacks, models, datasets and suites, from the code's own.

The directive `from-code` takes the name of a function of this module that returns Markdown; options
are written by `option-group`, and an option that stands in no group, or in two, is a warning.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from grb_check import __main__ as command_line
from grb_check.attacks.names import PRESETS
from grb_check.attacks.registry import BUILT_IN, load_attack
from grb_check.cases.suites import SUITES
from grb_check.conformance.properties import PROPERTIES
from grb_check.datasets.catalogue import GRAPH_SETS, known_names
from grb_check.datasets.published import SIZES, sizes
from grb_check.models.zoo import CONTRASTIVE, SIMPLE, ZOO, ZooModel
from grb_check.settings import pytest_options
from grb_check.settings.options import OPTIONS

LOGGER = logging.getLogger(__name__)
PAGE: Final = re.compile(r"\bdocs/((?:[\w-]+/)?)([\w-]+)\.md")
CODE: Final = re.compile(
    r"(--[a-z][a-z-]+(?:=[^\s,;)]+)?|python -m grb_check \w+|\$\w+"
    r"|\b[a-z]+_[a-z_/.]+|(?<!\w)'[^']+'(?!\w))"
)


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directives."""
    app.add_directive("from-code", FromCode)
    app.add_directive("option-group", OptionGroup)
    app.connect("env-purge-doc", forget)
    app.connect("env-updated", check_groups)
    return {"parallel_read_safe": False}


class FromCode(SphinxDirective):
    """Markdown that a function of this module returns, see `GENERATED`."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the parsed Markdown."""
        text = GENERATED[self.arguments[0]]()
        return self.parse_text_to_nodes(text, allow_section_headings=True)


# --- options ---


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


INI_TYPES: Final = {
    "linelist": "list of strings",
    "int": "integer",
    "float": "number",
    "bool": "true or false",
    "string": "string",
}


def described() -> dict[str, Described]:
    """Return every option and ini value by its name, as registered with pytest."""
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


class OptionGroup(SphinxDirective):
    """The options of a section of `settings.options`, and those that its content names."""

    has_content = True
    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return a definition of each option."""
        known, texts = described(), []
        section = self.arguments[0] if self.arguments else ""
        names = [each.flag or each.ini for each in OPTIONS if each.section == section]
        for name in (*names, *filter(None, map(str.strip, self.content))):
            if name not in known:
                raise self.error(f"grb_check has no option {name}")
            seen = placed(self.env)
            if name in seen:
                LOGGER.warning("option %s stands on two places", name, location=self.get_location())
            seen[name] = self.env.docname
            texts.append(option_text(known[name]))
        return self.parse_text_to_nodes("\n".join(texts))


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
    text = PAGE.sub(r"[\2](../\1\2.md)", markdown(sentence))
    return f"```{{option}} {signature}\n{text}{full_stop}\n\n{ini}\n```\n"


def markdown(text: str) -> str:
    """Return a help text with options, commands and names as code, and no other markup."""
    parts = CODE.split(text)  # what is between is code
    parts[::2] = [re.sub(r"([*_\[\]<${])", r"\\\1", part) for part in parts[::2]]
    parts[1::2] = [f"`{part}`" for part in parts[1::2]]
    return "".join(parts)


def placed(env: BuildEnvironment) -> dict[str, str]:
    """Return the page of each option that stands in a group."""
    if not hasattr(env, "grb_options"):
        env.grb_options = {}
    return env.grb_options


def forget(app: Sphinx, env: BuildEnvironment, docname: str) -> None:
    """Forget the options of a page that is read again."""
    env.grb_options = {name: page for name, page in placed(env).items() if page != docname}


def check_groups(app: Sphinx, env: BuildEnvironment) -> None:
    """Warn of options that stand in no group."""
    for name in sorted(described().keys() - placed(env).keys()):
        LOGGER.warning("option %s stands in no option-group of the documentation", name)


# --- tables ---


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines) + "\n"


def codes(names: Iterable[object]) -> str:
    """Return names as code, with commas."""
    return ", ".join(f"`{name}`" for name in names)


def suites() -> str:
    """Return what each suite runs, and how its models are trained."""
    rows = [
        (
            f"`{name}`",
            codes(suite.datasets),
            codes(suite.difficulties),
            codes("/".join(pair) for pair in suite.attacks),
            suite.repeats,
            f"{suite.split or '-'}, {suite.training}, {suite.features or '-'}",
        )
        for name, suite in SUITES.items()
    ]
    head = ("suite", "datasets", "difficulties", "attacks", "repeats", "split, training, features")
    return table(head, rows)


def properties() -> str:
    """Return one row for each property of the suite `conformance`."""
    kinds = {(True, True): "nodes, graphs", (True, False): "nodes", (False, True): "graphs"}
    rows = [
        (f"[`{each.name}`]({each.name}.md)", each.says, kinds[each.of_nodes, each.of_graphs])
        for each in PROPERTIES.values()
    ]
    return table(("property", "", "models that classify"), rows)


def attack_overview() -> str:
    """Return one row for each attack."""
    rows = []
    for scenario, name in BUILT_IN:
        attack = load_attack(scenario, name)
        tags = codes(suite for suite, each in SUITES.items() if (scenario, name) in each.attacks)
        link = f"[`{scenario}/{name}`](#{scenario}-{name})"
        rows.append((link, attack.knowledge, first_line(type(attack)), tags))
    return table(("attack", "knowledge", "", "suites"), rows)


def attacks() -> str:
    """Return a section for each attack: its class, with settings and sources."""
    parts = []
    for (scenario, name), row in BUILT_IN.items():
        path = row.path.replace(":", ".")
        parts.append(
            f"({scenario}-{name})=\n## `{scenario}/{name}`\n\n"
            f"```{{eval-rst}}\n.. autoclass:: {path}\n   :no-index-entry:\n```\n"
        )
    return "\n".join(parts)


def modifiers() -> str:
    """Return the modifiers that stand for a setting."""
    rows = [(f"`+{name}`", f"`{key}={value}`") for name, (key, value) in PRESETS.items()]
    return table(("modifier", "setting"), rows)


def models() -> str:
    """Return the reference models and defences."""
    return model_table((*ZOO.values(), *SIMPLE))


def encoders() -> str:
    """Return the models of the contrastive protocol."""
    return model_table(CONTRASTIVE)


def model_table(rows: Iterable[ZooModel]) -> str:
    """Return one row for each factory."""
    lines = [(f"`{each.target}`", each.title, each.about) for each in rows]
    return table(("factory", "in papers' tables", ""), lines)


def datasets() -> str:
    """Return the known datasets with their published sizes."""
    rows = []
    for name in (*known_names(), *GRAPH_SETS):
        size = sizes()[name]
        rows.append((f"`{name}`", *(f"{size[figure]:,}" for figure in SIZES)))
    return table(("name", *SIZES), rows)


def commands() -> str:
    """Return the help of each command."""
    parser = command_line._parser()
    (chosen,) = (each for each in parser._actions if isinstance(each, argparse._SubParsersAction))
    parts = []
    for name, sub in chosen.choices.items():
        sub.formatter_class = lambda prog: argparse.RawDescriptionHelpFormatter(prog, width=88)
        parts.append(f"(command-{name})=\n## {name}\n\n```text\n{sub.format_help()}```\n")
    return "\n".join(parts)


def first_line(kind: type) -> str:
    """Return the first line of a docstring."""
    return (kind.__doc__ or "").strip().partition("\n")[0]


GENERATED: Final[dict[str, Callable[[], str]]] = {
    each.__name__: each
    for each in (
        suites,
        properties,
        attack_overview,
        attacks,
        modifiers,
        models,
        encoders,
        datasets,
        commands,
    )
}
