"""A seal next to the outputs of a job shows whether they are still what the job wrote for its request."""

import pytest

from flatfed import files


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.write_bytes(b""),
        lambda table: table.unlink(),
        lambda table: (table.unlink(), table.mkdir()),
        lambda table: table.with_name(".T1.seal").unlink(),
        lambda table: table.with_name(".T1.seal").write_bytes(b"\xff"),
    ],
    ids=["emptied", "removed", "a folder", "no seal", "damaged seal"],
)
def test_other_outputs_or_another_request_break_the_seal(tmp_path, change):
    outputs = [tmp_path / f"T1.{suffix}" for suffix in ("csv", "md")]
    for path in outputs:
        path.write_text(path.name)
    files.seal_outputs(outputs, "request")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".T1.seal", "T1.csv", "T1.md"]
    assert files.are_sealed([str(path) for path in outputs], "request")
    assert not files.are_sealed(outputs, "other request")
    change(outputs[1])
    assert not files.are_sealed(outputs, "request")


def test_another_run_breaks_the_seal_and_an_absent_one_does_not(tmp_path):
    """A run that is copied over with an older time has another record; a table without its runs stays."""
    table, record, lines = (tmp_path / name for name in ("T1.csv", "run.json", "metrics.csv"))
    for path in (table, record, lines):
        path.write_text(path.name)
    inputs = [str(record), str(lines)]
    files.seal_outputs([table], "request", inputs)
    lines.write_text("the record has its digest")
    assert files.are_sealed([table], "request", inputs)
    record.write_text("another run")
    assert not files.are_sealed([table], "request", inputs)
    record.unlink()
    assert files.are_sealed([table], "request", inputs)
