"""Without Snakemake's records, or after an edit by hand, tables stay until -R; their runs are checked then."""

import shutil

from project import ROWS, RUNS, TABLE, contents

from samples import full

REFUSED = "learning_rate is 0.1, here 0.05; remove the run's folder, and the next call trains the run again"


@full
def test_results_without_records_are_left_alone_and_checked_when_they_are_forced(project):
    table, runs = project.root / f"results/preview/tables/{TABLE}.md", contents(project.root / RUNS)
    text = table.read_text()
    table.write_text("edited")
    assert project.planned() == {"report": {"results/preview/report.html"}}, "the table is one of its inputs"
    project.make("-R", "table")
    assert table.read_text() == text
    shutil.rmtree(project.root / ".snakemake")
    project.preview(learning_rate=0.05)
    assert project.planned() == {}
    project.refused("-R", "table", "--", str(table.relative_to(project.root)))
    lines = (project.root / f"logs/preview/table/{TABLE}.log").read_text().splitlines()
    assert [line.partition("run.json: not the requested run: ")[2] for line in lines] == [REFUSED] * len(ROWS), lines
    assert contents(project.root / RUNS) == runs
