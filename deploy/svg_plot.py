"""Panels of lines as one SVG file, without further packages: for the documents.

    write_panels("out.svg", [Panel("uncertainty", [Line("Fulcrum", [(1000, 0.1), (10000, 0.3)])])], "rows", "seconds",
                 logarithmic=True)

Text is dark on white, also on pages with a dark background. Lines keep their colour and their mark in all panels: the
colours are those of Okabe and Ito, which people with any colour vision can distinguish, and the marks help in print.
"""
import dataclasses
import html
import math

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999")
MARKS = ("circle", "square", "triangle", "diamond")
WIDTH, PANELS_PER_ROW = 960, 3
LEFT, RIGHT, TOP, BOTTOM, ROW = 58, 28, 34, 42, 260
LEGEND_LINE = 22


@dataclasses.dataclass
class Line:
    name: str
    points: list       # (x, y), ascending by x
    band: list = None  # (x, low, high): drawn behind the line


@dataclasses.dataclass
class Panel:
    title: str
    lines: list


class Scale:
    """Maps values to pixels, linearly or by the logarithm."""

    def __init__(self, values, first, last, logarithmic):
        self.log, self.first, self.last = logarithmic, first, last
        low, high = min(values), max(values)
        if logarithmic:
            # Whole powers of ten around the values.
            low, high = 10 ** math.floor(math.log10(low) + 1e-9), 10 ** math.ceil(math.log10(high) - 1e-9)
            high = high if high > low else 10 * low
        elif high == low:
            high = low + 1
        self.low, self.high = low, high

    def __call__(self, value):
        to = math.log10 if self.log else float
        return self.first + (to(value) - to(self.low)) / (to(self.high) - to(self.low)) * (self.last - self.first)

    def ticks(self):
        if self.log:
            powers = range(round(math.log10(self.low)), round(math.log10(self.high)) + 1)
            return [10.0 ** power for power in powers]
        rough = (self.high - self.low) / 5
        step = next(size for power in range(-6, 12) for size in (10.0 ** power, 2 * 10.0 ** power, 5 * 10.0 ** power)
                    if size >= rough)
        return [step * i for i in range(math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9) + 1)]


def tick_text(value):
    return f"{value:,.0f}" if value >= 1 and value == round(value) else f"{value:g}"


def mark(kind, x, y, color):
    r = 3.2
    if kind == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r}" fill="{color}"/>'
    corners = {"square": ((-r, -r), (r, -r), (r, r), (-r, r)), "triangle": ((0, -1.3 * r), (1.2 * r, r), (-1.2 * r, r)),
               "diamond": ((0, -1.4 * r), (1.4 * r, 0), (0, 1.4 * r), (-1.4 * r, 0))}[kind]
    points = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in corners)
    return f'<polygon points="{points}" fill="{color}"/>'


def text(x, y, content, anchor="middle", more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{html.escape(content)}</text>'


def panel_svg(panel, box, styles, names, logarithmic, marks):
    """The elements of a panel inside box = (left, top, width, height)."""
    left, top, width, height = box
    x_name, y_name = names
    points = [point for line in panel.lines for point in line.points]
    # Wide bands of the first points would flatten the lines: bands do not stretch the axis.
    x = Scale([p[0] for p in points], left + LEFT, left + width - RIGHT, logarithmic)
    y = Scale([p[1] for p in points], top + height - BOTTOM, top + TOP, logarithmic)
    parts = [text(left + LEFT, top + 18, panel.title, "start", ' font-weight="bold"')]
    for tick in y.ticks():
        parts.append(f'<line x1="{x.first:.1f}" x2="{x.last:.1f}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" stroke="#ddd"/>')
        parts.append(text(x.first - 6, y(tick) + 4, tick_text(tick), "end"))
    for tick in x.ticks():
        parts.append(f'<line x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{y.first:.1f}" y2="{y.last:.1f}" stroke="#eee"/>')
        parts.append(text(x(tick), y.first + 16, tick_text(tick)))
    parts.append(text((x.first + x.last) / 2, y.first + 33, x_name))
    parts.append(text(left + 13, (y.first + y.last) / 2, y_name,
                      more=f' transform="rotate(-90 {left + 13:.1f} {(y.first + y.last) / 2:.1f})"'))
    for line in panel.lines:
        color, kind = styles[line.name]
        if line.band:
            inside = [(x(at), y(min(max(low, y.low), y.high)), y(min(max(high, y.low), y.high))) for at, low, high in line.band]
            edge = [f"{at:.1f},{high:.1f}" for at, _, high in inside] + [f"{at:.1f},{low:.1f}" for at, low, _ in reversed(inside)]
            parts.append(f'<polygon points="{" ".join(edge)}" fill="{color}" opacity="0.15"/>')
    for line in panel.lines:
        color, kind = styles[line.name]
        shown = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in line.points)
        parts.append(f'<polyline points="{shown}" fill="none" stroke="{color}" stroke-width="1.8"><title>'
                     f"{html.escape(line.name)}</title></polyline>")
        if marks:
            parts += [mark(kind, x(at), y(value), color) for at, value in line.points]
    return parts


def write_panels(path, panels, x_name, y_name, logarithmic=False, marks=True):
    """Writes the panels, with one legend below them. Panels and lines without points are left out, and so are points that
    have no logarithm."""
    if logarithmic:
        panels = [Panel(panel.title, [Line(line.name, [point for point in line.points if min(point) > 0], line.band)
                                      for line in panel.lines]) for panel in panels]
    panels = [Panel(panel.title, [line for line in panel.lines if line.points]) for panel in panels]
    panels = [panel for panel in panels if panel.lines]
    if not panels:
        raise ValueError("there is nothing to draw")
    names = list(dict.fromkeys(line.name for panel in panels for line in panel.lines))
    styles = {name: (COLORS[i % len(COLORS)], MARKS[(i + i // len(COLORS)) % len(MARKS)]) for i, name in enumerate(names)}
    columns = 2 if len(panels) == 4 else min(PANELS_PER_ROW, len(panels))
    width, rows = WIDTH / columns, -(-len(panels) // columns)
    row_height = ROW if columns > 1 else 1.4 * ROW
    parts = []
    for i, panel in enumerate(panels):
        box = (i % columns * width, i // columns * row_height, width, row_height)
        parts += panel_svg(panel, box, styles, (x_name, y_name), logarithmic, marks)
    at, below = LEFT, rows * row_height + 16
    for name in names:
        color, kind = styles[name]
        needed = 44 + 7.2 * len(name)
        if at + needed > WIDTH:
            at, below = LEFT, below + LEGEND_LINE
        parts.append(f'<line x1="{at:.1f}" x2="{at + 24:.1f}" y1="{below:.1f}" y2="{below:.1f}" stroke="{color}" stroke-width="1.8"/>')
        parts += [mark(kind, at + 12, below, color)] if marks else []
        parts.append(text(at + 30, below + 4, name, "start"))
        at += needed
    height = below + LEGEND_LINE
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" font-family="sans-serif" '
                   f'font-size="12" fill="#222">\n<rect width="{WIDTH}" height="{height:.0f}" fill="#fff"/>\n')
        file.write("\n".join(parts) + "\n</svg>\n")
