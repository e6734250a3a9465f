"""The layout of the terminal's table, by the options."""

from __future__ import annotations

from pathlib import Path

import pytest
from settings_factory import settings

from grb_check.errors import UsageError
from grb_check.settings.option_table import OPTIONS
from grb_check.settings.table_layout import COLUMNS, SORTS, TableLayout


def test_order_and_columns_come_from_the_options(tmp_path: Path) -> None:
    """On the command line as a list with commas, in the ini file as a list; each column once."""
    assert settings(tmp_path).layout == TableLayout()
    made = settings(tmp_path, sort="drop", columns=["clean,drop", "clean"])
    assert made.layout == TableLayout(sort="drop", columns=("clean", "drop"))
    assert settings(tmp_path, ini={"columns": ["rank", "loss"]}).layout.columns == ("rank", "loss")


def test_an_unknown_name_is_refused_with_the_nearest(tmp_path: Path) -> None:
    """And with all that there are."""
    with pytest.raises(UsageError, match=r"order of --grb-sort 'dorp' \(did you mean 'drop'\?\)"):
        settings(tmp_path, sort="dorp")
    with pytest.raises(UsageError, match=r"column of --grb-columns 'los' .*'loss'.*verdict"):
        settings(tmp_path, columns=["drop,los"])


def test_the_help_names_every_order_and_column() -> None:
    """It is written by hand, so that an unused plugin does not load the names."""
    help_of = {each.flag: each for each in OPTIONS}
    assert help_of["--grb-sort"].metavar == "|".join(SORTS)
    assert ", ".join(COLUMNS) in help_of["--grb-columns"].help
