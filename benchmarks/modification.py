"""How strong, how fast and how large the modification attacks are, beside PyG's PRBCD and GRBCD.

    python benchmarks/modification.py adaptive --data FOLDER --datasets Cora CiteSeer --peers
    python benchmarks/modification.py black-box --data FOLDER/grb-format/planetoid-cora
    python benchmarks/modification.py victims --data FOLDER
    python benchmarks/modification.py scale
    python benchmarks/modification.py physics --data FOLDER/medium/coauthor_phy.npz

Writes one JSON object a line as figures come in, and with `--markdown` a table at the end.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings

import modification_adaptive
import modification_black_box
import modification_physics
import modification_scale
import modification_victims

from grb_check.errors import GrbCheckError

COMMANDS = {
    "adaptive": modification_adaptive,
    "black-box": modification_black_box,
    "victims": modification_victims,
    "scale": modification_scale,
    "physics": modification_physics,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, module in COMMANDS.items():
        command = commands.add_parser(name, help=module.__doc__)
        module.add_arguments(command)
        command.add_argument("--markdown", action="store_true", help="a table at the end")
    options = parser.parse_args()
    chosen = COMMANDS[options.command]
    rows = []
    for row in chosen.rows(options):
        rows.append(row)
        sys.stdout.write(json.dumps(row) + "\n")
        sys.stdout.flush()
    if options.markdown:
        sys.stdout.write("\n" + chosen.table(rows))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    try:
        main()
    except GrbCheckError as error:
        raise SystemExit(str(error)) from None
