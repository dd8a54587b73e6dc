"""Draws a layout as one <svg> that needs nothing from outside: no script, no style sheet, no font file."""

from html import escape

import layout as layouts

# Told apart by people with every kind of colour vision (Okabe and Ito), dark enough for thin lines on white.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#9b4f96", "#b8860b", "#2f9fd6", "#444444", "#c2185b")
MARKERS = ("circle", "square", "triangle", "diamond")
CEILINGS = {"ceiling": "#b00020", "yardstick": "#666666"}
FONT = "system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif"


def _n(value):
    return ("%.1f" % value).rstrip("0").rstrip(".")


def _line(a, b, style):
    return '<line x1="%s" y1="%s" x2="%s" y2="%s" %s/>' % (_n(a[0]), _n(a[1]), _n(b[0]), _n(b[1]), style)


def _marker(kind, x, y):
    size = 3.4
    if kind == "circle":
        return '<circle cx="%s" cy="%s" r="%s"' % (_n(x), _n(y), _n(size))
    corners = {"square": ((-1, -1), (1, -1), (1, 1), (-1, 1)), "triangle": ((0, -1.3), (1.2, 0.9), (-1.2, 0.9)),
               "diamond": ((0, -1.4), (1.4, 0), (0, 1.4), (-1.4, 0))}[kind]
    return '<polygon points="%s"' % " ".join("%s,%s" % (_n(x + dx * size), _n(y + dy * size)) for dx, dy in corners)


def _text(text):
    colour = {"label": "#555", "tick": "#333", **CEILINGS}.get(text.role, "#111")
    halo = ' paint-order="stroke" stroke="#fff" stroke-width="3"' if text.role in CEILINGS else ""
    weight = ' font-weight="600"' if text.weight == "bold" else ""
    anchor = "" if text.anchor == "start" else ' text-anchor="%s"' % text.anchor
    return '<text x="%s" y="%s" font-size="%s" fill="%s"%s%s%s>%s</text>' % (
        _n(text.x), _n(text.y), _n(text.size), colour, weight, anchor, halo, escape(text.text))


def _grid(layout):
    area, plot = layout.area, layout.plot
    right, bottom = area.x + area.width, area.y + area.height
    for tick in getattr(plot.y_axis, "minor", []):
        y = layout.at(1, tick)[1]
        yield _line((area.x, y), (right, y), 'stroke="#f1f1f1"')
    for tick in plot.y_axis.ticks:
        y = layout.at(1, tick)[1]
        yield _line((area.x - layouts.TICK_MARK, y), (right, y), 'stroke="#dddddd"')
    for tick in plot.x_axis.ticks:
        x = area.x + plot.x_axis.place(tick) * area.width
        yield _line((x, area.y), (x, bottom + layouts.TICK_MARK), 'stroke="#eeeeee"')
    yield '<path d="M%s %sV%sH%s" fill="none" stroke="#333"/>' % (_n(area.x), _n(area.y), _n(bottom), _n(right))


def _style(curve):
    dash = ' stroke-dasharray="%s"' % curve.dash if curve.dash else ""
    return 'fill="none" stroke="%s" stroke-width="1.8" stroke-linejoin="round"%s' % (COLOURS[curve.style % len(COLOURS)], dash)


def _curve(layout, curve):
    spots = [layout.at(size, value) for size, value, _ in curve.points]
    fill = COLOURS[curve.style % len(COLOURS)]
    yield '<polyline points="%s" %s/>' % (" ".join("%s,%s" % (_n(x), _n(y)) for x, y in spots), _style(curve))
    for (x, y), (_, _, title) in zip(spots, curve.points):
        shape = _marker(MARKERS[curve.style % len(MARKERS)], x, y)
        inside = fill if not curve.dash else "#fff"
        yield '%s fill="%s" stroke="%s"><title>%s</title></%s>' % (shape, inside, fill, escape(title), shape[1:].split()[0])


def _legend(layout):
    for x, y, curve in layout.swatches:
        yield _line((x, y), (x + layouts.SWATCH, y), _style(curve))
        colour = COLOURS[curve.style % len(COLOURS)]
        inside = colour if not curve.dash else "#fff"
        yield '%s fill="%s" stroke="%s"/>' % (_marker(MARKERS[curve.style % len(MARKERS)], x + layouts.SWATCH / 2, y), inside, colour)


def draw(plot):
    layout = layouts.lay_out(plot)
    area = layout.area
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %s" role="img" aria-label="%s" font-family="%s">' % (
        _n(layouts.WIDTH), _n(layout.height), escape("%s; %s" % (plot.title, plot.label), quote=True), escape(FONT, quote=True))]
    parts += _grid(layout)
    for ceiling in plot.ceilings:
        y = layout.at(1, ceiling.value)[1]
        parts.append('<g><title>%s</title>%s</g>' % (escape(ceiling.text), _line(
            (area.x, y), (area.x + area.width, y), 'stroke="%s" stroke-width="1.6" stroke-dasharray="7 4"' % CEILINGS[ceiling.role])))
    for curve in plot.curves:
        parts += _curve(layout, curve)
    parts += _legend(layout)
    parts += [_text(text) for text in layout.texts]
    return "\n".join(parts + ["</svg>"])
