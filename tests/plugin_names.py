"""Names that tests of the plugin share."""

from __future__ import annotations

TINY = ("--grb-dataset=./tiny", "--grb-repeats=1")
QUICK = (*TINY, "--grb-model=models:build", "--grb-attack=rnd", "--grb-difficulty=easy")
# Needs no training, and loses accuracy whatever the attack is.
BRITTLE = tuple(each.replace("models:build", "build=attacks:brittle") for each in QUICK)
IDS = (
    "grb::tiny::test_attack[easy/injection/rnd]",
    "grb::tiny::test_attack[easy/modification/rnd]",
)
