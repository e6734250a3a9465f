"""Graph classification: GCN, GIN, InfoGraph, GraphCL and AD-GCL, beside Table 5 of the paper."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

import contrastive_measuring
from contrastive_tables import tables
from contrastive_tasks import GRAPHS
from injection_arena import Row


def add_arguments(parser: argparse.ArgumentParser) -> None:
    contrastive_measuring.add_arguments(
        parser, GRAPHS, sets="--sets", chosen=("proteins", "nci1"), seeds=3
    )


def rows(options: argparse.Namespace) -> Iterator[Row]:
    """One row for each dataset, model, attack and seed that the file lacks."""
    yield from contrastive_measuring.rows(options, GRAPHS)


def table(options: argparse.Namespace, rows: Sequence[Row]) -> str:
    """Of all rows that were asked for, new or from before."""
    del rows
    return tables(contrastive_measuring.asked(options, GRAPHS), GRAPHS)
