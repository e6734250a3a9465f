"""Measures what is missing in the file, column by column, each in a process of its own."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.contrastive.columns import Column, measure
from benchmarks.contrastive.row_file import append_rows, read_rows
from benchmarks.contrastive.tables import tables
from benchmarks.contrastive.tasks import Task
from benchmarks.processes import alone
from benchmarks.rows import Row
from grb_check.attacks.registry import load_attack
from grb_check.user_code.factories import load_factory


@dataclass(frozen=True, kw_only=True)
class Measuring:
    """The command that measures one task.

    Attributes:
        task: that is measured.
        datasets: the default.
        seeds: the default.
    """

    task: Task
    datasets: Sequence[str]
    seeds: int

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        known = self.task.models
        models = [model for model in known if not model.startswith("gca_")]
        attacks = [*self.task.attacks.values()]
        parser.add_argument("--data", type=Path, required=True, help="folder of the datasets")
        parser.add_argument("--datasets", nargs="+", default=self.datasets, help="names")
        parser.add_argument(
            "--models", nargs="+", default=models, help=f"of {', '.join(known)}, or PKG:ATTR"
        )
        parser.add_argument("--attacks", nargs="+", default=attacks, help="names")
        parser.add_argument("--seeds", type=int, default=self.seeds, help="initialisations")
        parser.add_argument("--out", type=Path, required=True, help="file that rows are added to")
        parser.add_argument("--store", type=Path, help="of the harness's own models (OUT.store)")

    def rows(self, options: argparse.Namespace) -> Iterator[Row]:
        """Yield the rows of the file that were asked for, then measure and yield missing ones.

        Names are checked before anything is measured.
        """
        for attack in options.attacks:
            load_attack(*attack.split("/"))
        for model in options.models:
            load_factory(self.task.target(model))
        columns = [
            column
            for dataset in options.datasets
            for column in _columns(dataset, options, self.task)
        ]
        yield from _asked(options, self.task)
        for column in columns:
            before = len(read_rows(column.out))
            failed = alone(measure, column)
            if "error" in failed:
                append_rows(column.out, [column.head | failed])
            yield from read_rows(column.out)[before:]

    def table(self, rows: Sequence[Row]) -> str:
        return tables(rows, self.task)


def _asked(options: argparse.Namespace, task: Task) -> list[Row]:
    """Return the rows of the file that belong to what was asked for."""
    names = {task.source(dataset, options.data).name for dataset in options.datasets}
    return [
        row
        for row in read_rows(options.out)
        if row["task"] == task.name
        and row["dataset"] in names
        and row["model"] in options.models
        and row.get("attack") in (None, *options.attacks)
        and row.get("seed", 0) < options.seeds
    ]


def _columns(dataset: str, options: argparse.Namespace, task: Task) -> list[Column]:
    """Return a column for each model without a row for a seed of an attack, with those attacks."""
    name = task.source(dataset, options.data).name
    there = {
        (row["model"], row["attack"], row["seed"])
        for row in read_rows(options.out)
        if row["task"] == task.name and row["dataset"] == name and "seed" in row
    }
    columns = []
    for model in options.models:
        missing = tuple(
            attack
            for attack in options.attacks
            if any((model, attack, seed) not in there for seed in range(options.seeds))
        )
        if missing:
            columns.append(
                Column(
                    task=task.name,
                    dataset=dataset,
                    model=model,
                    attacks=missing,
                    seeds=options.seeds,
                    data=options.data,
                    out=options.out,
                    store=options.store or options.out.with_suffix(".store"),
                )
            )
    return columns
