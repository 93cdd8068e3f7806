"""Curves over the rounds for the report: hover, hide and zoom in any browser, without a network."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pandas as pd
from bokeh.embed import json_item
from bokeh.models import HoverTool
from bokeh.plotting import figure
from bokeh.resources import Resources

from flatfed.figures import palette

#: Width of a line, pixels; dashes are multiples of it, as in matplotlib.
LINE = 2


def embedded(quantity: str, curves: Mapping[str, tuple[str, pd.DataFrame]]) -> str:
    """Return a plot as HTML, Bokeh's script included: one line per algorithm, the mean over its seeds, in percent.

    ``curves``: row id -> (label, the ``quantity`` as a fraction, by round and seed).
    """
    plot = figure(height=420, sizing_mode="stretch_width", tools="box_zoom,pan,reset", active_drag="box_zoom")
    plot.xaxis.axis_label, plot.yaxis.axis_label = "Communication round", f"{quantity.capitalize()} (%)"
    for row, (label, seeds) in curves.items():
        colour, dashes = palette.style(row)
        points = {"round": seeds.index, "mean": 100 * seeds.mean(axis=1), "seeds": seeds.count(axis=1)}
        drawn = {"color": colour, "line_dash": [] if dashes == "-" else [round(LINE * part) for part in dashes[1]]}
        plot.line("round", "mean", source=points, name=label, legend_label=label, width=LINE, **drawn)
    shown = [("", "$name"), ("Round", "@round"), ("Mean", "@mean{0.0} %"), ("Seeds", "@seeds")]
    plot.add_tools(HoverTool(tooltips=shown, point_policy="snap_to_data", line_policy="nearest"))
    plot.toolbar.logo = None
    plot.legend.update(location="left", click_policy="hide", ncols=3, border_line_color=None, padding=0, spacing=5)
    plot.add_layout(plot.legend[0], "below")
    item = json.dumps(json_item(plot, "curves")).replace("<", r"\u003c")
    library = Resources(mode="inline", components=["bokeh"]).render_js()
    return f'{library}\n<div id="curves"></div>\n<script>Bokeh.embed.embed_item({item});</script>'
