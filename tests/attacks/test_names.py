"""Names with modifiers: settings, canonical form, and errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grb_check.attacks.names import (
    base_name,
    has_setting,
    read_budget,
    read_modifiers,
    split_budget,
    split_names,
    with_budget,
    with_settings,
    write_modifiers,
)
from grb_check.attacks.registry import canonical_name, load_attack
from grb_check.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Probe:
    """One setting of each kind."""

    iterations: int = 10
    step_size: float = 0.01
    patience: int | None = 5
    word: str = "plain"
    maybe: str | None = None
    flag: bool = False
    knowledge: Literal["black-box", "white-box"] = "black-box"
    harmony: float = 0.0
    surrogates: tuple[str, ...] = ("gcn",)

    name: ClassVar[str] = "probe"

    def __post_init__(self) -> None:
        if self.iterations < 0:
            raise ValueError(f"iterations is {self.iterations}, allowed is 0 or more")


WORDS = st.from_regex(r"[A-Za-z0-9._-]{1,8}", fullmatch=True)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "iterations": st.integers(min_value=0),
        "step_size": FINITE,
        "patience": st.none() | st.integers(),
        "word": WORDS,
        "maybe": st.none() | WORDS.filter(lambda word: word.lower() != "none"),
        "flag": st.booleans(),
        "knowledge": st.sampled_from(["black-box", "white-box"]),
        "harmony": st.just(1.0) | FINITE,
        "surrogates": st.lists(WORDS, min_size=1, max_size=3).map(tuple)
        | st.just(("gcn", "gcn_ln", "gin")),
    },
)


def read(name: str) -> dict[str, object]:
    return read_modifiers(Probe(), name, "probe")


def canonical(name: str) -> str:
    return f"{base_name(name)}{write_modifiers(Probe(), read(name))}"


@given(SETTINGS)
def test_what_is_written_is_read_back(settings: dict[str, object]) -> None:
    """The name of settings gives the attack with these settings, and is stable."""
    name = f"probe{write_modifiers(Probe(), settings)}"
    assert with_settings(Probe(), read(name), "probe") == Probe(**settings)  # type: ignore[arg-type]
    assert canonical(name) == name


@given(SETTINGS)
def test_names_are_safe_in_ids_and_shells(settings: dict[str, object]) -> None:
    """They have no blank, quote, bracket, slash, colon or wildcard, and lists of them split."""
    name = f"probe{write_modifiers(Probe(), settings)}"
    assert not set(name) & set(" \t'\"`$&|;<>()[]{}*?!#~\\/:@%^")
    assert split_names(f"rnd,{name},rnd", ["rnd"]) == ["rnd", name, "rnd"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("probe", "probe"),
        ("probe+white-box+hao", "probe+white-box+hao"),
        ("probe+hao+white-box", "probe+white-box+hao"),
        ("probe+harmony=1+knowledge=white-box", "probe+white-box+hao"),
        ("probe+surrogates=gcn,gcn_ln,gin", "probe+ensemble"),
        ("probe+surrogates=gcn+harmony=0+knowledge=black-box", "probe"),
        ("probe+patience=None+step_size=1e-3", "probe+step_size=0.001+patience=none"),
        ("probe+black-box", "probe"),
        ("probe+flag=TRUE", "probe+flag=true"),
        ("probe+iterations=010", "probe+iterations=10"),  # a dataset may have another default
    ],
)
def test_canonical_names(given: str, expected: str) -> None:
    """Presets stay presets, modifiers follow the order of the fields, defaults are dropped."""
    assert canonical(given) == expected


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("probe+wihte-box", "unknown modifier of attack probe 'wihte-box' .did you mean 'white-bo"),
        (
            "probe+iteration=3",
            "did you mean 'iterations=VALUE'.*; allowed: white-box, black-box, hao",
        ),
        ("probe+iterations", "unknown modifier .*'iterations' .did you mean 'iterations=VALUE'"),
        ("probe+", "unknown modifier of attack probe ''"),
        ("probe+name=x", "unknown modifier of attack probe 'name=x'"),
        ("probe+iterations=", "iterations=: '' is not a whole number"),
        ("probe+iterations=1.5", "'1.5' is not a whole number"),
        ("probe+step_size=nan", "'nan' is not a number"),
        ("probe+step_size=1e+16", "step_size=1e: '1e' is not a number"),
        ("probe+flag=yes", "'yes' is not true or false"),
        ("probe+patience=x", "'x' is not none or a whole number"),
        ("probe+knowledge=grey-box", "'grey-box' is not 'black-box' or 'white-box'"),
        ("probe+word=a,b", "'a,b' is not a word .*no attack has the name after the comma"),
        ("probe+word=a/b", "'a/b' is not a word"),
        ("probe+surrogates=gcn,", "'gcn,' is not a list with commas, each a word"),
        ("probe+hao+harmony=0.5", "harmony is given twice in 'probe.hao.harmony=0.5'"),
        ("probe+hao+hao", "harmony is given twice"),
    ],
)
def test_a_wrong_modifier_is_named(name: str, message: str) -> None:
    """The message says what is allowed."""
    with pytest.raises(UsageError, match=message):
        read(name)


def test_a_value_that_the_attack_refuses_is_a_usage_error() -> None:
    """Whatever exception the attack raised."""
    with pytest.raises(
        UsageError, match=r"attack probe: (?s:.*)ValueError: iterations is -1, allowed"
    ):
        with_settings(Probe(), read("probe+iterations=-1"), "probe")


def test_an_attack_without_that_setting_refuses_its_modifier() -> None:
    """So does one without settings."""

    @dataclass(frozen=True)
    class Bare: ...

    with pytest.raises(UsageError, match="attack bare takes no modifiers; got 'hao'"):
        read_modifiers(Bare(), "bare+hao", "bare")
    with pytest.raises(
        UsageError, match="injection/rnd 'hao'; allowed: white-box, black-box, know"
    ):
        canonical_name("injection", "rnd+hao")


def test_a_budget_is_no_setting_of_the_attack_and_comes_last() -> None:
    """Every attack takes it, of any class; a field of that name is not a setting."""

    @dataclass(frozen=True)
    class Own:
        budget: int = 3

    assert not has_setting(Own(), "budget")
    assert canonical_name("injection", "rnd+budget=.05") == "rnd+budget=0.05"
    assert canonical_name("injection", "rnd+budget=5%+white-box") == "rnd+white-box+budget=0.05"
    assert load_attack("injection", "rnd+budget=0.5") == load_attack("injection", "rnd")


@given(st.floats(min_value=0, max_value=1, exclude_min=True), st.sampled_from(["", "+hao"]))
def test_a_budget_that_is_written_is_read_back(budget: float, modifiers: str) -> None:
    """To the last digit."""
    name = with_budget(f"pgd{modifiers}", budget)
    assert split_budget(name) == (f"pgd{modifiers}", budget)
    assert canonical_name("injection", name) == name
    assert split_names(f"{name},rnd", ["rnd"]) == [name, "rnd"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "-0.1",
        "1.01",
        "101%",
        "5%%",
        "nan",
        "inf",
        "1/2",
        "x",
        "1e-400",
        "1e99999999",
        "1e-99999999",
    ],
)
def test_a_budget_must_be_a_share(text: str) -> None:
    """A share above 1 or of 0 is rejected."""
    with pytest.raises(UsageError, match=r"--grb-budget: .* is not a budget; give a share above 0"):
        read_budget(text, "--grb-budget")


def test_a_budget_given_twice_is_refused() -> None:
    """The message quotes the name."""
    with pytest.raises(UsageError, match=r"attack rnd: budget is given twice in 'rnd\+budget=0.1"):
        canonical_name("injection", "rnd+budget=0.1+budget=0.1")


def test_the_worst_takes_no_modifier_but_a_budget() -> None:
    """It has no settings; the message says which attacks to give them to."""
    assert canonical_name("modification", "worst+budget=1") == "worst+budget=1.0"
    with pytest.raises(UsageError, match=r"/worst only takes the modifiers .* got 'hao'"):
        canonical_name("modification", "worst+hao+budget=0.1")


def test_an_injection_takes_no_local_budget() -> None:
    """Existing nodes keep their edges in it; neither does `worst`."""
    for name in ("rnd", "worst"):
        with pytest.raises(UsageError, match=f"attack injection/{name} takes no local=SHARE,"):
            canonical_name("injection", f"{name}+local=0.5")
