"""Draws small charts side by side as one SVG, for light and dark pages: both axes logarithmic, one line a subject."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 410, 270
LEFT, RIGHT, TOP, BOTTOM = 58, 18, 44, 40
COLUMNS = 2
LEGEND_HEIGHT = 34

COLOURS = {"gpuspawner": "ours", "reflector": "reflector", "list per request": "lister"}
LEGEND = {
    "gpuspawner": "gpuspawner",
    "reflector": "reflector of KubeSpawner, all pods",
    "list per request": "all nodes listed for each request",
}
STYLE = """
svg { font: 12px system-ui, sans-serif; --ink: #24292f; --faint: #d0d7de; --page: #ffffff;
  --ours: #0a7d4f; --reflector: #c4461b; --lister: #5b4fc9; }
@media (prefers-color-scheme: dark) {
  svg { --ink: #e6edf3; --faint: #373e47; --page: #0d1117; --ours: #3fbf86; --reflector: #ff8a5c; --lister: #a79bff; }
}
text { fill: var(--ink) } .title { font-weight: 600 } .grid { stroke: var(--faint) } .page { fill: var(--page) }
.line { fill: none; stroke-width: 2.2 } .mid { text-anchor: middle } .end { text-anchor: end }
.ours { stroke: var(--ours) } .reflector { stroke: var(--reflector) } .lister { stroke: var(--lister) }
circle.ours { fill: var(--ours) } circle.reflector { fill: var(--reflector) } circle.lister { fill: var(--lister) }
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One chart.

    :param lines: by subject, a value for each size; None where it was not measured.
    """

    title: str
    unit: str
    lines: Mapping[str, Sequence[float | None]]


def draw(panels: Sequence[Panel], *, sizes: Sequence[int]) -> str:
    """Return the charts as SVG.

    :param sizes: numbers of nodes, one for each value of a line.
    """
    rows = math.ceil(len(panels) / COLUMNS)
    width, height = COLUMNS * WIDTH, rows * HEIGHT + LEGEND_HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"'
        f' aria-label="Cost against the number of nodes">',
        f'<style>{STYLE}</style><rect class="page" width="{width}" height="{height}"/>',
        *_legend(),
    ]
    for number, panel in enumerate(panels):
        x, y = number % COLUMNS * WIDTH, number // COLUMNS * HEIGHT + LEGEND_HEIGHT
        parts += [f'<g transform="translate({x},{y})">', *_panel(panel, sizes), "</g>"]
    return "\n".join([*parts, "</svg>", ""])


def _legend() -> Iterator[str]:
    x = LEFT
    for name, words in LEGEND.items():
        yield f'<path class="line {COLOURS[name]}" d="M{x} 22h22"/><text x="{x + 28}" y="26">{escape(words)}</text>'
        x += 56 + round(6.4 * len(words))


def _panel(panel: Panel, sizes: Sequence[int]) -> Iterator[str]:
    across = _Scale(min(sizes), max(sizes), begin=LEFT, end=WIDTH - RIGHT)
    values = [value for line in panel.lines.values() for value in line if value is not None and value > 0]
    low, high = min(values, default=1.0), max(values, default=10.0)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    up = _Scale(10.0 ** decades[0], 10.0 ** max(decades[-1], decades[0] + 1), begin=HEIGHT - BOTTOM, end=TOP)
    yield f'<text class="title" x="{LEFT}" y="22">{escape(panel.title)}, {escape(panel.unit)}</text>'
    for decade in decades:
        y = up.at(10.0**decade)
        yield f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>'
        yield f'<text class="end" x="{LEFT - 6}" y="{y + 4:.1f}">{10.0**decade:,g}</text>'
    for size in sizes:
        yield f'<text class="mid" x="{across.at(size):.1f}" y="{HEIGHT - BOTTOM + 18}">{size:,}</text>'
    yield f'<text class="mid" x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 6}">nodes</text>'
    for name, line in panel.lines.items():
        points = [
            (across.at(size), up.at(value))
            for size, value in zip(sizes, line, strict=True)
            if value is not None and value > 0
        ]
        if points:
            path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
            yield f'<path class="line {COLOURS[name]}" d="M{path}"/>'
            yield from (f'<circle class="{COLOURS[name]}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in points)


class _Scale:
    """A logarithmic axis from ``low`` at ``begin`` to ``high`` at ``end``."""

    def __init__(self, low: float, high: float, *, begin: float, end: float) -> None:
        self._low = math.log10(low)
        self._length = math.log10(high) - self._low or 1.0
        self._begin, self._end = begin, end

    def at(self, value: float) -> float:
        """Return where a value stands."""
        return self._begin + (self._end - self._begin) * (math.log10(value) - self._low) / self._length
