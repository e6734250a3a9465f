"""Attacks with modifiers, and users' own attacks, as cases of a run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from plugin_names import TINY

# The figures do not matter here, so that nothing needs to be trained for them.
MODEL = ("--grb-model=attacks:brittle", "--grb-min-clean=0", "--grb-max-drop=1")
BASE = (*TINY, *MODEL, "--grb-difficulty=easy")
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "own-attack.md"


@pytest.fixture
def installed(project: pytest.Pytester) -> pytest.Pytester:
    """The project with a package that offers the attack `average` by an entry point."""
    info = project.mkdir("pack-1.0.dist-info")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pack\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[grb_check.attacks]\naverage = attacks:Average\nbroken = nowhere:attack\n"
    )
    return project


def from_store(project: pytest.Pytester, name: str) -> dict[str, bool]:
    cases = json.loads((project.path / name).read_text())["cases"]
    return {case["id"]: case["outcome"]["repeats"][0]["from_store"] for case in cases}


def test_the_attack_of_the_documentation_runs_and_is_not_stored(project: pytest.Pytester) -> None:
    """It has no more lines than promised. A dataclass with a version is stored."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    (source,) = [block for block in blocks if "def perturb" in block]
    assert len([line for line in source.splitlines() if line]) <= 15
    (project.path / "my_attacks.py").write_text(source)
    args = [*BASE, "--grb-attack=my_attacks:Average,attacks:Stored+size=2", "--grb-json=out.json"]
    for warm in (False, True):
        project.runpytest(*args).assert_outcomes(passed=2)
        assert from_store(project, "out.json") == {
            "tiny/easy/injection/average": False,
            "tiny/easy/injection/stored+size=2": warm,
        }


@pytest.mark.slow
def test_users_attacks_are_named_by_path_or_by_entry_point_and_run_in_workers(
    installed: pytest.Pytester,
) -> None:
    """Together with built-in ones; thresholds and patterns accept their names."""
    named = "--grb-attack=injection/rnd,average,attacks:Stored"
    limit = "--grb-threshold=*/injection/average=0"
    chosen = ["--grb-case=*/rnd", "--grb-case=*/average", "--grb-case=*/stored"]
    result = installed.runpytest(*BASE, "-n", "1", named, limit, *chosen)
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*easy*injection/rnd*pass*",
            "*easy*injection/average*fail* ?",  # it uses one link of many
            "*easy*injection/stored*pass* ?",
        ]
    )


def test_a_users_attack_at_fault_is_an_error_of_its_case(project: pytest.Pytester) -> None:
    """Other cases continue, and no frame of ours is shown."""
    kinds = [f"attacks:Faulty+kind={kind}" for kind in ("raise", "return", "budget")]
    result = project.runpytest(*BASE, f"--grb-attack=injection/rnd,{kinds[0]}", *_each(kinds[1:]))
    result.assert_outcomes(passed=1, errors=3)
    result.stdout.fnmatch_lines_random(
        [
            "attack injection/faulty raised:",
            "*in perturb*",
            "*RuntimeError: the user's own fault",
            "attack injection/faulty: perturb returned a dict; it must return a *Perturbation",
            "*nodes injected, the limit is *",
        ]
    )
    assert "During handling of the above exception" not in result.stdout.str()
    result.stdout.no_fnmatch_line("*grb_check/*.py:*")


def _each(names: list[str]) -> list[str]:
    return [f"--grb-attack={name}" for name in names]
