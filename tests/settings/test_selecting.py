"""Suites, datasets and attacks that the options select."""

from __future__ import annotations

from pathlib import Path

import pytest
from settings_factory import settings

from grb_check.errors import UsageError


def test_two_datasets_of_one_name_are_refused(tmp_path: Path) -> None:
    """Their cases could not be told apart."""
    for folder in ("a", "b"):
        (tmp_path / folder / "mine").mkdir(parents=True)
        for name in ("adj", "features", "labels", "index"):
            (tmp_path / folder / "mine" / f"{name}.npz").touch()
    both = [str(tmp_path / "a" / "mine"), str(tmp_path / "b" / "mine")]
    with pytest.raises(UsageError, match="two datasets have the name 'mine'"):
        settings(tmp_path, dataset=both)
    made = settings(tmp_path, dataset=[both[0], f"other={both[1]}"])
    assert [source.name for source in made.datasets] == ["mine", "other"]


def test_the_paper_suite_says_where_its_datasets_must_be(tmp_path: Path) -> None:
    """They cannot be shipped; the message says which suite asked for them."""
    with pytest.raises(UsageError, match=r"suite 'paper': .*grb-cora.*--grb-data"):
        settings(tmp_path, suite="paper")


def test_a_comma_inside_a_setting_does_not_part_attacks(tmp_path: Path) -> None:
    """Unless an attack's name follows."""
    with pytest.raises(UsageError, match="'5,dcie' is not a whole number; no attack has the name"):
        settings(tmp_path, attack=["fgsm+iterations=5,dcie"])
    made = settings(tmp_path, attack=["rnd+removal_share=0.25,dice", "fgsm+iterations=5"])
    assert made.attacks == (
        ("injection", "fgsm+iterations=5"),
        ("modification", "rnd+removal_share=0.25"),
        ("modification", "dice"),
    )


def test_a_suite_has_its_own_attacks(tmp_path: Path) -> None:
    """A scenario keeps some of them; one that leaves none is an error."""
    made = settings(tmp_path, scenario=["modification"])
    assert made.attacks == (("modification", "rnd"), ("modification", "dice"))
    with pytest.raises(UsageError, match="'paper' has no attack of scenario modification; name"):
        settings(tmp_path, suite="paper", scenario=["modification"], dataset=["synthetic-cora"])
