"""Where everything in a plot stands, worked out before anything is drawn, so that a test can ask whether texts overlap. Pure."""

from dataclasses import dataclass, field

import ticks

WIDTH, PLOT_HEIGHT = 560.0, 300.0
PAD = 14.0
TITLE, SMALL, TICK = 15.0, 11.5, 11.5  # font sizes
GAP = 5.0       # between two texts, at least
RIGHT = 28.0     # half of the last size fits
TICK_MARK = 5.0
SWATCH = 26.0   # the piece of line in the legend

# Advance widths of a wide font (DejaVu Sans) per em: what is really shown is narrower.
_WIDE, _NARROW = set("mwMWOQGD%@"), set("ijltfrI.,:;'()[]|! -")


def text_width(text, size, weight="normal"):
    em = sum(0.9 if char in _WIDE else 0.4 if char in _NARROW else 0.65 for char in text)
    return em * size * (1.1 if weight == "bold" else 1.0)


@dataclass
class Box:
    """A rectangle, y downwards."""
    x: float
    y: float
    width: float
    height: float

    def overlaps(self, other, gap=0.0):
        return (self.x < other.x + other.width + gap and other.x < self.x + self.width + gap and
                self.y < other.y + other.height + gap and other.y < self.y + self.height + gap)

    def inside(self, other):
        return (other.x <= self.x and self.x + self.width <= other.x + other.width and
                other.y <= self.y and self.y + self.height <= other.y + other.height)

    def crossed_by(self, a, b):
        """Whether the line from a to b enters: clipped against each side (Liang and Barsky)."""
        first, last = 0.0, 1.0
        for delta, start, low, high in ((b[0] - a[0], a[0], self.x, self.x + self.width),
                                        (b[1] - a[1], a[1], self.y, self.y + self.height)):
            if delta == 0:
                if not low <= start <= high:
                    return False
                continue
            enter, leave = sorted(((low - start) / delta, (high - start) / delta))
            first, last = max(first, enter), min(last, leave)
        return first <= last


@dataclass
class Text:
    """x, y: of the anchor, on the base line."""
    text: str
    x: float
    y: float
    size: float = TICK
    anchor: str = "start"
    role: str = "tick"
    weight: str = "normal"

    @property
    def box(self):
        width = text_width(self.text, self.size, self.weight)
        left = {"start": self.x, "middle": self.x - width / 2, "end": self.x - width}[self.anchor]
        return Box(left, self.y - 0.8 * self.size, width, self.size * 1.05)


@dataclass
class Curve:
    """points: (size, value, what the pointer shows). style: number of the colour and marker; dash: of the line."""
    name: str
    points: list
    style: int = 0
    dash: str = ""


@dataclass
class Ceiling:
    """A line across the plot: what the links let through, or (role "yardstick") something else to compare with."""
    value: float
    text: str
    role: str = "ceiling"


@dataclass
class Plot:
    title: str
    label: str  # what kind of figures these are
    x_title: str
    y_title: str
    x_axis: object
    y_axis: object
    curves: list
    ceilings: list = field(default_factory=list)


@dataclass
class Layout:
    plot: Plot
    area: Box = None
    height: float = 0.0
    texts: list = field(default_factory=list)
    swatches: list = field(default_factory=list)  # (x, y, curve)

    def at(self, size, value):
        area = self.area
        return (area.x + self.plot.x_axis.place(size) * area.width, area.y + area.height * (1 - self.plot.y_axis.place(value)))

    @property
    def frame(self):
        return Box(0, 0, WIDTH, self.height)

    def lines(self):
        """Every straight piece of every curve."""
        for curve in self.plot.curves:
            spots = [self.at(size, value) for size, value, _ in curve.points]
            yield from zip(spots, spots[1:] or spots)


def wrap(text, size, width, weight="normal"):
    """Lines that fit, cut between words."""
    lines = [""]
    for word in text.split():
        longer = (lines[-1] + " " + word).strip()
        if lines[-1] and text_width(longer, size, weight) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def _head(layout):
    """Title, label and the title of the y axis; the y where the area begins."""
    y = PAD
    for text, size, role, weight in ((layout.plot.title, TITLE, "title", "bold"), (layout.plot.label, SMALL, "label", "normal")):
        for line in wrap(text, size, WIDTH - 2 * PAD, weight):
            y += size
            layout.texts.append(Text(line, PAD, y, size, role=role, weight=weight))
            y += 0.35 * size
        y += 2
    y += 10 + SMALL
    layout.texts.append(Text(layout.plot.y_title, PAD, y, SMALL, role="axis", weight="bold"))
    return y + 14


def _fits(text, others):
    return not any(text.box.overlaps(other.box, GAP) for other in others)


def _x_ticks(layout):
    """Labels of the size axis: as many as stand beside one another, evenly; the first always."""
    area, axis = layout.area, layout.plot.x_axis
    y = area.y + area.height + TICK_MARK + 4 + TICK
    for every in range(1, len(axis.ticks) + 1):
        labels = []
        for tick in axis.ticks[::every]:
            text = Text(ticks.size_text(tick), area.x + axis.place(tick) * area.width, y, anchor="middle")
            if text.box.x + text.box.width > WIDTH - 2:
                text = Text(text.text, WIDTH - 2, y, anchor="end")
            labels.append(text)
        if all(not a.box.overlaps(b.box, GAP) for a, b in zip(labels, labels[1:])):
            break
    layout.texts += labels
    layout.texts.append(Text(layout.plot.x_title, area.x + area.width / 2, y + 10 + SMALL, SMALL, "middle", "axis", "bold"))
    return y + 10 + SMALL


def shorten(text, size, width):
    """The text, or as much of it as fits, with an ellipsis."""
    if text_width(text, size) <= width:
        return text
    while text and text_width(text + "\u2026", size) > width:
        text = text[:-1]
    return text + "\u2026"


def _legend(layout, y):
    """Rows below the plot, left to right; the y below the last."""
    x = PAD
    y += 12 + TICK
    for curve in layout.plot.curves:
        name = shorten(curve.name, TICK, WIDTH - 2 * PAD - SWATCH - 6)
        width = SWATCH + 6 + text_width(name, TICK)
        if x > PAD and x + width > WIDTH - PAD:
            x, y = PAD, y + 19
        layout.swatches.append((x, y - 0.35 * TICK, curve))
        layout.texts.append(Text(name, x + SWATCH + 6, y, role="legend"))
        x += width + 18
    return y + PAD


def _ceiling_labels(layout):
    """Each beside its line, where no text and, if it can be, no curve is."""
    area = layout.area
    lines = list(layout.lines())
    own = [layout.at(1, ceiling.value)[1] for ceiling in layout.plot.ceilings]
    for ceiling, y in zip(layout.plot.ceilings, own):
        spots = [Text(ceiling.text, area.x + 6 + share * area.width, y + down, role=ceiling.role, anchor=anchor)
                 for down in (-5, TICK + 3) for share, anchor in ((0, "start"), (0.45, "middle"), (0.98, "end"))]
        free = [spot for spot in spots if _fits(spot, layout.texts) and area.y - TICK - 2 <= spot.box.y and
                not any(spot.box.y < other < spot.box.y + spot.box.height for other in own)]
        clear = [spot for spot in free if not any(spot.box.crossed_by(a, b) for a, b in lines)]
        if free:
            layout.texts.append((clear or free)[0])


def lay_out(plot):
    layout = Layout(plot)
    labels = [ticks.number_text(tick) for tick in plot.y_axis.ticks]
    left = PAD + max(text_width(label, TICK) for label in labels) + TICK_MARK + 4
    top = _head(layout)
    layout.area = Box(left, top, WIDTH - left - RIGHT, PLOT_HEIGHT)
    for tick, label in zip(plot.y_axis.ticks, labels):
        y = layout.at(1, tick)[1]
        layout.texts.append(Text(label, left - TICK_MARK - 4, y + 0.35 * TICK, anchor="end"))
    bottom = _x_ticks(layout)
    _ceiling_labels(layout)
    layout.height = _legend(layout, bottom)
    return layout
