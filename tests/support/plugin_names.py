"""Names that tests of the plugin share."""

from __future__ import annotations

from pathlib import Path

import pytest

TINY = ("--grb-dataset=./tiny", "--grb-repeats=1")
QUICK = (*TINY, "--grb-model=models:build", "--grb-attack=rnd", "--grb-difficulty=easy")
# Needs no training, and loses accuracy whatever the attack is.
BRITTLE = tuple(option.replace("models:build", "build=attacks:brittle") for option in QUICK)
# Two cases that pass, of a model that needs no training.
UNTRAINED = (
    *TINY,
    "--grb-model=build=attacks:untrained",
    "--grb-attack=rnd",
    "--grb-difficulty=easy",
    "--grb-min-clean=0",
    "--grb-max-drop=1",
    "--grb-only",
)
needs_full = pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="no /dev/full")
IDS = (
    "grb::tiny::test_attack[easy/injection/rnd]",
    "grb::tiny::test_attack[easy/modification/rnd]",
)
