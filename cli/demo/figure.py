"""The figure of the demonstration: how fast it went, and who was told about what.

Two panels of one colour family. Left, flights per second over publishing time, with a line where a new
layout took over. Right, the routes with the most reported alerts. matplotlib is imported inside the
function, with the Agg canvas: no display is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

BINS_MAX = 60
BIN_S_MIN = 0.2
ROUTES_SHOWN = 15
LABEL_BOX = {"facecolor": "white", "edgecolor": "none", "alpha": 0.9, "pad": 1.5}
BLUE, BLUE_LIGHT, ORANGE, INK, GREY = "#1f5a93", "#c9dcee", "#d9661f", "#22303c", "#8a97a3"


@dataclass(frozen=True, slots=True)
class FigureData:
    """What is drawn.

    Attributes
    ----------
    answered_s : float64[batches]
        When each batch was answered, in seconds of publishing time.
    event_counts : int64[batches]
    swaps : list of (float, int)
        When a generation first answered, and its number.
    routes : list of (str, int, int)
        Route, alerts reported, flights; most alerts first.
    title, subtitle : str
    """

    answered_s: NDArray[np.float64]
    event_counts: NDArray[np.int64]
    swaps: list[tuple[float, int]]
    routes: list[tuple[str, int, int]]
    title: str
    subtitle: str


def throughput(
    answered_s: NDArray[np.float64], event_counts: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return edges of time bins in seconds and events per second in each.

    A short run has one bin for each batch. In a long one a batch's events are spread evenly over the time
    since the answer before it, so that bins narrower than a batch do not jump between nothing and everything.
    """
    end_s = max(float(answered_s[-1]), 1e-6)
    bin_count = int(np.clip(end_s / BIN_S_MIN, 1, BINS_MAX))
    edges = np.linspace(0.0, end_s, bin_count + 1)
    if len(answered_s) <= BINS_MAX:
        edges = np.unique(np.concatenate(([0.0], answered_s[:-1], [end_s])))
    done = np.interp(
        edges, np.concatenate(([0.0], answered_s)), np.concatenate(([0], np.cumsum(event_counts)))
    )
    return edges, np.diff(done) / np.diff(edges)


def draw(data: FigureData, path: Path) -> None:
    """Draw the figure into a PNG file."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    settings: Any = {
        "font.family": "DejaVu Sans", "font.size": 10, "axes.edgecolor": GREY, "axes.labelcolor": INK,
        "text.color": INK, "xtick.color": INK, "ytick.color": INK, "axes.spines.top": False,
        "axes.spines.right": False,
    }  # fmt: skip
    with pyplot.rc_context(settings):
        figure, (left, right) = pyplot.subplots(
            1, 2, figsize=(13, 6.2), gridspec_kw={"width_ratios": [1.25, 1]}, dpi=120
        )
        _draw_throughput(left, data)
        _draw_routes(right, data)
        figure.suptitle(data.title, x=0.012, y=0.975, ha="left", fontsize=15, fontweight="bold")
        figure.text(0.012, 0.905, data.subtitle, ha="left", fontsize=10, color=GREY)
        figure.tight_layout(rect=(0, 0, 1, 0.95), w_pad=3.0)
        figure.savefig(path)
        pyplot.close(figure)


def _draw_throughput(axes: Any, data: FigureData) -> None:
    edges, rate = throughput(data.answered_s, data.event_counts)
    axes.stairs(rate, edges, fill=True, color=BLUE_LIGHT)
    axes.stairs(rate, edges, color=BLUE, linewidth=1.6)
    top = float(rate.max()) * 1.22
    for i, (at_s, generation) in enumerate(data.swaps):
        axes.axvline(at_s, color=ORANGE, linewidth=1.2, linestyle=(0, (4, 3)))
        near_right = at_s > 0.85 * edges[-1]
        axes.annotate(
            f"generation {generation}", (at_s, top), xytext=(-4 if near_right else 4, -4 - 12 * (i % 3)),
            textcoords="offset points", va="top", ha="right" if near_right else "left", fontsize=8.5,
            color=ORANGE, bbox=LABEL_BOX,
        )  # fmt: skip
    mean = float(data.event_counts.sum() / edges[-1])
    axes.axhline(mean, color=INK, linewidth=0.8)
    axes.annotate(
        f"mean {mean:,.0f}/s", (edges[-1], mean), xytext=(-4, 5), textcoords="offset points", ha="right",
        fontsize=9, bbox=LABEL_BOX,
    )  # fmt: skip
    axes.set_xlim(0, edges[-1] * 1.04)
    axes.set_ylim(0, top)
    axes.set_xlabel("publishing time (s)")
    axes.set_ylabel("flights matched per second (1/s)")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_title("Throughput; dashed: a new layout takes over", loc="left", fontsize=11, pad=10)


def _draw_routes(axes: Any, data: FigureData) -> None:
    shown = data.routes[:ROUTES_SHOWN]
    position = np.arange(len(shown))
    counts = np.array([count for _, count, _ in shown], dtype=np.float64)
    in_thousands = bool(counts.max(initial=0) >= 5_000)
    counts /= 1000 if in_thousands else 1
    axes.barh(position, counts, color=BLUE, height=0.68)
    for y, (_, _, flights), count in zip(position, shown, counts, strict=True):
        axes.annotate(
            f"{flights:,} flights", (count, y), xytext=(4, 0), textcoords="offset points", va="center",
            fontsize=8.5, color=GREY,
        )  # fmt: skip
    axes.set_yticks(position, [route for route, _, _ in shown])
    axes.invert_yaxis()
    axes.set_xlim(0, float(counts.max(initial=0.001)) * 1.25)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("alerts reported (thousands)" if in_thousands else "alerts reported")
    axes.set_ylabel("route (origin to destination)")
    axes.set_title("Alerts per route, the busiest ones", loc="left", fontsize=11, pad=10)
