"""The published robustness unit test as a pack: perturbations against eight models.

Mujkanovic et al. 2022, "Are Defenses for Graph Neural Networks Robust?" (NeurIPS), and
`unit_test/sketch.py` of their code: the strongest global perturbations found against each model.
`unit_test.npz` has, besides graphs and splits (see `datasets.formats.unit_test`),
`GRAPH/perturbations/{evasion,poisoning}/MODEL/split_S/budget_B`: pairs of nodes int [k, 2] to flip,
each undirected pair once.

Each model is an attack here, `modification/unit-test-MODEL`. Of its perturbations a case gets the
largest within the edge budget of its threat (our choice), so that `+budget=` and `--grb-budget`
work as for any attack. Graph and split are recognised by the targets. The poisoning part is not
run.
Imports numpy and torch only when a perturbation is read.
"""

from __future__ import annotations

import hashlib
import re
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from grb_check.attacks.registry import Pair
from grb_check.cases.case import WHOLE
from grb_check.cases.suites import Suite
from grb_check.datasets.formats.unit_test import GRAPHS, SPLITS, WHERE, test_key, text_of
from grb_check.errors import DataError, UsageError, count, one_line
from grb_check.store.pack import Wanted

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray
    from torch_geometric.data import Data

    from grb_check.attacks.protocol import Attack, DifferentiableModel
    from grb_check.attacks.threat import Knowledge, Perturbation, Scenario, Threat

    Array = NDArray[Any]

PREFIX: Final = "unit-test-"
LICENCE: Final = "Published with the code of Mujkanovic et al. 2022 (MIT licence)."
_BLOCK: Final = 1 << 20  # bytes read at a time
_KEY: Final = re.compile(
    rf"({'|'.join(GRAPHS)})/perturbations/(evasion|poisoning)/([A-Za-z0-9._-]+)/split_(\d)/budget_"
    r"([A-Za-z0-9._-]+)\.npy"
)


@dataclass(frozen=True)
class PublishedFlips:
    """The attack whose perturbations the unit test has; only a pack can give them.

    Attributes:
        name: `unit-test-` and the model that they were made against.
    """

    name: str
    scenario: ClassVar[Scenario] = "modification"
    knowledge: ClassVar[Knowledge] = "black-box"
    version: ClassVar[int] = 1

    def perturb(
        self, graph: Data, threat: Threat, model: DifferentiableModel, generator: torch.Generator
    ) -> Perturbation:
        """Refuse.

        Raises:
            UsageError: always.
        """
        raise UsageError(
            f"{self.name} has no perturbations of its own; {WHERE}, and give --grb-pack"
        )


class UnitTest:
    """The file of the unit test; has the attributes and methods of `Pack`.

    Args:
        path: of the file.

    Attributes:
        path: absolute.
        digest: SHA-256 of the file.
        licence: of the perturbations.
        attacks: one for each model, by scenario and name.
        suite: every graph, split and attack; the authors train on the whole clean graph.

    Raises:
        UsageError: it cannot be read, or has no perturbations of the unit test.
    """

    licence = LICENCE

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        try:
            with zipfile.ZipFile(path) as archive:
                found = [match for each in archive.namelist() if (match := _KEY.fullmatch(each))]
            sha = hashlib.sha256()
            with path.open("rb") as stream:
                while block := stream.read(_BLOCK):
                    sha.update(block)
            self.digest = sha.hexdigest()
        except (OSError, zipfile.BadZipFile) as error:
            raise UsageError(
                f"pack {str(path)!r} cannot be read: {one_line(error)}; {WHERE}"
            ) from None
        self._keys: dict[tuple[str, int, str], list[str]] = {}
        for match in found:
            graph, kind, model, split = match.groups()[:4]
            if kind == "evasion":
                group = self._keys.setdefault((graph, int(split), f"{PREFIX}{model}"), [])
                group.append(match[0].removesuffix(".npy"))
        self.poisoning = sum(match[2] == "poisoning" for match in found)
        names = dict.fromkeys(name for _, _, name in self._keys)
        self.attacks: Mapping[Pair, Attack] = {
            ("modification", name): PublishedFlips(name) for name in names
        }
        self.suite: Suite | None = Suite(
            name="unit-test",
            datasets=tuple(dict.fromkeys(text_of(graph, split) for graph, split, _ in self._keys)),
            difficulties=(WHOLE,),
            attacks=tuple(self.attacks),
            repeats=3,
            split="given",
            training="transductive",
            features="rows",
        )

    @property
    def content(self) -> str:
        """The contents of the file, in words."""
        evasion = count(sum(map(len, self._keys.values())), "perturbation")
        rest = f"; {self.poisoning} of poisoning are not run" if self.poisoning else ""
        return f"{evasion} against {count(len(self.attacks), 'model')}{rest}"

    def check(self, wanted: Wanted, threat: Threat) -> bool:
        """Whether the file has a perturbation within the threat."""
        return self._chosen(wanted, threat) is not None

    def perturbation(self, wanted: Wanted, graph: Data, threat: Threat) -> Perturbation | None:
        """Return the largest perturbation within the threat, verified; None if there is none.

        Raises:
            BudgetError: it exceeds the threat, or is not one of this graph.
            UsageError: the file is damaged.
        """
        # Imported for a perturbation; opening the file loads neither numpy nor torch.
        import torch

        from grb_check.attacks.edges.edge_set import edge_set
        from grb_check.attacks.threat import verify

        pairs = self._chosen(wanted, threat)
        if pairs is None:
            return None
        edges = edge_set(graph.cpu())
        if pairs.min() < 0 or pairs.max() >= edges.num_nodes:
            raise self._damaged(f"{wanted.attack} has nodes outside 0 .. {edges.num_nodes - 1}")
        made = edges.perturbation(edges.encode(torch.from_numpy(pairs.T.copy())))
        verify(made, graph, threat)
        return made

    def instead(self, wanted: Wanted) -> str:
        """Return what the file has instead of what it lacks, as a clause."""
        if (wanted.scenario, wanted.attack) not in self.attacks:
            return f"it has the attacks {', '.join(name for _, name in self.attacks)}"
        return (
            f"it has {wanted.attack} for the test nodes of its own splits alone (--grb-dataset="
            f"{text_of(GRAPHS[0], 0)} --grb-split=given --grb-difficulty={WHOLE}), with the "
            f"numbers of flips that python -m grb_check pack --list shows"
        )

    def rows(self) -> list[list[str]]:
        """Return a table of the perturbations, with its head."""
        rows = [["dataset", "attack", "flips"]]
        for (graph, split, name), keys in self._keys.items():
            sizes = sorted(map(len, self._flips(keys)))
            rows.append([text_of(graph, split), f"modification/{name}", ", ".join(map(str, sizes))])
        return rows

    @cached_property
    def _splits(self) -> Mapping[bytes, tuple[str, int]]:
        """Graph and split, by the ids of the test nodes."""
        import numpy as np  # loaded with the dataset

        there = {(graph, split) for graph, split, _ in self._keys}
        keys = {test_key(graph, split): (graph, split) for graph in GRAPHS for split in SPLITS}
        arrays = self._read([key for key, each in keys.items() if each in there])
        return {
            np.sort(nodes, axis=None).astype(np.int64).tobytes(): keys[key]
            for key, nodes in arrays.items()
        }

    def _chosen(self, wanted: Wanted, threat: Threat) -> Array | None:
        """The largest flips int64 [k, 2] within the budget."""
        targets = threat.targets.cpu().sort().values.numpy().tobytes()
        graph, split = self._splits.get(targets, ("", 0))
        keys = self._keys.get((graph, split, wanted.attack), [])
        fitting = [each for each in self._flips(keys) if 0 < len(each) <= threat.edge_budget]
        return max(fitting, key=len, default=None)

    def _flips(self, keys: Sequence[str]) -> list[Array]:
        """Pairs of nodes int [k, 2] of each key."""
        found = self._read(keys)
        for key, pairs in found.items():
            if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
                raise self._damaged(
                    f"{key} is {pairs.dtype} {list(pairs.shape)}, not pairs of nodes"
                )
        return [pairs.astype("int64") for pairs in found.values()]

    def _read(self, keys: Sequence[str]) -> dict[str, Array]:
        from grb_check.datasets.reading.npz import read_npz  # imports numpy

        try:
            return read_npz(self.path, dict.fromkeys(keys, sys.maxsize))
        except DataError as error:
            raise self._damaged(one_line(error)) from None

    def _damaged(self, reason: str) -> UsageError:
        return UsageError(f"pack {str(self.path)!r} is damaged: {reason}; {WHERE}")
