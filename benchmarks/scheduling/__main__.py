"""How well a run is divided among many workers.

    python -m benchmarks.scheduling --workers 64 [--durations FILE]
    python -m benchmarks.scheduling record --out FILE [--minutes 20]

The first prints the efficiency of the plan of a run on recorded durations, the second records them.
"""

from __future__ import annotations

import sys

from benchmarks.command import run
from benchmarks.scheduling import record, simulate

COMMANDS = {"simulate": simulate, "record": record}

if __name__ == "__main__":
    if sys.argv[1:2] not in (["simulate"], ["record"], ["-h"], ["--help"]):
        sys.argv.insert(1, "simulate")
    run(__spec__.parent, __doc__, COMMANDS)
