"""One case without pytest."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tiny import write_dataset
from tiny_models import Net, outcome

import grb_check
from grb_check.errors import UsageError


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return write_dataset(tmp_path / "tiny")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"repeats": 2.5}, "give a whole number from 1"),
        ({"data": "/nowhere", "attack": "pdg"}, "did you mean 'pgd'"),
        ({"difficulty": "esay"}, "did you mean 'easy'"),
        ({"attack": "rnd"}, "ambiguous; give one of injection/rnd, modification/rnd"),
        ({"repeats": 0}, "give a whole number from 1"),
        ({"device": "cuda:99"}, "device 'cuda:99' cannot be used here"),
        ({"model": Net(8, 3)}, r"Trained\(module\)"),
        ({"model": 3}, "the model is a int"),
    ],
)
def test_wrong_arguments_are_usage_errors(
    tiny: Path, change: dict[str, object], message: str
) -> None:
    """They are raised before any work and list what is allowed."""
    with pytest.raises(UsageError, match=message):
        outcome(tiny, **change)


@pytest.mark.slow
def test_the_worst_is_the_strongest_of_the_suite_standard(tiny: Path) -> None:
    """The attacks are those of a run; each reference has a strongest attack of its own."""
    torch.manual_seed(0)
    model = grb_check.Trained(Net(8, 3).eval())
    worst = outcome(tiny, model, attack="injection/worst", repeats=1).repeats[0]
    assert worst.member in worst.notes[0]
    alone = outcome(tiny, model, attack=f"injection/{worst.member}").repeats[0]
    assert worst.victim == alone.victim
    assert worst.perturbation == alone.perturbation
    assert all(
        worst.references[name].attacked <= reference.attacked
        for name, reference in alone.references.items()
    )
