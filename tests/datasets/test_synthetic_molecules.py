"""The bundled set of graphs has its documented properties, and its script reproduces it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
NAME = "SYNTHETIC-MOLECULES"
ARCHIVE = FIXTURES / "synthetic-molecules" / f"{NAME}.zip"
NITROGEN, OXYGEN = 1, 2


@pytest.fixture(scope="module")
def made_again(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folders = [tmp_path_factory.mktemp("made") / str(turn) for turn in range(2)]
    for folder in folders:
        script = str(FIXTURES / "make_synthetic_molecules.py")
        subprocess.run([sys.executable, script, "--out", str(folder)], check=True)
    return [folder / ARCHIVE.name for folder in folders]


def test_script_makes_the_same_texts(made_again: list[Path]) -> None:
    """The script writes the file of the repository, member by member."""
    with zipfile.ZipFile(ARCHIVE) as stored, zipfile.ZipFile(made_again[0]) as rebuilt:
        assert stored.namelist() == rebuilt.namelist()
        for member in stored.namelist():
            assert stored.read(member) == rebuilt.read(member)
