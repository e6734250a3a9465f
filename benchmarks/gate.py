"""Does the gate cry wolf, and does it sleep? Measured on models that were really trained.

    python benchmarks/gate.py pool --data FOLDER/grb-format/planetoid-cora --out cora.npz
    python benchmarks/gate.py simulate cora.npz

`pool` trains each variant of a model under many seeds and attacks it; `simulate` draws runs from
that and asks the gate.
"""

from __future__ import annotations

import argparse
import sys
import warnings

import gate_pool
import gate_simulation

from grb_check.errors import GrbCheckError

COMMANDS = {"pool": gate_pool, "simulate": gate_simulation}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, module in COMMANDS.items():
        module.add_arguments(commands.add_parser(name, help=module.__doc__))
    options = parser.parse_args()
    for line in COMMANDS[options.command].run(options):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    try:
        main()
    except GrbCheckError as error:
        raise SystemExit(str(error)) from None
