"""Imports follow the picture in docs/architecture.md."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from import_rules import Broken, Tree, circles, late, unlisted, upward

ROOT = Path(__file__).parents[1]
TREE = Tree(ROOT / "grb_check")
TOP = {"__init__", "__main__", "builtin_tests", "errors", "hookspecs", "plugin", "strategies"}


def _order() -> list[str]:
    """The first words of the lines in the first block of "The packages" in docs/architecture.md."""
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    text = text.partition("## The packages\n")[2].partition("\n## ")[0]
    (block,) = re.findall(r"^```text\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return re.findall(r"^\w+", block, re.MULTILINE)


ORDER = _order()


def _named(package: str, words: str, others: list[str]) -> set[str]:
    """Packages that a sentence of a package's docstring names: `x`, or "every ... package"."""
    text = " ".join(TREE.docstring(f"grb_check.{package}").split())
    (sentence,) = re.findall(rf"{words} ([^.;]*)", text)
    listed, *rest = re.split(r"\b(?:but|never)\b", sentence)
    given = set(others) if "every" in listed else set(re.findall(r"`(\w+)`", listed))
    return given - set(re.findall(r"`(\w+)`", "".join(rest)))


def _allowed() -> dict[str, set[str]]:
    """Packages that each may import: those that it names and that name it."""
    users = {
        each: _named(each, "May be imported by", ORDER[place + 1 :])
        for place, each in enumerate(ORDER)
        if each in TREE.packages
    }
    return {
        each: {
            other
            for other in _named(each, "May import", ORDER[:place])
            if each in users.get(other, {each})
        }
        for place, each in enumerate(ORDER)
        if each in TREE.packages
    }


def test_the_picture_lists_every_package_once() -> None:
    """And there are at most 20 of them, and seven modules at the top."""
    assert sorted(ORDER) == sorted(TREE.packages | {"errors", "strategies"})
    assert len(TREE.packages) <= 20
    assert {path.stem for path in (ROOT / "grb_check").glob("*.py")} == TOP
    assert len(TOP) <= 7


def test_every_directory_of_modules_is_a_package_with_a_docstring() -> None:
    """Subpackages too."""
    for directory in {path.parent for path in (ROOT / "grb_check").rglob("*.py")}:
        assert TREE.docstring(".".join(directory.relative_to(ROOT).parts)), directory


RULES: dict[str, Callable[[Tree], Broken]] = {
    "upward": lambda tree: upward(tree, ORDER),
    "unlisted": lambda tree: unlisted(tree, _allowed()),
    "circles": circles,
    "late": lambda tree: late(tree, {"plugin"}),
}


@pytest.mark.parametrize("rule", RULES)
def test_imports_keep_the_rules(rule: str) -> None:
    """Each rule is described where it is defined, in `import_rules`."""
    assert [*RULES[rule](TREE)] == []


def test_an_unused_plugin_loads_the_table_of_options_and_little_else() -> None:
    """Every run of pytest where the package is installed pays for these modules."""
    loaded = {name.partition(".")[2] for name in TREE.reached("grb_check.plugin")}
    assert loaded == {
        "",
        "errors",
        "hookspecs",
        "plugin",
        "session",
        "execution",
        "execution.gpus",
        "session.worker_gpus",
        "settings",
        "settings.option_table",
        "settings.options",
    }
    assert TREE.loaded("grb_check.plugin") == set()


def _tree(root: Path, modules: dict[str, str]) -> Tree:
    for name, source in modules.items():
        path = root / "house" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    return Tree(root / "house")


BASE = {"__init__": "", "low/__init__": "", "low/a": "", "high/__init__": "", "high/b": ""}
CHECKS: dict[str, Callable[[Tree], Broken]] = {
    "upward": lambda tree: upward(tree, ["low", "high"]),
    "unlisted": lambda tree: unlisted(tree, {"low": set(), "high": set()}),
    "circles": circles,
    "late": lambda tree: late(tree, set()),
}


@pytest.mark.parametrize(
    ("rule", "modules", "expected"),
    [
        ("upward", {"high/b": "from house.low import a\nimport torch"}, []),
        ("upward", {"low/a": "from house import __version__"}, []),
        ("upward", {"low/a": "import house.high.b"}, ["low.a"]),
        ("upward", {"low/a": "def f():\n    from house.high.b import x"}, ["low.a"]),
        ("upward", {"low/a": "if TYPE_CHECKING:\n    from house.high import b"}, ["low.a"]),
        ("upward", {"low/a": "from house import plugin", "plugin": ""}, ["low.a"]),
        ("unlisted", {"high/b": "from house.low.a import x"}, ["high.b"]),
        ("circles", {"high/b": "from house.low import a"}, []),
        (
            "circles",
            {
                "low/a": "from house.low import c",
                "low/c": "def f():\n    from house.low.d import x",
                "low/d": "if TYPE_CHECKING:\n    import house.low.a",
            },
            ["low.a", "low.c", "low.d"],
        ),
        ("late", {"low/a": "def f():\n    # loads torch\n    import torch"}, []),
        ("late", {"low/a": "def f():\n    import torch  # slow"}, ["low.a"]),
        ("late", {"low/a": '"""Loads torch late."""\ndef f():\n    import torch'}, []),
        ("late", {"low/a": "def f():\n    import json  # torch"}, ["low.a"]),
        ("late", {"low/a": "import torch\ndef f():\n    import torch.nn  # torch"}, ["low.a"]),
        (
            "late",
            {
                "high/b": "def f():\n    # numpy\n    from house.low.a import x",
                "low/a": "import numpy",
            },
            [],
        ),
        (
            "late",
            {
                "high/b": "def f():\n    # numpy\n    import house.low.a",
                "low/__init__": "import numpy",
            },
            [],
        ),
    ],
)
def test_each_rule_sees_what_breaks_it(
    tmp_path: Path, rule: str, modules: dict[str, str], expected: list[str]
) -> None:
    """Small trees, each of two packages."""
    assert [name for name, _ in CHECKS[rule](_tree(tmp_path, BASE | modules))] == expected
