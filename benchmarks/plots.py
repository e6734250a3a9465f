"""Plots as SVG files; matplotlib is needed for nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import cycle
from pathlib import Path


@dataclass(frozen=True)
class Panel:
    """One pair of axes: a label for each line, and its points (x, y) in the order of x."""

    title: str
    x_label: str
    lines: Mapping[str, Sequence[tuple[float, float]]]
    log_x: bool = False
    log_y: bool = False


def check_plots() -> None:
    """Raise before long work if plots cannot be drawn.

    Raises:
        SystemExit: matplotlib is not installed.
    """
    if find_spec("matplotlib") is None:
        raise SystemExit("--out writes plots, which need matplotlib: pip install matplotlib")


def draw(panels: Sequence[Panel], path: Path) -> None:
    """Write the panels side by side; their lines share one legend."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5 * len(panels), 4), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for panel, axis in zip(panels, axes, strict=True):
        shown = {label: points for label, points in panel.lines.items() if points}
        for label, points in shown.items():
            axis.plot([x for x, _ in points], [y for _, y in points], marker=".", label=label)
        axis.set_title(panel.title)
        axis.set_xlabel(panel.x_label)
        # A logarithmic axis without a point is an error of matplotlib's.
        axis.set_xscale("log" if panel.log_x and shown else "linear")
        axis.set_yscale("log" if panel.log_y and shown else "linear")
        axis.grid(alpha=0.3)
    axes[-1].legend(fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})


@dataclass(frozen=True)
class Marks:
    """One pair of axes with single points (x, y), each with its label; x is logarithmic."""

    title: str
    x_label: str
    y_label: str
    points: Mapping[str, tuple[float, float]]


def draw_marks(panels: Sequence[Marks], path: Path) -> None:
    """Write the panels side by side; what begins with `PyG` has hollow marks."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.5 * len(panels), 4), layout="constrained")
    for panel, axis in zip(panels, figure.subplots(1, len(panels), squeeze=False)[0], strict=True):
        for shape, (label, (x, y)) in zip(cycle("osD^v<>P"), panel.points.items(), strict=False):
            fill = "none" if label.startswith("PyG") else "full"
            axis.plot([x], [y], shape, markersize=8, fillstyle=fill, label=label)
        axis.legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
        axis.set_title(panel.title)
        axis.set_xlabel(panel.x_label)
        axis.set_ylabel(panel.y_label)
        axis.set_xscale("log")
        axis.grid(alpha=0.3)
        axis.margins(0.1)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
