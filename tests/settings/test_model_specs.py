"""Models are named by their factory, with labels and arguments."""

from __future__ import annotations

from pathlib import Path

import pytest
from settings_factory import settings

from grb_check.errors import UsageError
from grb_check.models.zoo import ZOO


def test_several_models_get_labels(tmp_path: Path) -> None:
    """The attribute, numbered where it repeats, or what the user says."""
    options = settings(tmp_path, model=["a:GCN", "b:GCN", "mine=c:build"])
    assert options.labels == ("GCN", "GCN-2", "mine")
    assert settings(tmp_path, model=["a:GCN"]).labels == ("",)
    with pytest.raises(UsageError, match=r"label 'a\\x1bb' must be of printable characters"):
        settings(tmp_path, model=["a\x1bb=a:GCN", "b:GCN"])
    with pytest.raises(UsageError, match=r"--grb-model '=a:GCN': label '' must be of printable"):
        settings(tmp_path, model=["=a:GCN", "b:GCN"])
    with pytest.raises(UsageError, match="two models have the label 'x'"):
        settings(tmp_path, model=["x=a:GCN", "x=b:GCN"])


def test_reference_models_have_names(tmp_path: Path) -> None:
    """Which stand for their factories, and are labels; a word that is no name is refused."""
    models = settings(tmp_path, model=["gcn", "grb_check.models:gcn", "other=gcn_ln"]).models
    assert [model.target for model in models] == [
        "grb_check.models:gcn",
        "grb_check.models:gcn",
        "grb_check.models:gcn_ln",
    ]
    assert [model.label for model in models] == ["gcn", "gcn-2", "other"]
    with pytest.raises(
        UsageError, match=r"'gnc' must have the form .* name that --grb-list=models"
    ):
        settings(tmp_path, model=["gnc"])


def test_zoo_stands_for_all_reference_models(tmp_path: Path) -> None:
    """As for a leaderboard; others may be named beside it."""
    models = settings(tmp_path, model=["zoo", "mypkg:build"]).models
    assert [model.label for model in models] == [*ZOO, "mypkg"]
    assert models[0].target == ZOO["gcn"].target
