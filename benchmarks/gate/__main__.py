"""False alarms and missed losses of the gate, on trained models.

    python -m benchmarks.gate pool --data FOLDER/grb-format/planetoid-cora --out cora.npz
    python -m benchmarks.gate simulate cora.npz
    python -m benchmarks.gate limits --folder FOLDER

`pool` trains each variant of a model under many seeds and attacks it; `simulate` draws runs from
that and asks the gate, `looks` one that may go on; `pretrained` draws models that are not trained
again, and `settle` runs of the sizes that reports suggest. `limits` is about the default limit.
"""

from __future__ import annotations

from benchmarks.command import run
from benchmarks.gate import coverage, limits, looks, pool, pretrained, settle, simulation

COMMANDS = {
    "pool": pool,
    "coverage": coverage,
    "simulate": simulation,
    "looks": looks,
    "pretrained": pretrained,
    "settle": settle,
    "limits": limits,
}

if __name__ == "__main__":
    run(__spec__.parent, __doc__, COMMANDS)
