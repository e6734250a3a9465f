"""From text to a called factory."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from grb_check.errors import ModelError, UsageError
from grb_check.user_code.factories import call_factory, load_factory, parse_model_args

OFFERED = {
    "data": "the data",
    "num_features": 8,
    "num_classes": 3,
    "dataset": "communities",
    "seed": 7,
    "device": "cpu",
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        (
            "hidden_channels=64,num_layers=2,act=relu",
            {"hidden_channels": 64, "num_layers": 2, "act": "relu"},
        ),
        ("sizes=[64, 32],lr=1e-2", {"sizes": [64, 32], "lr": 0.01}),
        ("norm=None, jk='a,b',flag=True,", {"norm": None, "jk": "a,b", "flag": True}),
        ("kw={'a': (1, 2), 'b': ']'}", {"kw": {"a": (1, 2), "b": "]"}}),
        ("path=a=b", {"path": "a=b"}),
    ],
)
def test_arguments_are_literals_or_text(text: str, expected: dict[str, object]) -> None:
    """Values are literals where they can be; commas in brackets and quotes do not separate."""
    assert parse_model_args(text) == expected


@given(
    values=st.dictionaries(
        st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text("ab,()[]{}= ", max_size=5),
            lambda inner: st.lists(inner, max_size=3) | st.tuples(inner),
            max_leaves=5,
        ),
        max_size=4,
    )
)
def test_written_arguments_come_back(values: dict[str, object]) -> None:
    """Any literals written as name=repr are read back equal."""
    text = ",".join(f"{name}={value!r}" for name, value in values.items())
    assert parse_model_args(text) == values


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hidden", "'hidden' must have the form name=value"),
        ("a=", "'a=' must have the form name=value"),
        ("2a=1", "'2a=1' must have the form name=value"),
        ("a=1,a=2", "a is given twice"),
        ("a=[1", "']' is missing"),
        ("a=1)", "')' closes nothing"),
        ("a='x", '"\'" is missing'),
    ],
)
def test_malformed_arguments_are_quoted(text: str, said: str) -> None:
    """The message shows the whole text and the part at fault."""
    with pytest.raises(UsageError) as caught:
        parse_model_args(text)
    assert repr(text) in str(caught.value)
    assert said in str(caught.value)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    return tmp_path


def _write(path: Path, code: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(dedent(code))


def test_dotted_attributes_are_followed(folder: Path) -> None:
    """`module:Class.method` names a factory too."""
    _write(folder / "zoo_a.py", "class Zoo:\n    @staticmethod\n    def build(): return 'built'\n")
    assert call_factory(load_factory("zoo_a:Zoo.build"), offered={}, given={}) == "built"


@pytest.mark.parametrize(
    "line", ["import not_there_at_all", "raise OSError('x')", "exit(3)", "a b"]
)
def test_a_module_that_fails_to_import_shows_its_own_line(folder: Path, line: str) -> None:
    """A module that exists but does not import is not reported as missing."""
    _write(folder / "zoo_broken.py", f"x = 1\n{line}\n")
    with pytest.raises(UsageError) as caught:
        load_factory("zoo_broken:build")
    text = str(caught.value)
    assert "importing zoo_broken failed" in text
    assert text.count("zoo_broken.py") == 1
    assert "line 2" in text
    assert "importlib" not in text


def test_a_module_instance_is_not_taken_for_a_factory(folder: Path) -> None:
    """Modules can be called, but not to make models."""
    _write(folder / "zoo_e.py", "import torch\nmodel = torch.nn.Linear(2, 2)\n")
    with pytest.raises(UsageError, match="is a module, not a factory"):
        load_factory("zoo_e:model")


def test_only_declared_arguments_are_passed() -> None:
    """A factory receives the arguments that it names, under the names that it uses."""

    def build(in_channels: int, out_features: int, *, seed: int, depth: int = 2) -> object:
        return in_channels, out_features, seed, depth

    assert call_factory(build, offered=OFFERED, given={}) == (8, 3, 7, 2)


def test_a_function_with_kwargs_gets_everything_once() -> None:
    """Names passed under an alias do not come again under their own."""

    def build(in_channels: int, **rest: object) -> object:
        return in_channels, rest

    expected = {key: value for key, value in OFFERED.items() if key != "num_features"}
    assert call_factory(build, offered=OFFERED, given={}) == (8, expected)
    given = {"out_channels": 5}
    without = {k: v for k, v in expected.items() if k != "num_classes"} | given
    assert call_factory(build, offered=OFFERED, given=given) == (8, without)


def test_missing_arguments_are_listed() -> None:
    """The message lists what is missing, what is offered, and the option that gives it."""

    def build(num_features: int, hidden: int, depth: int) -> None: ...

    with pytest.raises(UsageError) as caught:
        call_factory(build, offered=OFFERED, given={})
    text = str(caught.value)
    assert "needs hidden, depth" in text
    assert "num_features / in_channels / in_features" in text
    assert "--grb-model-args 'hidden=...,depth=...'" in text


def test_positional_only_parameters_are_explained() -> None:
    """Arguments go by name."""

    def build(num_features: int, /) -> None: ...

    with pytest.raises(UsageError, match="num_features by position only"):
        call_factory(build, offered=OFFERED, given={})


def test_a_factory_that_raises_shows_its_own_frames_once() -> None:
    """The message holds the user's lines and nobody else's."""

    def build() -> None:
        raise ZeroDivisionError("on purpose")

    with pytest.raises(ModelError) as caught:
        call_factory(build, offered=OFFERED, given={})
    text = str(caught.value)
    assert text.count("ZeroDivisionError: on purpose") == 1
    assert "test_factories.py" in text
    assert "grb_check/factories.py" not in text


@pytest.mark.parametrize("name", ["GCN", "GAT", "GIN", "GraphSAGE"])
def test_pyg_models_are_factories(name: str) -> None:
    """PyG's own classes work with their two required arguments given."""
    factory = load_factory(f"torch_geometric.nn.models:{name}")
    given = parse_model_args("hidden_channels=64,num_layers=2")
    module = call_factory(factory, offered=OFFERED, given=given)
    assert isinstance(module, torch.nn.Module)
    assert (module.in_channels, module.out_channels) == (8, 3)
