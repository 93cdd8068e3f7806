"""Labels of archives: wrong ones are shown with the remedy, by the plan, by `check` and by the fetch."""

from __future__ import annotations

import numpy as np
import pytest
from tiny_data import SPEC, arrays, fetch

from flatfed.config.datasets import ArrayFile
from flatfed.data import counting
from flatfed.errors import DataError

TRAIN, TEST = np.arange(12) % 3, np.arange(6) % 3
GAPS = np.array([0, 1, 5])

#: Labels of 12 training and 6 test images, and the message of the plan and of the fetch.
WRONG = {
    "from 1": (TRAIN + 1, TEST + 1, r"labels 1 to 3, .* 1 to 3; expected 0 to 2.*: number the classes"),
    "negative": (TRAIN - 1, TEST - 1, "labels -1 to 1, .*; expected 0 to 2.*: number the classes"),
    "gaps": (GAPS[TRAIN], GAPS[TEST], r"labels 0 to 1, 5, .* expected 0 to 2.*: number the classes .*numpy\.unique"),
    "tested alone": (TRAIN, TEST + 1, "test images 1 to 3; expected 0 to .*, each among the training images"),
    "one-hot": (np.eye(3, dtype=int)[TRAIN], TEST, r"train_labels .* \(12, 3\); expected 12 .* labels.argmax"),
    "several": (np.ones((12, 3)), TEST, r"train_labels is float64 of shape \(12, 3\); expected 12"),
    "one of several": (TRAIN, np.eye(3)[TEST] * 0, r"test_labels is float64 of shape \(6, 3\)"),
    "real numbers": (TRAIN * 1.0, TEST, "train_labels is float64 .*; expected 12 whole numbers"),
    "names": (np.array(["a", "b", "c"])[TRAIN], TEST, "is <U1 .*numpy.unique"),
    "another number": (TRAIN[:9], TEST, r"train_labels is int64 of shape \(9,\); expected 12 whole numbers: "),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_labels_are_shown_with_the_remedy(tmp_path, case):
    train, test, message = WRONG[case]
    file = tmp_path / "mine.npz"
    np.savez(file, **arrays(train_labels=train, test_labels=test))
    with pytest.raises(DataError, match=f"^here: .*{message}"):
        counting.npz(ArrayFile(source="npz", path=str(file)), None, "here")
    with pytest.raises(DataError, match=f"^dataset 'mine'.*{message}"):
        fetch(tmp_path / "out", "npz", file, SPEC)


def test_right_labels_are_counted(tmp_path):
    """Also in a column, unsigned, and without test images of a class."""
    for train, test in ((TRAIN, TEST), (TRAIN[:, None].astype(np.uint8), TEST % 2)):
        np.savez(tmp_path / "mine.npz", **arrays(train_labels=train, test_labels=test))
        counts = counting.npz(ArrayFile(source="npz", path=str(tmp_path / "mine.npz")), None, "here")
        assert counts == (3, [3, 8, 8], 12, 6)
