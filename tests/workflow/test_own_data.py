"""Data and set-up of one's own, beside a table: as a module's, and where they have no preview."""

import pytest
from project import Project, jobs_of, write_photos


@pytest.fixture
def outer(tmp_path):
    write_photos(tmp_path, tmp_path / "tables/photos.yaml")
    return tmp_path


def test_a_module_takes_data_protocols_and_splits_from_outside_our_tree(untouched, outer):
    """Under set-threads, as the page says, the prefix goes before a rule's name."""
    (outer / "Snakefile").write_text(
        f"""
configfile: "{untouched.root}/config/config.yaml"


config.update(tables=["photos"], figures=[], folders=["tables"], scale="paper")


module flatfed:
    snakefile:
        "{untouched.root}/workflow/Snakefile"
    config:
        config
    pathvars:
        results="results/federated",


use rule * from flatfed as flatfed_*


rule all:
    default_target: True
    input:
        "results/federated/paper/tables/photos.md",
"""
    )
    text = Project(outer).make("--dry-run", "--printshellcmds", "--set-threads", "flatfed_train=2").text
    planned = jobs_of(text)
    partitions = {f"results/federated/paper/partitions/photos/skewed/seed{seed}.npz" for seed in (1, 2)}
    assert planned["fetch"] == {"resources/photos"} and planned["partition"] == partitions
    assert len(planned["train"]) == 8 and len(planned["table"]) == 1
    assert text.count("--threads 2") == 8


def test_a_selection_leaves_out_what_has_no_preview_and_says_so(untouched, outer):
    asked = ["--dry-run", "--config", f"folders=[{outer}/tables]", "tables=[photos]", "figures=[]"]
    asked.append(f"data={{photos: {{source: imagefolder, path: {outer}/photos, size: 32}}}}")
    text = untouched.make(*asked).text
    said = "Left out: results/preview/tables/photos.md: protocol photos ({}) has no `preview:`, so it does not exist; "
    assert said.format(f"{outer}/tables/photos.yaml") + "request results/paper/tables/photos.md" in text
    assert text.count("Left out:") == 1 and "rule train" not in text
    text = untouched.refused(*asked, "--", "results/preview/tables/photos.md")
    assert "request results/paper/tables/photos.md" in text and "Left out:" not in text
