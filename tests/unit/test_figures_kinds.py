"""Sweeps, bars and histograms: the values by hand, and what is said where runs are missing."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest
import yaml

import made
from flatfed import figures
from flatfed.errors import DataError
from flatfed.figures import bars, curves, eigenvalues, histogram, palette, sweep
from flatfed.papers import figure_kinds
from flatfed.runs import record as records_of_runs

ROOT = Path(__file__).parents[2]


def make_run(folder, accuracies):
    columns = {"round": list(range(1, len(accuracies) + 1)), "test_accuracy": accuracies}
    return made.run(made.place(folder), columns)


def texts(figure) -> str:
    return " ".join(
        text.get_text().replace("\n", " ") for text in figure.findobj(match=lambda a: hasattr(a, "get_text"))
    )


@pytest.fixture
def sweep_spec(tmp_path):
    """One algorithm at two values: two seeds of two splits at the first, an absent run at the second."""
    at_1 = [
        [make_run(tmp_path / f"{seed}{split}", [0.1, final]) for split, final in zip("ab", finals, strict=True)]
        for seed, finals in ((1, (0.5, 0.7)), (2, (0.6, 0.8)))
    ]
    late = [[str(tmp_path / "late")]]
    level = [[make_run(tmp_path / "level", [0.2, 0.4])]]
    row = {"algorithm": "fedsam", "label": "FedSAM"}
    points = [{**row, "x": 0.01, "by_seed": at_1}, {**row, "x": 1.0, "by_seed": late}]
    panel = {
        "title": "(c) radius", "axis": r"$\rho$",
        "marks": points,
        "levels": [{"algorithm": "fedavg", "label": "FedAvg", "by_seed": level}],
    }  # fmt: skip
    return {
        "figure": "fedsam2022_F3", "kind": "sweep", "scale": "preview", "title": "Radius", "metric": "test_accuracy",
        "panels": [panel],
    }  # fmt: skip


def test_a_sweep_draws_means_over_splits_then_seeds(sweep_spec):
    figure = sweep.draw(made.figure_spec(sweep_spec))
    axis = figure.axes[0]
    line = next(line for line in axis.get_lines() if line.get_marker() == "o")
    np.testing.assert_allclose(line.get_xdata(), [0])
    np.testing.assert_allclose(line.get_ydata(), [65.0])
    assert line.get_color() == palette.STYLES["fedsam"][0]
    level = next(line for line in axis.get_lines() if line.get_color() == palette.STYLES["fedavg"][0])
    np.testing.assert_allclose(level.get_ydata(), [40.0, 40.0])
    assert [tick.get_text() for tick in axis.get_xticklabels()] == ["0.01", "1"], "at 0 and 1: as far apart as any"
    said = texts(figure)
    assert "The values have equal distances." in said and "Widths differ" not in said
    assert "Test accuracy (%)" in said and "final round, mean over seeds" in said
    assert "n = 1 or 2" in said and "1 runs are missing" in said


def test_bars_begin_at_zero_and_say_their_value(tmp_path):
    runs = [make_run(tmp_path / "1", [0.2, 0.5]), make_run(tmp_path / "2", [0.2, 0.6])]
    panel = {
        "title": "Ring",
        "marks": [
            {"algorithm": "dfedavg", "label": "DFedAvg", "by_seed": [[run] for run in runs]},
            {"algorithm": "dfedsam", "label": "DFedSAM", "by_seed": [[str(tmp_path / "none")]]},
        ],
    }
    spec = {
        "figure": "dfedsam2023_F5", "kind": "bars", "scale": "paper", "title": "T", "metric": "test_accuracy",
        "panels": [panel],
    }  # fmt: skip
    figure = bars.draw(made.figure_spec(spec))
    heights = [patch.get_height() for patch in figure.axes[0].patches]
    np.testing.assert_allclose(heights, [55.0, 0.0])
    assert figure.axes[0].get_ylim()[0] == 0
    said = texts(figure)
    assert "55.0" in said and "0.0 " not in said and "1 runs are missing" in said


def test_a_histogram_sums_over_clients_and_says_the_deviation(tmp_path):
    made.partition(tmp_path / "with.npz", [[3, 0, 1], [1, 2, 5]])
    made.partition(tmp_path / "without.npz", [[2, 2, 2], [2, 2, 2]])
    partitions = [{"label": name, "files": [str(tmp_path / f"{name}.npz")]} for name in ("with", "without")]
    panels = [{"title": "Dirichlet", "marks": partitions}]
    spec = {"figure": "fedsmoo2023_F2", "kind": "histogram", "scale": "paper", "title": "T", "panels": panels}
    figure = histogram.draw(made.figure_spec(spec))
    outlines = [patch.get_data().values for patch in figure.axes[0].patches]
    np.testing.assert_array_equal(outlines, [[4, 2, 6], [4, 4, 4]])
    assert "with: 1.63" in texts(figure) and "without: 0.00" in texts(figure)


def test_lines_of_one_algorithm_keep_its_hue_and_differ():
    names = ["dfedsam", "dfedsam~rho0.1", "dfedsam~rho1"]
    looks = palette.styles(["fedavg", *names])
    assert looks[0] == palette.style("fedavg")
    assert looks[-1] == palette.style("dfedsam")
    assert len({colour for colour, _ in looks}) == 4


def test_communications_are_rounds_times_gossip_steps(tmp_path):
    run = make_run(tmp_path / "run", [0.1, 0.2, 0.3])
    series = [{"algorithm": "dfedsam_mgs", "label": "Q = 4", "by_seed": [run], "steps": 4}]
    spec = {
        "figure": "dfedsam2023_F4", "kind": "curves", "scale": "paper", "title": "T", "metric": "test_accuracy",
        "across": "communications", "smooth": 0, "panels": [{"title": "Ring", "marks": series}],
    }  # fmt: skip
    figure = curves.draw(made.figure_spec(spec))
    np.testing.assert_allclose(figure.axes[0].get_lines()[0].get_xdata(), [4, 8, 12])
    assert "gossip steps" in texts(figure)


def test_what_the_configuration_can_ask_for_can_be_drawn():
    """A kind is in the schema, is drawn by a function of its own."""
    schema = yaml.safe_load((ROOT / "workflow/schemas/figure.schema.yaml").read_text(encoding="utf-8"))
    kinds = set(figure_kinds.KINDS)
    assert kinds == set(schema["properties"]["kind"]["enum"])
    assert kinds == set(figures.KINDS)


def test_probes_are_read_from_run_json(tmp_path):
    run = tmp_path / "run"
    columns = {"round": [1, 2], "test_accuracy": [0.1, 0.2]}
    of = {"images_sha256": made.DIGEST}
    probes = [{"round": 0, "sharpness": 0.5, "perturbation_drift": None}, {"round": 2, "sharpness": 0.25}]
    probes = [{**of, **probes[0]}, {**of, **probes[1], "perturbation_drift": 0.75}]
    run = made.run(made.place(run), columns, probes=probes)
    series = [{"algorithm": "fedsam", "label": "FedSAM", "by_seed": [run]}]
    panels = [{"title": name, "metric": name, "marks": series} for name in ("perturbation_drift", "sharpness")]
    spec = {
        "figure": "fedlesam2024_F2", "kind": "curves", "scale": "paper", "title": "T", "metric": "sharpness",
        "smooth": 0, "panels": panels,
    }  # fmt: skip
    figure = curves.draw(made.figure_spec(spec))
    drift, sharp = (axis.get_lines()[0].get_xydata().tolist() for axis in figure.axes)
    assert drift == [[2, 0.75]] and sharp == [[0, 0.5], [2, 0.25]]
    assert "Perturbation drift (0 to 1)" in texts(figure) and "(nats)" in texts(figure)
    made.run(run, columns)
    with pytest.raises(DataError, match=r"seed1/run\.json: holds no probes with perturbation_drift"):
        curves.draw(made.figure_spec(spec))


def test_lines_of_probes_on_other_images_are_refused(tmp_path):
    """Of one seed; another seed has another deal, and so other images."""
    columns, lines = {"round": [1, 2], "test_accuracy": [0.1, 0.2]}, []
    for name, seed, images in (("one", 1, "a" * 64), ("two", 1, "b" * 64), ("three", 2, "b" * 64)):
        probe = {"images_sha256": images, "round": 0, "sharpness": 0.5, "seconds": 1}
        folder = tmp_path / name / "protocol" / "split" / "algorithm" / f"seed{seed}"
        lines.append({"algorithm": "fedsam", "label": name, "by_seed": [made.run(folder, columns, probes=[probe])]})
    spec = {"figure": "f", "kind": "curves", "scale": "paper", "title": "T", "metric": "sharpness", "smooth": 0}
    curves.draw(made.figure_spec({**spec, "panels": [{"title": "P", "marks": [lines[0], lines[2]]}]}))
    with pytest.raises(DataError, match=r"f: P: the probes of .*two/.* positions bbbbbbbbbbbb\) than those of .*one/"):
        curves.draw(made.figure_spec({**spec, "panels": [{"title": "P", "marks": lines}]}))


def test_a_run_of_another_description_is_not_drawn(sweep_spec, tmp_path):
    """Its folder has the right name; what it was trained with does not fit what the figure asks for."""
    folder = str(made.place(tmp_path / "1a"))
    about = records_of_runs.read_finished(folder).description
    for rate, refused in ({}, False), ({"learning_rate": 0.3}, True):
        run = made.requested(folder, {**about, **rate})
        spec = made.figure_spec({**sweep_spec, "runs": {folder: run}})
        said = r"run\.json: not the requested run: learning_rate is null, here 0\.3"
        with pytest.raises(DataError, match=said) if refused else contextlib.nullcontext():
            figures.make(spec, tmp_path)


def test_damaged_runs_and_unknown_metrics_are_named(sweep_spec, tmp_path):
    other = made.place(tmp_path / "1b") / "metrics.csv"
    was = other.read_bytes()
    other.write_text("round,test_accuracy\n1,0.1\n2,0.9\n")
    with pytest.raises(DataError, match=r"1b/.*/metrics\.csv: is not the file that run\.json next to it describes"):
        figures.make(made.figure_spec(sweep_spec), tmp_path)
    other.write_bytes(was)
    make_run(tmp_path / "1a", [0.1, "high"])
    with pytest.raises(DataError, match=r"1a/.*/metrics\.csv: line 3: test_accuracy: 'high'"):
        figures.make(made.figure_spec(sweep_spec), tmp_path)
    with pytest.raises(DataError, match="unknown metric 'accuracy'"):
        figures.make(made.figure_spec({**sweep_spec, "metric": "accuracy"}), tmp_path)


def test_eigenvalues_are_means_with_pyhessians_beside(tmp_path):
    for name, value in (("1", 4.0), ("2", 6.0)):
        made.written(tmp_path / f"{name}.json", made.hessian(value, 1.0, (value + 1, 1.0)))
    made.written(tmp_path / "3.json", made.hessian_of_diverged())
    paths = [str(tmp_path / f"{name}.json") for name in ("1", "2", "3")]
    bar = [
        {"algorithm": "dfedavg", "label": "DFedAvg", "files": paths},
        {"algorithm": "dfedsam", "label": "DFedSAM", "files": [str(tmp_path / "none.json")]},
    ]
    panels = [{"title": "Ring", "marks": bar}]
    spec = {"figure": "f", "kind": "eigenvalues", "scale": "paper", "title": "T", "panels": panels}
    figure = eigenvalues.draw(made.figure_spec(spec))
    for axis, height, other in zip(figure.axes, (5.0, 0.5), ([6.0], []), strict=True):
        np.testing.assert_allclose([patch.get_height() for patch in axis.patches], [height, 0.0])
        found = [line.get_ydata()[0] for line in axis.get_lines() if line.get_marker() == "D"]
        np.testing.assert_allclose(found, other)
        assert axis.get_ylim()[0] == 0
    said = texts(figure)
    assert "1 runs diverged and are left out" in said
    assert "n = 2" in said and "1 Hessians are missing" in said and "PyHessian" in said and "eigenvalue" in said


def test_a_hessian_without_the_scaled_one_is_on_the_left_alone_and_counted(tmp_path):
    paths = [made.written(tmp_path / f"{top}.json", made.hessian(top, 1.0)) for top in (4.0, 6.0)]
    made.unscaled(paths[1])
    bars = [{"algorithm": "dfedavg", "label": "DFedAvg", "files": paths}]
    spec = {"figure": "f", "kind": "eigenvalues", "scale": "paper", "title": "T"}
    figure = eigenvalues.draw(made.figure_spec({**spec, "panels": [{"title": "Ring", "marks": bars}]}))
    assert [[patch.get_height() for patch in axis.patches] for axis in figure.axes] == [[5.0], [0.4]]
    assert "1 Hessians are missing" in texts(figure)
