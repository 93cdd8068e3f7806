"""A call of Snakemake reads the configuration once: its jobs take a copy, whatever happens to the files."""

import os
import time
from pathlib import Path

import pytest

from flatfed.commands import configuration
from flatfed.config import parsed_files
from flatfed.errors import ConfigError
from flatfed.runs.paths import DEFAULT
from made import edited


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A copy of config/ in the current folder; this process forgets what it has read afterwards."""
    edited(tmp_path, "config.yaml", lambda config: config.update(seeds=[5]))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(configuration, "HOME", tmp_path)
    monkeypatch.setattr(parsed_files, "_copy", None)
    monkeypatch.setattr(parsed_files, "contents", {})
    monkeypatch.setenv(configuration.VARIABLE, "of another call")
    return tmp_path


def test_jobs_read_what_the_call_has_read(root):
    """A changed table, a half-written protocol, a new file and other printed numbers; the next call reads them."""
    config = configuration.read(None)
    loaded = configuration.of_call(root, config, DEFAULT, main=True)
    configuration.write_copy(config, loaded)
    copy = Path(os.environ[configuration.VARIABLE])
    assert copy.parent == root / ".snakemake/flatfed"
    for change in ("tables/fedsmoo2023_T1.yaml", "protocols/fedsmoo-cifar10.yaml", "tables/new.yaml", "errata.yaml"):
        Path("config", change).write_text("rows: [")
    Path("config/reference/fedsmoo2023_T1.csv").write_text("metric")
    job = configuration.of_call(root, {}, DEFAULT, main=False)
    assert job.request == loaded.request and job.request.seeds == [5]
    assert {**job.tables} == {**loaded.tables} and {**job.catalog.protocols} == {**loaded.catalog.protocols}
    assert job.errata.entries == loaded.errata.entries
    name = "fedsmoo2023_T1"
    assert job.references[name].numbers == loaded.references[name].numbers
    assert job.references[name].places == loaded.references[name].places
    parsed_files._copy = None
    with pytest.raises(ConfigError, match=r"fedsmoo2023_T1\.csv: column 'unit' is missing"):
        configuration.of_call(root, config, DEFAULT, main=True)


def test_copies_that_no_call_used_for_60_days_go(root):
    config = configuration.read(None)
    loaded, ages = configuration.of_call(root, config, DEFAULT, main=True), {"old": 61, "young": 59}
    configuration.write_copy(config, loaded)
    copy = Path(os.environ[configuration.VARIABLE])
    for path, days in {copy: 70, **{copy.with_name(f"{name}.json"): age for name, age in ages.items()}}.items():
        path.touch()
        os.utime(path, (time.time() - days * 86400,) * 2)
    configuration.write_copy(config, loaded)
    assert {path.name for path in copy.parent.iterdir()} == {copy.name, "young.json"}
