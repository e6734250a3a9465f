"""The modules of the package import each other in the order that its docstring lists."""

from __future__ import annotations

from pathlib import Path

from import_rules import Tree

TREE = Tree(Path(__file__).parents[2] / "grb_check")
PACKAGE = "grb_check.attacks"


def _layers() -> list[list[str]]:
    """The indented lines of the list in the docstring, the users first."""
    lines = TREE.docstring(PACKAGE).splitlines()
    return [line.strip().split(", ") for line in lines if line.startswith("    ")]


def test_every_module_imports_only_lower_layers() -> None:
    """Modules and subpackages of one line may import each other."""
    place = {name: number for number, line in enumerate(_layers()) for name in line}
    modules = [name for name in TREE.sources if name.startswith(f"{PACKAGE}.")]
    assert {name.split(".")[2] for name in modules} == set(place)
    upward = [
        f"{name} imports {other}"
        for name in modules
        for _, other in TREE.inside(name)
        if other.startswith(f"{PACKAGE}.")
        and place[other.split(".")[2]] < place[name.split(".")[2]]
    ]
    assert upward == []
