"""Likely factories, found without importing anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from grb_check.user_code.likely_factories import likely_factories

MODEL = """
raise RuntimeError("never imported")
import torch

class Net(torch.nn.Module):
    def __init__(self, {arguments}): ...
    def forward(self, x, edge_index): ...
"""


def write(folder: Path, **modules: str) -> None:
    """Modules by their names, with __ for a directory."""
    for name, text in modules.items():
        path = folder.joinpath(*name.split("__")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ("num_features, num_classes", True),
        ("in_channels, out_channels, hidden=16, *, dropout=0.5", True),
        ("num_features, num_classes, hidden", False),
        ("num_features, *, hidden", False),
        ("hidden=16", False),
    ],
)
def test_a_class_must_take_the_width_and_nothing_that_is_not_given(
    tmp_path: Path, arguments: str, found: bool
) -> None:
    """As the factory is called without --grb-model-args."""
    write(tmp_path, models=MODEL.format(arguments=arguments))
    assert likely_factories(tmp_path) == (["models:Net"] if found else [])


@pytest.mark.parametrize("name", ["build", "build_gcn", "make_model", "create_model", "get_model"])
def test_a_function_goes_before_classes(tmp_path: Path, name: str) -> None:
    """It makes them, in most cases."""
    model = MODEL.format(arguments="num_features, num_classes")
    write(tmp_path, models=f"{model}\ndef {name}(num_features, num_classes): ...\n")
    assert likely_factories(tmp_path) == [f"models:{name}"]


def test_a_function_that_needs_more_is_none(tmp_path: Path) -> None:
    """Nor is one of another name, or a module without such a class."""
    write(tmp_path, a="def build(config): ...", b="def builder(): ...", c="class Net(Module): ...")
    assert likely_factories(tmp_path) == []


def test_names_are_those_to_import(tmp_path: Path) -> None:
    """Of packages, of the modules of `src`, and of a package itself."""
    build = "def build(): ..."
    write(tmp_path, pkg__sub__a=build, src__own__b=build, own__src__c=build, top=build)
    (tmp_path / "pkg" / "__init__.py").write_text(build)
    assert sorted(likely_factories(tmp_path)) == [
        "own.b:build",
        "own.src.c:build",
        "pkg.sub.a:build",
        "pkg:build",
        "top:build",
    ]


def test_tests_environments_and_what_cannot_be_read_are_left_out(tmp_path: Path) -> None:
    """So are hidden directories, links in a circle and files that are not Python."""
    build = "def build(): ..."
    for name in ("tests", ".venv", "venv", "build", "docs", "pkg-1", "node_modules"):
        write(tmp_path / name, a=build)
    write(tmp_path, test_a=build, setup=build, conftest=build, broken="def build(:")
    (tmp_path / "binary.py").write_bytes(b"\x00\xff")
    (tmp_path / "circle").symlink_to(tmp_path)
    assert likely_factories(tmp_path) == []
