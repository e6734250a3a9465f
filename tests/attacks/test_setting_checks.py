"""Checks on settings name the setting, its value and what is allowed."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from grb_check.attacks.names import has_setting
from grb_check.attacks.registry import attack_names, load_attack
from grb_check.attacks.setting_checks import check_at_least, check_gradient_settings, check_positive
from grb_check.errors import UsageError

NAN = float("nan")


@pytest.mark.parametrize("value", [0, -1, NAN])
def test_limits_and_nan_are_refused(value: float) -> None:
    """NaN is not above any limit."""
    attack = SimpleNamespace(steps=value, iterations=5)
    with pytest.raises(UsageError, match=f"steps is {value}; it must be 1 or more"):
        check_at_least(1, attack, "iterations", "steps")
    with pytest.raises(UsageError, match=f"steps is {value}; it must be above 0"):
        check_positive(attack, "iterations", "steps")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"objective": "margn"}, "did you mean 'margin'"),
        ({"knowledge": "grey-box"}, "knowledge"),
        ({"surrogates": ()}, "surrogates is .*; it must be a tuple"),
        ({"knowledge": "white-box", "surrogates": ("gin",)}, "leave one of the two out"),
    ],
)
def test_settings_of_gradient_attacks_are_checked(changed: dict[str, object], message: str) -> None:
    """Each of them, and surrogates together with white-box."""
    valid = {"objective": "margin", "knowledge": "black-box", "surrogates": ("gcn",)}
    check_gradient_settings(SimpleNamespace(**valid))
    with pytest.raises(UsageError, match=message):
        check_gradient_settings(SimpleNamespace(**(valid | changed)))


@pytest.mark.parametrize("pair", attack_names(), ids="/".join)
def test_every_attack_with_an_objective_checks_it(pair: tuple[str, str]) -> None:
    """An attack on a model cannot be constructed with an unknown objective or knowledge."""
    attack = load_attack(*pair)
    if has_setting(attack, "knowledge") and hasattr(attack, "surrogates"):
        with pytest.raises(UsageError, match="knowledge"):
            type(attack)(knowledge="none of ours")  # type: ignore[call-arg]
    if not hasattr(attack, "objective"):
        return
    with pytest.raises(UsageError, match="objective"):
        type(attack)(objective="none of ours")  # type: ignore[call-arg]
