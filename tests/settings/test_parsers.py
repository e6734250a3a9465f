"""Whatever an option is set to, a run gets valid settings or an error that says what to do."""

from __future__ import annotations

import datetime
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from settings_factory import settings

from grb_check.attacks import user_attacks
from grb_check.errors import UsageError
from grb_check.settings.options import OPTIONS
from grb_check.settings.selecting import cases_of

# Valid for one option or another; none is an absolute path, since directories of outputs are made.
VALID = (
    "smoke",
    "paper",
    "synthetic-cora",
    "synthetic-molecules",
    "mine=planetoid-cora",
    "pyg:Planetoid/Cora",
    "easy",
    "full",
    "injection",
    "fgsm+iterations=5",
    "modification/worst+budget=10%",
    "0.2",
    "3",
    "1/2",
    "*/easy/*=0.3",
    "a@synthetic-cora/full=2",
    "published,gat",
    "label=pkg.module:attr",
    "width=3,sizes=[1, 2]",
    "given",
    "transductive",
    "rows",
    "off",
    "cuda:0",
    "sub/x.json",
    "reference",
    "default",
    "x=https://example.org/{name}.zip",
    "",
)
PIECES = (*"\0\x1b\n\u2028\ud800é😀² ,=:+*[]{}%@'\"-", "9" * 400, "1e999", "nan", *VALID)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Valid values with up to three changes, none of which leads out of the working directory."""
    text = draw(st.sampled_from(VALID))
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(text)))
        piece = draw(st.sampled_from(PIECES) | st.characters())
        text = text[:start] + piece + text[start + draw(st.integers(0, 3)) :]
    return text.lstrip("/").replace("~", "").replace("$", "").replace("..", "")


SCALARS = (
    *(None, True, False, 0, -1, 10**30, 10**400, 1.5, math.nan, math.inf),
    *(b"x", {}, {"a": "b"}, [["a"]], [1], [None], ("a",), datetime.date(2020, 1, 1)),
)
VALUES = texts() | st.lists(texts(), max_size=3) | st.sampled_from(SCALARS)


def has_three_parts(message: str) -> bool:
    """Whether a message is one readable line that says what is allowed or what to do."""
    advice = ("; ", "llowed", "such as", ": give ", "e.g. ")
    return message.isprintable() and any(hint in message for hint in advice)


def refusal(rootdir: Path, ini: dict[str, Any], **given_there: Any) -> str | None:
    """Return the message with which a run with these values is refused; None if it is not."""
    try:
        assert cases_of(settings(rootdir, ini=ini, **given_there))
    except UsageError as error:
        return str(error)
    return None


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@hypothesis_settings(
    max_examples=500, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True
)
@given(st.sampled_from(OPTIONS), VALUES, st.booleans(), st.booleans())
def test_a_mutated_value_is_valid_or_refused_in_three_parts(
    tmp_path: Path, option: Any, value: Any, on_command_line: bool, with_model: bool
) -> None:
    """In the ini file, or on the command line if argparse could make the value."""
    name = option.dest.removeprefix("grb_")
    model = {"model": "pkg:build"} if with_model and name != "model" else {}
    given_there = {name: value} if on_command_line and isinstance(value, (str, list)) else {}
    in_ini = model | ({} if given_there else {name: value})
    message = refusal(tmp_path, in_ini, **given_there)
    assert message is None or has_three_parts(message), message


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.dest)
def test_every_option_refuses_what_it_cannot_take_in_three_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: Any
) -> None:
    """Each value of this file, as it is, in the ini file."""
    offered = user_attacks.entry_point_names()  # slow to ask for
    monkeypatch.setattr(user_attacks, "entry_point_names", lambda: offered)
    name = option.dest.removeprefix("grb_")
    for value in (*PIECES, *SCALARS, "1", "recall@x", "recall@0.1+positive=x"):
        message = refusal(tmp_path, {"model": "pkg:build", name: value})
        assert message is None or has_three_parts(message), message


@pytest.mark.parametrize(
    "lines",
    [
        'grb_model = "a b"',
        "grb_model = 3",
        'grb_repeats = "many"',
        "grb_repeats = [1, [2]]",
        'grb_thresholds = ["\\u0000"]',
        "grb_download = 7",
        "grb_max_drop = {a = 1}",
    ],
)
def test_pytest_ends_with_a_usage_error(pytester: pytest.Pytester, lines: str) -> None:
    """Not with a traceback."""
    pytester.makefile(".toml", pyproject=f"[tool.pytest]\n{lines}\n")
    model = () if "model" in lines else ("--grb-model=missing:build",)
    run = pytester.runpytest("--grb-only", *model)
    assert run.ret == pytest.ExitCode.USAGE_ERROR
    run.stderr.fnmatch_lines([f"ERROR: *{lines.split('_')[1].split()[0].rstrip('s')}*"])
    run.stderr.no_fnmatch_line("*Traceback*")
    run.stdout.no_fnmatch_line("*Traceback*")
