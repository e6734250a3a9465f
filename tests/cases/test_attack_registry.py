"""Names of attacks are resolved to scenario and canonical name."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grb_check.attacks.registry import load_attack, source_of
from grb_check.attacks.user_attacks import GROUP
from grb_check.cases.attack_registry import AttackRegistry
from grb_check.errors import UsageError


def attack(name: str = "mine", scenario: str = "injection") -> Any:
    def perturb(graph: Any, threat: Any, model: Any, generator: Any) -> None: ...

    return SimpleNamespace(name=name, scenario=scenario, knowledge="black-box", perturb=perturb)


MODULE = """
from dataclasses import dataclass
from typing import ClassVar

@dataclass(frozen=True)
class Attack:
    size: float = 0.5
    name: ClassVar[str] = "mine"
    scenario: ClassVar[str] = "injection"
    knowledge: str = "black-box"
    def perturb(self, graph, threat, model, generator): ...

class Other(Attack):
    name = "other"

class Pgd(Attack):
    name = "pgd"

mine = Attack()
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path with the module `own_attacks`."""
    (tmp_path / "own_attacks.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_attacks", raising=False)
    return tmp_path


def offer(folder: Path, package: str, **points: str) -> None:
    """Install a package that offers attacks."""
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = [f"[{GROUP}]", *(f"{name} = {value}" for name, value in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines))


def test_one_attack_has_one_name() -> None:
    """However it is written, it runs once; and before its variants."""
    names = ["pgd+step_size=0.05+iterations=20", "pgd+iterations=20+step_size=5e-2", "pgd", "rnd"]
    selected = AttackRegistry().select(names, ["injection"])
    assert selected == (
        ("injection", "rnd"),
        ("injection", "pgd"),
        ("injection", "pgd+step_size=0.05+iterations=20"),
    )


def test_an_attack_outside_the_scenario_is_refused() -> None:
    """A selection that contradicts itself is an error, not an empty run."""
    with pytest.raises(UsageError, match="does not exist in scenario modification"):
        AttackRegistry().select(["fgsm"], ["modification"])


def test_an_ambiguous_name_is_refused_where_one_attack_is_meant() -> None:
    """The message lists the ways to say it."""
    with pytest.raises(UsageError, match="'rnd' is ambiguous; give one of injection/rnd, modific"):
        AttackRegistry().one("rnd")
    assert AttackRegistry().one("dice") == ("modification", "dice")


def test_a_users_attack_is_known_by_its_name_once_it_is_named(own: Path) -> None:
    """Under its scenario and name, with modifiers if it is a frozen dataclass."""
    registry = AttackRegistry()
    assert registry.one("own_attacks:mine+size=0.25") == ("injection", "mine+size=0.25")
    assert registry.one("mine+white-box+size=0.5") == ("injection", "mine+white-box")
    assert (
        registry.one("own_attacks:mine") == registry.one("injection/mine") == ("injection", "mine")
    )
    assert list(registry.user_attacks) == [("injection", "mine")]
    with pytest.raises(UsageError, match="knowledge is 'grey'; allowed: black-box, white-box"):
        registry.one("mine+knowledge=grey")


def test_two_attacks_of_one_name_are_refused(own: Path) -> None:
    """Naming the same one twice is allowed."""
    registry = AttackRegistry()
    assert registry.one("own_attacks:Attack") == registry.one("own_attacks:Attack")
    with pytest.raises(UsageError, match="'own_attacks:mine' has the name"):
        registry.one("own_attacks:mine")
    given = attack()
    with pytest.raises(UsageError, match="attack SimpleNamespace has the name of another"):
        registry.add(given)
    assert AttackRegistry().add(given) == ("injection", "mine")


def test_an_entry_point_is_imported_only_when_its_name_is_asked_for(own: Path) -> None:
    """Others stay unimported, and no default has it."""
    offer(own, "pack", mine="own_attacks:mine", broken="no_such_module:x")
    registry = AttackRegistry()
    assert registry.select(["rnd", "fgsm"])
    assert "own_attacks" not in sys.modules
    assert registry.one("mine") == ("injection", "mine")
    assert registry.one("injection/mine+size=0.1") == ("injection", "mine+size=0.1")
    assert registry.one("own_attacks:mine") == ("injection", "mine")
    with pytest.raises(
        UsageError, match=r"(?s)importing no_such_module:x failed:\n.*no_such_module"
    ):
        registry.one("broken")
    with pytest.raises(UsageError, match=r"unknown attack 'mien' .did you mean 'mine'"):
        registry.one("mien")
    with pytest.raises(UsageError, match="unknown attack 'modification/mine'"):
        registry.one("modification/mine")


def test_an_entry_point_with_a_name_that_is_taken_is_refused(own: Path) -> None:
    """By a built-in attack, by another package, or by another name of its own."""
    offer(own, "pack", pgd="own_attacks:Pgd", other="own_attacks:mine", twice="own_attacks:mine")
    offer(own, "rival", twice="own_attacks:Other")
    with pytest.raises(UsageError, match="has the name of the built-in attack injection/pgd"):
        AttackRegistry().one("pgd")
    with pytest.raises(UsageError, match="'other' of package pack: its own name is 'mine'"):
        AttackRegistry().one("other")
    with pytest.raises(
        UsageError, match=r"'twice' of package .* and package .*: two packages offer"
    ):
        AttackRegistry().one("twice")


def test_patterns_spell_attacks_as_ids_do(own: Path) -> None:
    """Only patterns with modifiers and without a wildcard change."""
    registry = AttackRegistry()
    spelled = registry.canonical_pattern
    assert spelled("*/rnd+budget=5%") == "*/rnd+budget=0.05"
    assert spelled("*/fgsm+iterations=20+step_size=0.05") == "*/fgsm+step_size=0.05+iterations=20"
    assert spelled("a/*/injection/fgsm+patience=10") == "a/*/injection/fgsm"
    for unchanged in ("*/fgsm+*", "*", "*/pdg", "a/easy/modification/rnd"):
        assert spelled(unchanged) == unchanged
    with pytest.raises(UsageError, match="unknown modifier of attack injection/fgsm"):
        spelled("*/injection/fgsm+iteration=3")


def test_patterns_name_attacks_that_are_not_selected(own: Path) -> None:
    """A variant or a user's attack may have a limit without being run today."""
    offer(own, "pack", mine="own_attacks:mine")
    named = AttackRegistry().named_in
    assert named("*/injection/fgsm+iterations=20") == (("injection", "fgsm+iterations=20"),)
    assert named("*/mine") == (("injection", "mine"),)
    assert named("*/nothing") == named("*/p*") == named("a") == ()


def test_nobody_elses_attack_is_called_worst() -> None:
    """It is the name of the strongest attack of each scenario."""
    with pytest.raises(UsageError, match="has the name of the built-in attack injection/worst"):
        AttackRegistry().add(attack("worst"))


def test_replayed_attacks_have_full_names_alone() -> None:
    """In lists, patterns and marks; a plain name never poisons, but for attacks made for that."""
    registry = AttackRegistry()
    assert registry.select(["dice"]) == (("modification", "dice"),)
    assert registry.one("poisoning/dice") == ("poisoning", "dice")
    assert registry.one("dice", ["poisoning"]) == ("poisoning", "dice")
    assert registry.one("metattack") == ("poisoning", "metattack")
    assert ("poisoning", "worst") not in registry.select(["worst"])
    assert registry.one("poisoning/worst") == ("poisoning", "worst")
    pattern = "*/poisoning/dice+budget=.10"
    assert registry.canonical_pattern(pattern) == "*/poisoning/dice+budget=0.1"
    assert registry.named_in("*/poisoning/dice") == (("poisoning", "dice"),)
    assert registry.named_in("*/modification/dice") == (("modification", "dice"),)


def test_a_name_of_both_other_scenarios_is_that_on_edges() -> None:
    """Of injections alone, the injection."""
    assert source_of("poisoning", "pgd+iterations=3") == ("modification", "pgd")
    assert source_of("poisoning", "tdgia") == ("injection", "tdgia")
    assert source_of("poisoning", "metattack") == ("poisoning", "metattack")


def test_users_modifications_can_be_replayed() -> None:
    """They keep their name for other processes; those that know the model cannot."""
    registry = AttackRegistry()
    registry.add(attack("mine", "modification"))
    assert registry.one("poisoning/mine") == ("poisoning", "mine")
    assert registry.named == ("mine",)
    assert load_attack("poisoning", "mine", user_attacks=registry.user_attacks).name == "mine"
    knows = attack("knows", "modification")
    knows.knowledge = "white-box"
    with pytest.raises(UsageError, match="knows the model"):
        load_attack("poisoning", "knows", user_attacks={("modification", "knows"): knows})
    for name in ("dice", "nettack", "metattack"):
        with pytest.raises(UsageError, match="name of the built-in attack"):
            registry.add(attack(name, "poisoning"))
