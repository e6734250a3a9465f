"""Robustness of contrastive encoders: the tables of Guerranti et al. 2023, ours beside theirs.

    python -m benchmarks.contrastive nodes --data FOLDER --datasets Cora CiteSeer --out nodes.jsonl
    python -m benchmarks.contrastive graphs --data FOLDER --datasets proteins --out graphs.jsonl
    python -m benchmarks.contrastive tables nodes.jsonl graphs.jsonl
    python -m benchmarks.contrastive loss --nodes 169343

`nodes` and `graphs` add one JSON object a line to their file as figures come in. Rows of an
interrupted run are not measured again: take another file after a change of the code. Each command
ends with its tables in Markdown.
"""

from __future__ import annotations

from benchmarks.command import run
from benchmarks.contrastive import loss, tables
from benchmarks.contrastive.measuring import Measuring
from benchmarks.contrastive.tasks import GRAPHS, NODES

COMMANDS = {
    "nodes": Measuring(task=NODES, datasets=("Cora", "CiteSeer"), seeds=5),
    "graphs": Measuring(task=GRAPHS, datasets=("proteins", "nci1"), seeds=3),
    "loss": loss,
    "tables": tables,
}

if __name__ == "__main__":
    run(__spec__.parent, __doc__, COMMANDS)
