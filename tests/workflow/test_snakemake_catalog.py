"""The catalogue of Snakemake's workflows draws the rules of `.test` and shows the keys of config.yaml."""

import re

import yaml
from project import PARTS, SNAKEMAKE, Project

from flatfed.config.request import REQUEST
from repository import ROOT


def test_the_catalogue_can_show_this_workflow(tmp_path):
    project = Project.copied(tmp_path, parts=(*PARTS, ".test"))
    done = project.call(*SNAKEMAKE, "-c", "1", "-d", ".test", "--forceall", "--rulegraph")
    assert done.returncode == 0, done.text
    rules = set(re.findall(r'label = "(\w+)"', done.stdout))
    assert {"fetch", "partition", "train", "table", "report"} <= rules, rules
    usage = yaml.safe_load((ROOT / ".snakemake-workflow-catalog.yml").read_text())["usage"]
    assert usage["mandatory-flags"] == {"desc": None, "flags": None}, "the call above had none"
    rules = [path.read_text() for path in (ROOT / "workflow/rules").glob("*.smk")]
    assert usage["software-stack-deployment"]["conda"] == all("conda:" in text for text in rules if "shell:" in text)
    assert (ROOT / "workflow/schemas/config.schema.yaml").resolve() == ROOT / "config/.schema/config.json"
    assert yaml.safe_load((ROOT / "workflow/schemas/config.schema.yaml").read_text()) == REQUEST.json_schema
