"""Data and set-up of one's own, beside a table: as a module's, and where they have no preview."""

import re

import pytest
from PIL import Image
from project import REPOSITORY, Project

TEXT = re.search(r"```yaml\n(.*?)```", (REPOSITORY / "docs/your-own-data.md").read_text(), re.DOTALL)[1]


@pytest.fixture
def outer(tmp_path):
    """A folder with photos and, in ``tables``, the file of docs/your-own-data.md."""
    for part in ("train", "test"):
        for name in ("fox", "owl"):
            folder = tmp_path / "photos" / part / name
            folder.mkdir(parents=True)
            for number in range(8):
                Image.new("L", (9, 9), number).save(folder / f"{number}.png")
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables/photos.yaml").write_text(TEXT)
    return tmp_path


def test_a_module_takes_data_protocols_and_splits_from_outside_our_tree(untouched, outer):
    (outer / "Snakefile").write_text(
        f"""
configfile: "{untouched.root}/config/config.yaml"


config.update(tables=["photos"], figures=[], table_folders=["tables"], scale="paper")


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
    planned = Project(outer).planned()
    assert planned["fetch"] == {"resources/photos"}
    assert planned["partition"] == {
        f"results/federated/paper/partitions/photos/skewed/seed{seed}.npz" for seed in (1, 2)
    }
    assert len(planned["train"]) == 8 and len(planned["table"]) == 1
    # As the page says, under set-resources and set-threads the prefix goes before a rule's name.
    for rule, taken in (("flatfed_train", True), ("train", False)):
        done = Project(outer).make("--dry-run", "--printshellcmds", "--set-threads", f"{rule}=2", "--cores", "2")
        assert ("--threads 2" in done.text) == taken


def test_a_selection_leaves_out_what_has_no_preview_and_says_so(untouched, outer):
    asked = ["--dry-run", "--config", f"table_folders=[{outer}/tables]", "tables=[photos]", "figures=[]"]
    asked.append(f"data={{photos: {{source: imagefolder, path: {outer}/photos, size: 32}}}}")
    done = untouched.make(*asked)
    said = "Left out: results/preview/tables/photos.md: protocol photos ({}) has no `preview:`, so it does not exist; "
    assert said.format(f"{outer}/tables/photos.yaml") + "request results/paper/tables/photos.md" in done.text
    assert done.text.count("Left out:") == 1 and "rule train" not in done.text
    refused = untouched.snakemake(*asked, "--", "results/preview/tables/photos.md")
    assert refused.returncode != 0 and "request results/paper/tables/photos.md" in refused.text
    assert "Left out:" not in untouched.make(*asked, "--", "results/paper/tables/photos.md").text
