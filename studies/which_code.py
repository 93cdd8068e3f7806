"""Write docs/which-code.md: the effects of public code's deviations, and the cells that several sources print.

python studies/which_code.py
"""

from pathlib import Path

from jinja2 import Template

import disputed
from effects import DIFFERS, NONE, choice_effects

ROOT = Path(__file__).resolve().parents[1]

#: Tables of :data:`effects.PUBLISHED` on code, in the order of the page.
TABLES = ["effects", "effects_newer", "effects_ours", "effects_cnn"]


def page() -> str:
    """Return the page in Markdown."""
    effects = choice_effects()
    effects = effects[effects.table.isin(TABLES)].sort_values("points", key=abs, ascending=False)
    effects = effects.sort_values("table", key=lambda names: names.map(TABLES.index), kind="stable")
    differing = effects[(effects.table == "effects") & (effects.verdict == DIFFERS)]
    sources, cells, labels = disputed.read()
    several = disputed.by_source(sources, cells)
    template = Template(
        (ROOT / "studies/which_code.md.jinja").read_text(encoding="utf-8"), trim_blocks=True, keep_trailing_newline=True
    )
    return template.render(
        effects=effects.to_dict("records"),
        shown=effects[effects.verdict != NONE].to_dict("records"),
        differs=len(differing),
        largest=f"{differing.points.abs().max():.2f}",
        small=(effects.verdict == NONE).sum(),
        several=several,
        rankings=disputed.table_of_rankings(disputed.rankings(several.drop(columns="apart"))),
        sources=disputed.table_of_sources(sources, cells),
        differences=disputed.table_of_differences(sources, disputed.LABELS | labels),
    )


if __name__ == "__main__":
    (ROOT / "docs/which-code.md").write_text(page(), encoding="utf-8")
