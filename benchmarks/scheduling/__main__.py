"""How well a run is divided among many workers.

python -m benchmarks.scheduling record --out FILE [--minutes 20]
"""

from __future__ import annotations

from benchmarks.command import run
from benchmarks.scheduling import record

COMMANDS = {"record": record}

if __name__ == "__main__":
    run(__spec__.parent, __doc__, COMMANDS)
