"""Files of one's own in table folders: data sets, protocols, splits and variants next to a table, and its scales."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import made
from flatfed import plan
from flatfed.errors import ConfigError
from flatfed.plan import at_scale
from flatfed.tables import report
from own_files import TEXT, load, put, refusal
from shipped import EXP

pytestmark = pytest.mark.usefixtures("here")

PAPER = "results/paper/tables/photos.md"
#: A table without a preview, and one that has both scales.
BOTH = ["photos", {"table": "fedsmoo2023_T1", "columns": ["cifar10-dir0.6-100"]}]


def test_eleven_lines_are_a_table_of_four_algorithms():
    loaded = load()
    assert set(loaded.tables) == {"photos", *made.TABLES}
    cells = made.first_numbers(loaded, "paper", "photos")
    assert [cell.row for cell in cells] == ["fedavg", "fedsam", "fedsmoo", "fedlesam"]
    photos = {"label": "photos", "classes": 3, "shape": [3, 32, 32], "train": 12, "test": 6, "declared_images": 18}
    photos |= {"mean": [0.5] * 3, "std": [0.25] * 3}
    photos |= {"source": {"source": "imagefolder", "path": "photos", "size": 32}}
    assert loaded.catalog.datasets["photos"].model_dump(exclude_none=True) == photos
    assert loaded.catalog.splits["skewed"].headers == ["Dirichlet 0.3"]


def test_all_that_is_missing_is_in_one_message():
    message = refusal(
        """
        columns: [{protocol: photos}]
        datasets: {photos: {source: {source: imagefolder}}, more: {source: {source: torchvision}}}
        protocols: {photos: {dataset: photos}}
        splits: {skewed: {scheme: dirichlet}, plain: {}}
        algorithms: {fedsam~wide: {}}
        """
    )
    missing = {"": ("title", "rows"), "datasets.photos.source": ("path", "size"), "datasets.more.source": ("dataset",)}
    missing |= {"splits.skewed": ("alpha", "clients", "participation"), "splits.plain": ("scheme",)}
    missing |= {"protocols.photos": ("model", "rounds"), "algorithms.fedsam~wide": ("set",)}
    expected = {f"{f'{at}: ' if at else ''}key '{key}' is missing" for at, keys in missing.items() for key in keys}
    lines = [line.removeprefix("own/photos.yaml: ") for line in message.splitlines()]
    assert sorted(line.partition("; ")[0] for line in lines) == sorted(expected)


def test_a_papers_protocol_leaves_nothing_to_defaults():
    message = refusal(change=put("protocols", "photos", "paper", value="mine"))
    for key in ("label", "preview", "clip_norm", "seeds"):
        assert f"own/photos.yaml: protocols.photos: key '{key}' is missing" in message
    assert "own/photos.yaml: key 'reference' is missing" in refusal(change=put("paper", value="ours"))
    assert "key 'paper' is missing" in refusal(change=put("reference", value="fedsmoo2023_T1"))


SMALL = {"dataset": "photos", "model": {"name": "cnn"}, "rounds": 1}


@pytest.mark.parametrize(
    ("section", "name", "entry", "place"),
    [
        ("datasets", "digits", {"source": {"source": "npz", "path": "x"}}, "config/datasets.yaml: digits"),
        ("splits", "dir0.6-100", {"scheme": "iid", "clients": 2, "participation": 1}, "config/splits.yaml: dir0.6-100"),
        ("algorithms", "fedsmoo~rho0.02", {"set": {"rho": 3}}, "config/algorithms.yaml: fedsmoo~rho0.02"),
        ("protocols", "fedsmoo-cifar10", SMALL, "config/protocols/fedsmoo-cifar10.yaml"),
    ],
)
def test_an_id_that_is_taken_is_refused_naming_both_places(section, name, entry, place):
    message = refusal(change=lambda content: content.setdefault(section, {}).update({name: entry}))
    assert f"own/photos.yaml: {section}: {name!r} is declared already, in {place}" in message


def test_ids_of_another_own_file_are_known_and_a_variant_without_a_label_is_called_by_what_it_sets():
    Path("own/declared.yaml").write_text(yaml.safe_dump({"splits": yaml.safe_load(TEXT)["splits"]}))
    variants = {"fedsam~wide": {"set": {"rho": 0.5}}, "fedsam~named": {"label": "Mine", "set": {"rho": 0.7}}}

    def change(content):
        del content["splits"]
        content["algorithms"] = variants

    algorithms = load(change=change).catalog.algorithms
    assert [algorithms[name].label for name in variants] == ["FedSAM, rho = 0.5", "Mine"]


def test_one_call_names_all_mistakes_of_all_files(here):
    table = {"title": "T", "rows": ["fedavg", "fedsmo"], "unit": "percent"}
    table["columns"] = [
        {"protocol": "fedsmoo-cifar10", "splits": ["dir0.6-100"], "metric": "tset_accuracy"},
        {"protocol": "fedsmoo-cifar10", "splits": ["dir0.7-100"], "metric": "test_accuracy", "id": "second"},
    ]
    Path("own/one.yaml").write_text(yaml.safe_dump(table))
    Path("own/two.yaml").write_text(yaml.safe_dump({**table, "rows": ["fedavg"], "unit": None, "raws": 1}))
    surface = {"kind": "surface", "protocol": "fedsmoo-cifar10", "title": "S"}
    Path("own/three.yaml").write_text(yaml.safe_dump(surface))
    Path("own/four.yml").write_text(yaml.safe_dump(table))
    Path("own/environment.yml").write_text("name: of another program\n")
    again = {"scheme": "dirichlet", "alpha": 0.6, "clients": 100, "participation": 0.1}
    message = refusal(change=lambda content: content["splits"].update(mine=again), tables=["four"])
    expected = [
        "own/photos.yaml: splits.mine: is split 'dir0.6-100' under another id",
        "own/one.yaml: rows[1]: unknown algorithm 'fedsmo'; did you mean 'fedsmoo'?",
        "own/one.yaml: columns[0]: metric: unknown metric 'tset_accuracy'; did you mean 'test_accuracy'?",
        "own/one.yaml: columns[1]: splits: unknown split 'dir0.7-100'; did you mean 'dir0.6-100'?",
        "own/two.yaml: unit: null is nothing",
        "own/two.yaml: unknown key 'raws'; did you mean 'rows'?",
        "own/three.yaml: ",
        "own/four.yml: FlatFed reads files .yaml; name it four.yaml",
    ]
    for words in expected:
        assert sum(line.startswith(words) for line in message.splitlines()) == 1, (words, message)
    assert "unknown table 'four'" not in message and "environment.yml" not in message
    Path("own/four.yml").unlink()
    message = refusal(change=lambda content: content["splits"]["skewed"].pop("alpha"))
    lines = [line.partition(": ")[0] for line in message.splitlines()]
    assert {*lines} == {"own/photos.yaml", "own/one.yaml", "own/two.yaml", "own/three.yaml"}
    assert "unknown split 'skewed'" not in message, "what is wrong is not unknown"


def test_a_table_without_a_preview_is_left_out_of_it_and_taken_at_its_own_scale_by_name():
    loaded = load(tables=BOTH)
    for ask in (made.first_numbers, at_scale.table):
        with pytest.raises(ConfigError, match=rf"results/preview/tables/photos\.md: .*own/photos.*request {PAPER}"):
            ask(loaded, "preview", "photos")
    run = "runs/photos/skewed/fedavg/seed1/run.json"
    with pytest.raises(ConfigError, match=f"results/preview/{run}: .* request results/paper/{run}"):
        loaded.run("preview", "photos", "skewed", "fedavg", 1)
    with pytest.raises(ConfigError, match=r"request results/paper/partitions/photos/skewed/seed1\.npz"):
        loaded.partition_spec("preview", "photos", "skewed", 1)
    assert [*loaded.existing(loaded.scale, loaded.requested).tables] == ["fedsmoo2023_T1"]
    assert [*loaded.existing("paper", loaded.requested).tables] == ["photos", "fedsmoo2023_T1"]
    (line,) = loaded.left_out(loaded.scale, loaded.requested)
    assert line.startswith("Left out: results/preview/tables/photos.md") and line.endswith(PAPER)
    assert loaded.left_out("paper", loaded.requested) == []
    report.make(at_scale.report(loaded, "preview"), Path("report.html"))
    assert f"Left out: {PAPER.replace('paper', 'preview')}" in Path("report.html").read_text()
    assert "photos" not in loaded.all_at("preview").tables
    for scale, left_out in (("preview", "effects_cnn"), ("paper", "effects")):
        assert left_out not in EXP.all_at(scale).tables


CENTRAL = "{scheme: central, clients: 1, participation: 1, sampling: all, images_of: mine}"


@pytest.mark.parametrize(
    ("file", "text", "other", "words"),
    [
        ("protocols/fedsmoo-cifar10.yaml", "learning_rate: 0.1", "learning_rat: 0.1", "learning_rat"),
        ("protocols/fedsmoo-cifar10.yaml", "dataset: cifar10", "dataset: cifar11", "did you mean 'cifar10'"),
        ("figures/two_splits.yaml", "kind:", "knd: 1\nkind:", "knd"),
        ("splits.yaml", "dir0.6-100:", "dir0.6-100: 1\ndir0.6-100:", "given twice"),
        ("datasets.yaml", "cifar10:", "cifar10: 1\ncifar10:", "given twice"),
        ("algorithms.yaml", "fedavg: {", "fedagv: {label: X}\nfedavg: {", "did you mean 'fedavg'"),
        ("splits.yaml", "", f"\nmine: {CENTRAL}\n", "of scheme central"),
        ("reference/fedsmoo2023_T1.csv", "metric", "metrik", "column 'metric' is missing"),
    ],
)  # fmt: skip
def test_one_mistake_is_one_line(tmp_path, file, text, other, words):
    """What else a misspelt entry makes unknown is no further mistake, and no entry hides its own."""
    path = made.small(tmp_path, Path(file).stem) / "config" / file
    content = path.read_text()
    assert text in content
    path.write_text(content + other if not text else content.replace(text, other, 1))
    with pytest.raises(ConfigError) as caught:
        plan.load(tmp_path)
    lines = str(caught.value).splitlines()
    # A misspelt key of which a document needs the right one is missing, too.
    assert len({line.partition(": ")[0] for line in lines}) == 1 and len(lines) <= 2, lines
    assert any(words in line for line in lines) and lines[0].startswith(f"config/{file}: ")
