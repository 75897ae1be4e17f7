"""Charts as inline SVG; colours come from the page's style sheet by class."""

import math
from collections.abc import Callable, Sequence
from html import escape

from pleiades._numbers import count_text

WIDTH, HEIGHT = 640, 246
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 12, 46
Format = Callable[[float], str]


def _nice_step(span: float) -> float:
    rough = span / 4
    magnitude = 10.0 ** math.floor(math.log10(rough)) if rough > 0 else 1.0
    return next(
        magnitude * factor for factor in (1, 2, 2.5, 5, 10) if magnitude * factor >= rough * 0.999
    )


class Chart:
    """Axes and the marks in them; later marks lie on top."""

    def __init__(
        self,
        x_range: tuple[float, float],
        y_range: tuple[float, float],
        y_format: Format,
        x_format: Format = count_text,
        x_title: str = "token of the text",
        log_y: bool = False,
    ) -> None:
        self._x_range = x_range if x_range[1] > x_range[0] else (x_range[0], x_range[0] + 1)
        self._y_range = y_range
        self._log_y = log_y
        self._marks: list[str] = []
        self._axes(x_format, y_format)
        self._marks.append(
            f'<text class="tick" x="{WIDTH - RIGHT}" y="{HEIGHT - 8}">{escape(x_title)}</text>'
        )

    def x(self, value: float) -> float:
        """Pixels from the left."""
        begin, end = self._x_range
        return LEFT + (value - begin) / (end - begin) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        """Pixels from the top."""
        begin, end = self._y_range
        if self._log_y:
            begin, end, value = (math.log10(max(v, 1e-3)) for v in (begin, end, value))
        return HEIGHT - BOTTOM - (value - begin) / (end - begin) * (HEIGHT - TOP - BOTTOM)

    def _axes(self, x_format: Format, y_format: Format) -> None:
        begin, end = self._y_range
        if self._log_y:
            first, last = math.floor(math.log10(begin)), math.ceil(math.log10(end))
            ticks = [10.0**power for power in range(first, last + 1) if begin <= 10.0**power <= end]
        else:
            step = _nice_step(end - begin)
            ticks = [begin + step * i for i in range(int((end - begin) / step + 1e-9) + 1)]
        for tick in ticks:
            y = self.y(tick)
            self._marks.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
            label = escape(y_format(tick))
            self._marks.append(f'<text class="tick" x="{LEFT - 8}" y="{y + 4:.1f}">{label}</text>')
        begin, end = self._x_range
        step = _nice_step(end - begin)
        tick = math.ceil(begin / step) * step
        while tick <= end + step * 1e-9:
            self._marks.append(
                f'<text class="tick x" x="{self.x(tick):.1f}" y="{HEIGHT - BOTTOM + 18}">'
                f"{escape(x_format(tick))}</text>"
            )
            tick += step

    def line(self, xs: Sequence[float], ys: Sequence[float], name: str, area: bool = False) -> None:
        """A line of class `name`, with its area down to the axis."""
        points = [f"{self.x(x):.1f} {self.y(y):.1f}" for x, y in zip(xs, ys, strict=True)]
        path = "M" + "L".join(points)
        if area:
            base = HEIGHT - BOTTOM
            closed = f"{path}L{self.x(xs[-1]):.1f} {base}L{self.x(xs[0]):.1f} {base}Z"
            self._marks.append(f'<path class="area {name}" d="{closed}"/>')
        self._marks.append(f'<path class="line {name}" d="{path}"/>')

    def bar(self, x_begin: float, x_end: float, low: float, high: float, name: str, tip: str) -> None:
        """A bar of class `name` with a tooltip."""
        x, width = self.x(x_begin) + 0.5, max(self.x(x_end) - self.x(x_begin) - 1, 0.8)
        top, bottom = self.y(high), self.y(low)
        self._marks.append(
            f'<rect class="{name}" x="{x:.1f}" y="{top:.1f}" width="{width:.1f}" '
            f'height="{max(bottom - top, 0):.1f}"><title>{escape(tip)}</title></rect>'
        )

    def level(self, value: float) -> None:
        """A dashed line across."""
        self._marks.append(f'<path class="level" d="M{LEFT} {self.y(value):.1f}H{WIDTH - RIGHT}"/>')

    def svg(self, label: str) -> str:
        """The chart; `label` is what a screen reader says."""
        base = f'<path class="axis" d="M{LEFT} {HEIGHT - BOTTOM}H{WIDTH - RIGHT}"/>'
        marks = "".join(self._marks)
        return (
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">'
            f"{marks}{base}</svg>"
        )
