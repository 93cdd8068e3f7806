"""The end of the screen: why jobs failed, by their logs; which trainings diverged, by their records."""

import made
from flatfed.snakemake_support import closing


def test_each_failed_job_is_reported_with_the_last_line_of_its_log(tmp_path):
    logs = [str(tmp_path / f"{name}.log") for name in ("one", "two", "absent")]
    (tmp_path / "one.log").write_text("begun\n\nflatfed train: the disk is full\n\n")
    (tmp_path / "two.log").write_text("")
    reasons = ("flatfed train: the disk is full", closing.SILENT, closing.SILENT)
    assert closing.failed(logs) == [f"{log}: {reason}" for log, reason in zip(logs, reasons, strict=True)]


def test_runs_that_diverged_are_reported_and_others_are_not(tmp_path):
    for name, broke in (("a", 7), ("b", None), ("c", None)):
        made.run(tmp_path / name, {"round": [6]}, diverged_at=broke)
    (tmp_path / "c/run.json").write_text("[]")
    records = [tmp_path / name / "run.json" for name in ("a", "b", "c", "absent")]
    assert closing.diverged(records) == [f"{tmp_path}/a: diverged in round 7; tables report it"]


def test_a_list_is_short_and_an_empty_one_is_not_printed(capsys):
    closing.say("Diverged:", [])
    closing.say("Why:", [f"job {number}" for number in range(12)])
    expected = ["Why:", *(f"  job {number}" for number in range(10)), "  and 2 more"]
    assert capsys.readouterr().err.splitlines() == expected
