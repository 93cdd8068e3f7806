"""What the foot of a figure says was trained: what all set-ups share once, which data sets are the same at a scale."""

from __future__ import annotations

import itertools

import pytest

from flatfed.experiment import figure_specs, report_spec, set_ups, table_specs
from shipped import EXP

#: Figure -> what its foot says at preview scale.
SAID = {
    "fedsmoo2023_F7": (
        "digits {digits}, 30 clients, 20% active, cnn_tiny, 20 rounds of 3 local epochs, batch 10"
    ),
    "fedsam2022_F3": (
        "digits {digits}, 30 clients, cnn_tiny, batch 10; "
        "10% active / 20% active / 40% active; "
        "16 rounds of 3 local epochs / 16 rounds of 1 local epoch / 16 rounds of 5 local epochs"
    ),
    "dfedsam2023_F4": (
        "digits {digits}, 30 clients, 100% active, cnn_tiny, 14 rounds of 2 local epochs, batch 10; "
        "decentralised rows: ring (spectral gap 0.0146) / decentralised rows: grid (spectral gap 0.2000) / "
        "decentralised rows: exponential (spectral gap 0.3636)"
    ),
    "dfedsam2023_F6": (
        "digits {digits}, 100% active, cnn_tiny, 14 rounds of 2 local epochs, batch 10; "
        "30 clients / 15 clients / 45 clients; "
        "decentralised rows: exponential (spectral gap 0.3636) / "
        "decentralised rows: exponential (spectral gap 0.6667) / decentralised rows: exponential (spectral gap 0.5569)"
    ),
    "dfedsam2023_F3": (
        "30 clients, cnn_tiny, 20 rounds of 2 local epochs, batch 10; "
        "digits {digits} / digits-20 {digits20}; "
        "20% active / 100% active; "
        "decentralised rows: clique of 3"
    ),
    "fedlesam2024_F1": (
        "digits {digits}, cnn_tiny, batch 10; "
        "all at one place / 30 clients; "
        "20 rounds of as many steps as a federated one / 20 rounds of 3 local epochs; "
        "20% active"
    ),
    "fedlesam2024_F5": (
        "digits {digits} / digits-20 {digits20}; "
        "30 clients / 60 clients"
    ),
}


@pytest.mark.parametrize("name", SAID)
def test_the_foot_says_what_is_shared_once_and_then_what_differs(name: str) -> None:
    assert figure_specs.figure_spec(EXP, "preview", name).setting == SAID[name]


def test_titles_have_the_numbers_of_what_is_shown() -> None:
    """At preview scale there are 30 or 60 clients, and 6 of 20 classes a client where the paper has 30 of 100."""

    def titles(scale: str, name: str) -> list[str]:
        spec = figure_specs.figure_spec(EXP, scale, name)
        return [spec.title, *(panel.title for panel in spec.panels)]

    assert titles("paper", "fedsmoo2023_F5")[1:] == ["Dirichlet, u = 0.6", "Pathological, c = 30"]
    assert titles("preview", "fedsmoo2023_F5")[1:] == ["Dirichlet, u = 0.6", "Pathological, c = 6"]
    assert titles("paper", "fedsmoo2023_F9")[0] == "Test accuracy on CIFAR-10, 5% of 200 clients"
    assert titles("preview", "fedsmoo2023_F9")[0] == "Test accuracy on digits, 10% of 60 clients"
    first, *panels = titles("preview", "fedlesam2024_F5")
    assert first.endswith("among 30 and 60 clients") and panels[2] == "(c) digits, 60 clients, Dirichlet 0.6"
    assert titles("paper", "fedlesam2024_F5")[0].endswith("partitioned among 100 and 200 clients")
    other = [("fedsmoo-cifar10", "path3-100"), ("fedsmoo-cifar100", "path3-100")]
    assert (
        set_ups.at_scale(EXP.catalog, "preview", "Pathological 3, 5% of 10 clients", other)
        == "Pathological 3, 5% of 10 clients"
    )


def test_titles_name_the_training_data() -> None:
    """At preview scale: digits, clients and rounds in place of the paper's; at paper scale: the paper's title."""

    def title(name: str, columns: list[str] | None = None, scale: str = "preview") -> str:
        return table_specs.table_spec(EXP, scale, name, columns).title

    columns = [name for name in EXP.tables["fedsmoo2023_T1"].columns if name.startswith("cifar10-") and "-100" in name]
    assert title("fedsmoo2023_T1", columns) == "Test accuracy on digits after 20 rounds, 30 clients"
    data = "digits / digits-20"
    assert title("fedsmoo2023_T1") == f"Test accuracy on {data} after 20 to 40 rounds, 30 to 60 clients"
    assert title("fedsmoo2023_T3") == "Communication cost to reach the target test accuracy on digits, 30 clients"
    assert title("fedsmoo2023_T6").endswith(f"the target test accuracy: {data}, 30 to 60 clients")
    assert title("fedlesam2024_T6") == "Data sets", "nothing is trained"
    assert title("fedsmoo2023_T1", scale="paper") == "Test accuracy on CIFAR-10 and CIFAR-100 after 800 rounds"
    figures = {figure.spec.figure: figure.spec.title for figure in report_spec.specification(EXP, "preview").figures}
    assert figures["fedsmoo2023_F7"] == "Test accuracy on digits, 20% of 30 clients"


def test_the_lines_of_tables_say_every_set_up_whole() -> None:
    pairs = [("fedsam-cifar10", "dir0.6-100-p20"), ("fedsam-cifar10~K1", "dir0.6-100-p20")]
    common = "digits {digits}, 30 clients, 20% active, cnn_tiny, 16 rounds of"
    said = set_ups.setting(EXP.catalog, "preview", pairs)
    assert said == f"{common} 3 local epochs, batch 10; {common} 1 local epoch, batch 10"


def test_the_lines_of_tables_name_the_data_sets_that_small_ones_stand_for() -> None:
    pairs = [(f"fedsam-{name}", "dir0.6-100-p20") for name in ("emnist", "cifar10", "cifar100")]
    common = "30 clients, 20% active, cnn_tiny, 16 rounds of 3 local epochs, batch 10"
    assert set_ups.setting(EXP.catalog, "preview", pairs) == (
        f"EMNIST and CIFAR-100: digits-20 {{digits20}}, {common}; CIFAR-10: digits {{digits}}, {common}"
    )
    assert set_ups.setting(EXP.catalog, "paper", pairs).startswith("EMNIST {emnist}, 100 clients")


def test_tables_of_curvature_say_of_which_loss_and_images_it_is() -> None:
    for scale, images in (("preview", "500"), ("paper", "4,096")):
        said = [
            note for note in table_specs.table_spec(EXP, scale, "fedsmoo2023_T2").notes if note.startswith("Hessian: ")
        ]
        assert len(said) == 1 and f"on {images} training images drawn by the run's seed" in said[0]
        assert any(
            "diag(|w|) H diag(|w|)" in note for note in table_specs.table_spec(EXP, scale, "fedsmoo2023_T2").notes
        )
        assert not any(
            note.startswith("Hessian") for note in table_specs.table_spec(EXP, scale, "fedsmoo2023_T1").notes
        )


def test_every_table_with_dispfl_says_which_model_is_shown() -> None:
    having = [name for name, table in EXP.tables.items() if "dispfl" in table.entries]
    assert having == ["dfedsam2023_T1", "dfedsam2023_T3"]
    for name, scale in itertools.product(having, ("preview", "paper")):
        said = [note for note in table_specs.table_spec(EXP, scale, name).notes if note.startswith("DisPFL ")]
        assert len(said) == 1 and "the plain mean of all nodes' models after local training, zeros included" in said[0]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "fedsam2022_F1",
            "CIFAR-100 and EMNIST are the same data here: panels (a) EMNIST and (c) CIFAR-100 are the same",
        ),
        (
            "dfedsam2023_F2",
            "CIFAR-10 and Fashion-MNIST are the same data here: panels (a) Fashion-MNIST and (b) CIFAR-10 are the same",
        ),
        ("fedsam2022_F5", "CIFAR-100 and EMNIST are the same data here"),
        ("fedsam2022_F6", "CIFAR-100 and EMNIST are the same data here"),
    ],
)
def test_data_sets_that_are_the_same_at_preview_scale_are_named(name: str, said: str) -> None:
    assert figure_specs.figure_spec(EXP, "preview", name).setting.endswith(f"; {said}")
    assert "the same" not in figure_specs.figure_spec(EXP, "paper", name).setting


def test_figures_of_other_kinds_are_not_beside_each_other() -> None:
    """DFedSAM's curves show no Fashion-MNIST; that a surface does is nothing to them."""
    assert "Fashion" not in figure_specs.figure_spec(EXP, "preview", "dfedsam2023_F3").setting
