"""One bench for all tests, so that surrogates and the reference are trained once."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest
from board_bench import GOOD, Bench
from tiny import write_dataset

from grb_check.training.nodes import TrainingSettings


@pytest.fixture(autouse=True)
def short_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Surrogate and reference need no high accuracy here."""
    _shorten(monkeypatch)


@pytest.fixture(scope="session")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """The store has everything that does not depend on the model."""
    folder = tmp_path_factory.mktemp("leaderboard")
    bench = Bench(write_dataset(folder / "tiny"), folder / "home", folder / "store")
    with pytest.MonkeyPatch.context() as patch:
        _shorten(patch)
        maker = bench.maker(GOOD)
        maker.make()
        maker.forget()
    return bench


@pytest.fixture
def bench(warm: Bench, tmp_path: Path) -> Bench:
    """A bench with a store that the test may change."""
    shutil.copytree(warm.store, tmp_path / "store")
    return Bench(warm.dataset, warm.home, tmp_path / "store")


def _shorten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        "grb_check.evaluation.surrogates.TrainingSettings", partial(TrainingSettings, max_epochs=5)
    )
