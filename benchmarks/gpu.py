"""Everything that wants measuring on a machine with a GPU, the most important first.

    python benchmarks/gpu.py --out DIR --minutes 9
    python benchmarks/gpu.py --out DIR --device cpu --scale small    # the same rows, anywhere

See `gpu_rows` for the rows. Each runs in a process of its own, within its time limit and the
minutes left, and is a JSON line of DIR/rows.jsonl as soon as it ends; a row that fails costs only
itself. A second call runs what is missing, and then again what failed. DIR/gpu.md has the tables.
Exit codes: 0 if every row is there and none failed, 1 otherwise, 4 if there is no such device.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    if not __package__:  # run as a file, whose own folder would hide packages such as `datasets`
        sys.path[0] = str(Path(__file__).resolve().parent.parent)
    # Late: only now can the repository be imported from.
    from benchmarks.gpu_run import main

    raise SystemExit(main(sys.argv[1:], __doc__))
