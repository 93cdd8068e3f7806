"""``flatfed new``, and folders with all kinds of a user's files."""

import pytest

from flatfed import algorithms, cli, models, plan
from flatfed.errors import ConfigError

MODEL = """from torch import nn

class Little(nn.Sequential):
    pass

def build(shape, classes):
    return Little(nn.Flatten(), nn.Linear(shape[0] * shape[1] * shape[2], classes))
"""


@pytest.fixture
def folder(tmp_path):
    """A new folder."""
    assert cli.main(["new", str(tmp_path / "mine")]) == 0
    return tmp_path / "mine"


def load(root, folder):
    request = {"scale": "preview", "tables": [], "figures": [], "folders": [str(folder)]}
    return plan.load(root, request)


def test_a_new_folder_is_read_by_content(folder, small_config, capsys):
    (folder / "little.py").write_text(MODEL)
    loaded = load(small_config, folder)
    assert {"my_table", "my_models"} <= loaded.tables.keys()
    assert "my_method~rho0.2" in loaded.catalog.algorithms
    assert [name for name in algorithms.names() if algorithms.own_file(name)] == ["my_method"]
    assert "little" in models.names() and not {"my_method", "test_my_method"} & {*models.names()}
    assert cli.main(["new", str(folder)]) == cli.REFUSED
    assert f"{folder}: exists already" in capsys.readouterr().err
    assert cli.main(["check", "--config", f"folders=[{folder}]"]) == 0
    assert (
        "tables of yours: my_models, my_table\nfigures of yours: my_curves, my_eigenvalues, my_surface, my_sweep\n"
        in capsys.readouterr().out
    )


IMPORT = "from flatfed.algorithms import Algorithm\n"


TABLE = "title: T\nrows: [fedavg]\ncolumns: [{protocol: fedsmoo-cifar10, splits: [dir0.6-100]}]\n"


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("mine.yaml", "kind: curvs\ntitle: T\n", "mine.yaml: kind: unknown value 'curvs'; did you mean 'curves'"),
        ("fedsmoo2023_T1.yaml", TABLE, "there is a table 'fedsmoo2023_T1' already, config/"),
        ("fedavg.py", "class FedAvg:\n    pass\n", "fedavg.py: flatfed.algorithms has 'fedavg' already; rename"),
        ("fedsіgn.py", f"{IMPORT}class FedSіgn(Algorithm): ...\n", "id 'fedsіgn' is not allowed"),
    ],
)
def test_mistakes_are_named(folder, small_config, name, text, words):
    (folder / name).write_text(text)
    with pytest.raises(ConfigError) as refusal:
        load(small_config, folder)
    assert words in str(refusal.value)
