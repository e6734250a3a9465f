"""The plan of a leaderboard, and what is refused before any work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from grb_check.cases.attack_registry import AttackRegistry
from grb_check.cases.case import DIFFICULTIES
from grb_check.cases.suites import SUITES
from grb_check.datasets import Places, Source
from grb_check.datasets.formats.grb_files import GRB_FILES
from grb_check.datasets.formats.tu_dataset import TU_DATASET
from grb_check.errors import UsageError
from grb_check.models.zoo import ZOO
from grb_check.ranking.boards.plan import plan

SOURCE = Source("tiny", GRB_FILES, Path("tiny"), places=Places(home=Path("home"), sources=()))


def test_the_default_is_the_zoo_under_the_attacks_of_the_paper() -> None:
    """Three repeats, easy to full, under the dataset's name."""
    made = plan(SOURCE, registry=AttackRegistry())
    assert [each.title for each in made.candidates] == [each.title for each in ZOO.values()]
    assert made.attacks == SUITES["paper"].attacks
    assert made.difficulties == DIFFICULTIES
    assert (made.repeats, made.name) == (3, "tiny")
    assert len(made.cases()) == 20


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"models": ["gnc"]}, "did you mean|nearest"),
        ({"models": ["grb_check.models:gcnn"]}, "gcn"),
        ({"models": ["board_models:goood"]}, "nearest: good"),
        ({"models": ["no_such_module:x"]}, "there is no module no_such_module"),
        ({"models": ["gcn", "GCN"]}, "two models have the title 'GCN'"),
        ({"models": ["GCN=board_models:good,gcn"]}, "TITLE=PKG.MODULE:ATTR"),
        ({"attacks": ["injection/pdg"]}, "did you mean 'injection/pgd'"),
        ({"attacks": ["injection/worst"]}, "injection/worst is the strongest of others"),
        ({"difficulties": ["eazy"]}, "did you mean 'easy'"),
        ({"models": [""]}, "--models was given without a value"),
        ({"attacks": [" "]}, "--attacks was given without a value"),
        ({"difficulties": [","]}, "--difficulties was given without a value"),
        ({"repeats": "0"}, "--repeats: '0' is not a number of repeats"),
        ({"name": "../x"}, "--name '../x' cannot be the name of a file"),
        ({"name": "Con.v2"}, "--name 'Con.v2' cannot be the name of a file.*device on Windows"),
    ],
)
def test_a_wrong_option_is_an_error_with_the_allowed_values(
    wrong: dict[str, Any], message: str
) -> None:
    """Before data are read or a model is built."""
    with pytest.raises(UsageError, match=message):
        plan(SOURCE, registry=AttackRegistry(), **wrong)


def test_a_set_of_graphs_has_no_leaderboard() -> None:
    """GRB's leaderboards are of single graphs."""
    with pytest.raises(UsageError, match="set of graphs"):
        plan(Source("mutag", TU_DATASET, Path("mutag")), registry=AttackRegistry())
