"""How robust contrastive encoders are: the tables of Guerranti et al. 2023, ours beside theirs.

    python benchmarks/contrastive.py nodes --data FOLDER --datasets Cora CiteSeer --out nodes.jsonl
    python benchmarks/contrastive.py graphs --data FOLDER --sets proteins nci1 --out graphs.jsonl
    python benchmarks/contrastive.py tables nodes.jsonl graphs.jsonl
    python benchmarks/contrastive.py loss --nodes 169343

`nodes` and `graphs` add one JSON object a line to their file as figures come in. What is there from
an interrupted run is not measured again: where the code has changed since, take another file.
Each command ends with its tables in Markdown.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings

import contrastive_graphs
import contrastive_loss
import contrastive_nodes
import contrastive_tables

from grb_check.errors import GrbCheckError

COMMANDS = {
    "nodes": contrastive_nodes,
    "graphs": contrastive_graphs,
    "loss": contrastive_loss,
    "tables": contrastive_tables,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, module in COMMANDS.items():
        module.add_arguments(commands.add_parser(name, help=module.__doc__))
    options = parser.parse_args()
    chosen = COMMANDS[options.command]
    rows = []
    for row in chosen.rows(options):
        rows.append(row)
        sys.stdout.write(json.dumps(row) + "\n")
        sys.stdout.flush()
    sys.stdout.write("\n" + chosen.table(options, rows))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    try:
        main()
    except GrbCheckError as error:
        raise SystemExit(str(error)) from None
