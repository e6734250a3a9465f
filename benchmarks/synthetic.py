"""Graphs of GRB's published sizes, generated from a seed: for measurements without a download."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import ndtri

from benchmarks.grb_writer import write_folder
from grb_check.datasets.formats.grb_files import FILES
from grb_check.datasets.reading.npz import blocks
from grb_check.datasets.splits import Split, grb_split
from grb_check.errors import UsageError, count

Int64Array = NDArray[np.int64]

_STEP: Final = 1 / 16  # grid of the feature values, so that the files compress
_LOWEST: Final = -2.3125  # grb-cora: -2.3
_HIGHEST: Final = 2.375  # grb-cora: 2.4
_TAIL_FROM: Final = 1.5  # standard deviations above the median degree


@dataclass(frozen=True, kw_only=True)
class DegreeShape:
    """Wanted degrees: log-normal with different widths below and above the median, heavy tail.

    Attributes:
        centre: logarithm of the median degree.
        below: standard deviation of the logarithm below the median.
        above: the same above the median.
        tail: added to `above` from 1.5 standard deviations on.
    """

    centre: float
    below: float
    above: float
    tail: float


@dataclass(frozen=True, kw_only=True)
class Preset:
    """Parameters of a synthetic graph besides its seed.

    Attributes:
        name: as in case ids.
        class_sizes: nodes of each class.
        num_edges: undirected edges; at most a quarter of all pairs of nodes.
        num_features: columns of the feature matrix.
        degrees: wanted degrees; their sum is a little more than `2 * num_edges`, because self-loops
            and repeated pairs are dropped.
        homophily: share of edge ends that are joined within their own community.
        misplaced: share of nodes in the community of a random node instead of their class.
        signal: standard deviation of the centres of the communities in each feature.
        noise: standard deviation of the features around their centre.
    """

    name: str
    class_sizes: tuple[int, ...]
    num_edges: int
    num_features: int
    degrees: DegreeShape
    homophily: float
    misplaced: float
    signal: float
    noise: float

    def __post_init__(self) -> None:
        most = self.num_nodes * (self.num_nodes - 1) // 8
        if not 0 < self.num_edges <= most:
            msg = (
                f"preset {self.name}: {count(self.num_edges, 'edge')}; "
                f"with {count(self.num_nodes, 'node')}, 1 to {most} are allowed"
            )
            raise UsageError(msg)

    @property
    def num_nodes(self) -> int:
        """Number of nodes of all classes."""
        return sum(self.class_sizes)


@dataclass(frozen=True, eq=False, kw_only=True)
class Synthetic:
    """Arrays of a graph as in GRB's four files.

    Attributes:
        adjacency: float32 csr [num_nodes, num_nodes] of ones, symmetric, no self-loop, int32
            indices, sorted.
        features: raw, float32 [num_nodes, num_features].
        labels: int64 [num_nodes].
        split: GRB's, with the seed of its own code.
    """

    adjacency: sp.csr_matrix
    features: NDArray[np.float32]
    labels: Int64Array
    split: Split


def generate(preset: Preset, seed: int) -> Synthetic:
    """Generate the graph of a preset and a seed, which determine every bit.

    Args:
        preset: parameters of the graph.
        seed: non-negative.

    Raises:
        UsageError: a negative seed.
        DataError: fewer than ten nodes, too few for GRB's split.
    """
    if seed < 0:
        raise UsageError(f"preset {preset.name}: the seed is {seed}; give 0 or a positive number")
    rng = np.random.default_rng(seed)
    sizes = preset.class_sizes
    labels: Int64Array = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    misplaced = rng.random(labels.size) < preset.misplaced
    community = np.where(misplaced, rng.permutation(labels), labels)
    adjacency = _symmetric(draw_edges(preset, community, rng), preset.num_nodes)
    return Synthetic(
        adjacency=adjacency,
        features=draw_features(preset, community, rng),
        labels=labels,
        split=grb_split(np.diff(adjacency.indptr).astype(np.int64)),
    )


def prepare(name: str, home: Path, *, seed: int = 0) -> Path:
    """Return the four-file directory of a preset, which is generated if it does not exist.

    Args:
        name: a key of `PRESETS`.
        home: the data directory; created if missing.
        seed: 0 for `home/name`, any other for `home/name-seed-N`.

    Returns:
        A directory in GRB's four-file format, uncompressed.

    Raises:
        UsageError: an unknown preset, or a negative seed.
    """
    if name not in PRESETS:
        raise UsageError(f"synthetic dataset {name!r}: known are {', '.join(PRESETS)}")
    folder = home / (name if seed == 0 else f"{name}-seed-{seed}")
    if not all((folder / file).is_file() for file in FILES):
        write(generate(PRESETS[name], seed), folder)
    return folder


def degree_sequence(preset: Preset) -> Int64Array:
    """Return the wanted degrees in ascending order, int64 [num_nodes]."""
    shape = preset.degrees
    z = ndtri((np.arange(preset.num_nodes) + 0.5) / preset.num_nodes)
    tail = shape.tail * np.maximum(z - _TAIL_FROM, 0)
    log_degree = shape.centre + np.where(z < 0, shape.below, shape.above) * z + tail
    degrees: Int64Array = np.rint(np.exp(log_degree)).astype(np.int64)
    return degrees


def draw_edges(preset: Preset, community: Int64Array, rng: np.random.Generator) -> Int64Array:
    """Draw undirected pairs, int64 [2, num_edges], each once, first < second.

    A configuration model: the ends of all edges are shuffled and joined in pairs, a share of them
    within communities. Self-loops, repeated pairs and the surplus are dropped. If too few are left,
    ends at random nodes are joined in the same way.
    """
    keys = _join(_wanted_ends(preset, rng), preset, community, rng)
    while keys.size < preset.num_edges:
        num_ends = 2 * (preset.num_edges - keys.size)
        ends = rng.integers(0, preset.num_nodes, num_ends)
        keys = _distinct(np.concatenate([keys, _join(ends, preset, community, rng)]))
    selected = keys[rng.permutation(keys.size)[: preset.num_edges]]
    return np.stack(np.divmod(selected, preset.num_nodes))


def draw_features(
    preset: Preset, community: Int64Array, rng: np.random.Generator
) -> NDArray[np.float32]:
    """Draw float32 [num_nodes, num_features] on a grid: a centre per community, and noise."""
    num_features = preset.num_features
    centres = rng.normal(0, preset.signal, (len(preset.class_sizes), num_features))
    features = np.empty((preset.num_nodes, num_features), dtype=np.float32)
    for rows in blocks(features):
        block = rng.normal(0, preset.noise, features[rows].shape)
        block += centres[community[rows]]
        block /= _STEP
        np.rint(block, out=block)
        block *= _STEP
        np.clip(block, _LOWEST, _HIGHEST, out=block)
        features[rows] = block
    return features


def _wanted_ends(preset: Preset, rng: np.random.Generator) -> Int64Array:
    ends: Int64Array = np.repeat(rng.permutation(preset.num_nodes), degree_sequence(preset))
    return ends


def _join(
    ends: Int64Array, preset: Preset, community: Int64Array, rng: np.random.Generator
) -> Int64Array:
    """Return sorted keys `first * num_nodes + second` of the pairs that join these ends."""
    at_home = rng.random(ends.size) < preset.homophily
    pool = np.where(at_home, community[ends], len(preset.class_sizes))
    order = np.argsort(pool + rng.random(ends.size), kind="stable")
    first, second = ends[order[: ends.size // 2 * 2]].reshape(-1, 2).T
    keys = np.minimum(first, second) * preset.num_nodes + np.maximum(first, second)
    return _distinct(keys[first != second])


def _distinct(keys: Int64Array) -> Int64Array:
    """Sort, each key once. `np.unique` of newer numpy hashes, which takes ten times as long."""
    keys.sort()
    return keys[np.diff(keys, prepend=-1) > 0]


def _symmetric(pairs: Int64Array, num_nodes: int) -> sp.csr_matrix:
    ends = pairs.astype(np.int32)
    rows, columns = np.concatenate([ends, ends[::-1]], axis=1)
    ones = np.ones(rows.size, dtype=np.float32)
    matrix = sp.csr_matrix((ones, (rows, columns)), shape=(num_nodes, num_nodes))
    matrix.sort_indices()
    return matrix


def write(graph: Synthetic, folder: Path, *, compress: bool = False) -> None:
    """Write a graph in GRB's four-file format."""
    write_folder(
        folder,
        adjacency=graph.adjacency,
        features=graph.features,
        labels=graph.labels,
        split=graph.split,
        compress=compress,
    )


def _uneven(num_nodes: int, num_classes: int, ratio: float) -> tuple[int, ...]:
    """Return class sizes in geometric progression; the largest is `ratio` times the smallest."""
    weights = [ratio ** (-i / (num_classes - 1)) for i in range(num_classes)]
    sizes = [int(num_nodes * weight / sum(weights)) for weight in weights]
    return (sizes[0] + num_nodes - sum(sizes), *sizes[1:])


SYNTHETIC_CORA: Final = Preset(
    name="synthetic-cora",
    class_sizes=(348, 216, 412, 809, 421, 296, 178),
    num_edges=5148,
    num_features=302,
    degrees=DegreeShape(centre=1.105, below=0.78, above=0.61, tail=0.82),
    homophily=0.92,
    misplaced=0.145,
    signal=0.082,
    noise=0.55,
)
"""The bundled graph, which is shipped and therefore not one of `PRESETS`."""

_SCALES: Final = (
    Preset(
        name="synthetic-flickr",
        class_sizes=_uneven(89_250, 7, 6),
        num_edges=449_878,
        num_features=500,
        degrees=DegreeShape(centre=1.737, below=0.1445, above=0.7032, tail=1.1444),
        homophily=0.315,
        misplaced=0.1,
        signal=0.035,
        noise=0.55,
    ),
    Preset(
        name="synthetic-reddit",
        class_sizes=_uneven(232_965, 41, 20),
        num_edges=11_606_919,
        num_features=602,
        degrees=DegreeShape(centre=4.25, below=1.0115, above=0.8448, tail=0.2415),
        homophily=0.85,
        misplaced=0.06,
        signal=0.045,
        noise=0.55,
    ),
    Preset(
        name="synthetic-aminer",
        class_sizes=_uneven(659_574, 18, 10),
        num_edges=2_878_577,
        num_features=100,
        degrees=DegreeShape(centre=1.6156, below=1.1178, above=1.0154, tail=0.1952),
        homophily=0.7,
        misplaced=0.1,
        signal=0.1,
        noise=0.55,
    ),
)

PRESETS: Final[Mapping[str, Preset]] = MappingProxyType({p.name: p for p in _SCALES})
"""Name -> preset of the sizes in Table 2 of the GRB paper that are too large to commit."""
