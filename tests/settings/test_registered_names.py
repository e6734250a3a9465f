"""Names that plugins register, as options read them."""

from __future__ import annotations

import pytest

from grb_check.attacks.protocol import Attack
from grb_check.cases.attack_registry import AttackRegistry
from grb_check.cases.suites import SUITES
from grb_check.errors import UsageError
from grb_check.models.zoo import known
from grb_check.settings.registered_names import RegisteredNames, Registry


def test_a_target_may_be_what_stands_at_the_top_of_a_module() -> None:
    """Its import path is kept, not the object."""
    names = RegisteredNames()
    Registry("one", names).model("known", known)
    Registry("two", names).attack("protocol", Attack)
    assert names.models == {"known": ("grb_check.models.zoo:known", "one")}
    assert names.attacks == {"protocol": ("grb_check.attacks.protocol:Attack", "two")}
    assert names.model_targets["known"] == "grb_check.models.zoo:known"


def test_each_kind_has_names_of_its_own() -> None:
    """A name is taken within its kind only, by whoever came first."""
    names = RegisteredNames()
    registry = Registry("one", names)
    for register in (registry.attack, registry.dataset, registry.model):
        register("mine", "a:b")
        with pytest.raises(
            UsageError, match="'mine': the name is already registered by plugin one"
        ):
            getattr(Registry("two", names), register.__name__)("mine", "a:b")
    assert names.dataset_texts == {"mine": "mine=a:b"}


def test_attacks_of_a_suite_are_resolved_when_it_is_asked_for() -> None:
    """As in `--grb-attack`: in the order of reports, each once, with commas."""
    names = RegisteredNames()
    attacks = ["modification/rnd,fgsm", "injection/fgsm"]
    Registry("one", names).suite("mine", datasets=["a"], difficulties=["full"], attacks=attacks)
    registry = AttackRegistry()
    assert names.suites["mine"].suite.attacks == ()
    expected = (("injection", "fgsm"), ("modification", "rnd"))
    assert names.suite("mine", registry).attacks == expected
    assert names.suite("smoke", registry) is SUITES["smoke"]
