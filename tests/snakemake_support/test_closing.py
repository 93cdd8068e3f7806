"""What the screen ends with: why jobs failed, by their logs; which trainings diverged, by their records."""

from __future__ import annotations

import logging
from pathlib import Path

import made
from flatfed.snakemake_support import closing


def test_each_failed_job_is_told_with_the_last_line_of_its_log(tmp_path):
    one, two, three = (str(tmp_path / f"{name}.log") for name in ("one", "two", "absent"))
    Path(one).write_text("begun\n\nflatfed train: the disk is full\n\n")
    Path(two).write_text("")
    killed = closing.SILENT
    expected = [f"{one}: flatfed train: the disk is full", f"{two}: {killed}", f"{three}: {killed}"]
    assert closing.failed([one, two, three]) == expected


def test_runs_that_diverged_are_told_and_others_are_not(tmp_path):
    for name, broke in (("a", 7), ("b", None), ("c", None)):
        made.run(tmp_path / name, {"round": [6]}, diverged_at=broke)
    (tmp_path / "c/run.json").write_text("[]")
    records = [tmp_path / name / "run.json" for name in ("a", "b", "c", "absent")]
    assert closing.diverged(records) == [f"{tmp_path}/a: diverged in round 7; tables report it"]


def test_a_failed_job_shows_its_message_and_logs_without_its_command(capsys):
    class Plain(logging.Formatter):
        def format(self, record):
            return " ".join(str(vars(record).get(key)) for key in ("msg", "rule_msg", "input", "shellcmd", "log"))

    plain = Plain()
    closing.brief(plain)

    def shown(text, **about):
        record = logging.makeLogRecord({"msg": text, **about})
        line = plain.format(record)
        assert record.msg == text and vars(record).get("shellcmd") == about.get("shellcmd"), (
            "other handlers see it whole"
        )
        return line

    job = {"input": ["a"], "shellcmd": "train --run {}", "log": ["one.log"]}
    message = "Train fedavg, seed 1"
    assert "--run" in shown("rule train", event="job_info", jobid=3, rule_msg=message, **job)
    failure = shown("Error", event="job_error", jobid=3, output=["b"], rule_msg=None, **job)
    assert failure == f"{message} {message} None None ['one.log']"
    assert shown("RuleException:\nCalledProcessError in file x, line 3:\nCommand '{}'", event="error") == ""
    assert shown("WorkflowError: other", event="error").startswith("WorkflowError: other")


def test_what_is_said_is_short_and_nothing_is_said_of_nothing(capsys):
    closing.say("Diverged:", [])
    closing.say("Why:", [f"job {number}" for number in range(12)])
    lines = capsys.readouterr().err.splitlines()
    assert (
        lines[0] == "Why:" and lines[1] == "  job 0" and lines[-2:] == ["  job 9", "  and 2 more"] and len(lines) == 12
    )
