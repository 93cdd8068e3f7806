"""What the screen ends with: why jobs failed, by their logs; which trainings diverged, by their records."""

from __future__ import annotations

import logging
from pathlib import Path

import made
from flatfed.workflow import closing


def test_each_failed_job_is_told_with_the_last_line_of_its_log(tmp_path):
    one, two, three = (str(tmp_path / f"{name}.log") for name in ("one", "two", "absent"))
    Path(one).write_text("begun\n\nflatfed train: the disk is full\n\n")
    Path(two).write_text("")
    killed = "it left no message: killed, or out of memory?"
    expected = [f"{one}: flatfed train: the disk is full", f"{two}: {killed}", f"{three}: {killed}"]
    assert closing.failed([one, two, three]) == expected


def test_runs_that_diverged_are_told_and_others_are_not(tmp_path):
    for name, broke in (("a", 7), ("b", None), ("c", None)):
        made.run(tmp_path / name, {"round": [6]}, diverged_at=broke)
    (tmp_path / "c/run.json").write_text("[]")
    records = [tmp_path / name / "run.json" for name in ("a", "b", "c", "absent")]
    assert closing.diverged(records) == [f"{tmp_path}/a: diverged in round 7; it is recorded, and tables say so"]


def test_a_failed_job_is_shown_without_its_command():
    def record(**about):
        return logging.makeLogRecord({"msg": "text", "shellcmd": "train --run {}", "log": ["one.log"], **about})

    begun, failure = record(event="job_info"), record(event="job_error", input=["a"], output=["b"])
    assert closing.brief(begun) and begun.shellcmd == "train --run {}"
    assert closing.brief(failure) and (failure.shellcmd, failure.output, failure.log) == (None, None, ["one.log"])
    again = "RuleException:\nCalledProcessError in file x, line 3:\nCommand"
    assert not closing.brief(record(event="error", msg=again))
    assert closing.brief(record(event="error", msg="WorkflowError: other"))


def test_what_is_said_is_short_and_nothing_is_said_of_nothing(capsys):
    closing.say("Diverged:", [])
    closing.say("Why:", [f"job {number}" for number in range(12)])
    lines = capsys.readouterr().err.splitlines()
    assert (
        lines[0] == "Why:" and lines[1] == "  job 0" and lines[-2:] == ["  job 9", "  and 2 more"] and len(lines) == 12
    )
