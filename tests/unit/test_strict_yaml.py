"""YAML's traps, one by one: what is refused with a line or a key, and what plain words mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from flatfed import strict_yaml
from flatfed.errors import ConfigError

#: Content of a file -> words of the message.
REFUSED = {
    "a: 1\na: 2": "line 2: key 'a' is given twice, first in line 1",
    "a: {b: 1, b: 2}": "line 1: key 'b' is given twice",
    "a: &x {b: 1}\nc: {<<: *x, d: 1, d: 2}": "line 2: key 'd' is given twice",
    "a: &x [*x]": "nested deeper than 32 levels",
    "a: &x {b: *x}": "nested deeper than 32 levels",
    "a: *x": "undefined alias",
    "a: &x [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
    + "".join(f"a{n}: &x{n} [{', '.join([f'*x{n - 1}' if n else '*x'] * 10)}]\n" for n in range(9)): "values, anchors",
    f"a: {'[' * 100_000}": "not YAML",
    "".join(f"{'  ' * n}a:\n" for n in range(40)): "nested deeper than 32 levels",
    "<<: 3": "expected a mapping or list of mappings",
    "1: a": "line 1: key '1' is not a text; write it in quotes",
    "true: a": "key 'true' is not a text",
    "[a]: 1": "key that is a list or a mapping is not a text",
    "a: !!python/object/apply:os.system [ls]": "could not determine a constructor for the tag",
    "a: !!int x": "not YAML",
    "a: [.inf]": "f: a[0]: inf is not allowed",
    "a: {b: -.INF}": "f: a.b: -inf is not allowed",
    "a: .NaN": "f: a: nan is not allowed",
    "a: 1e400": "f: a: inf is not allowed",
    "a: 9007199254740993": "f: a: 9007199254740993 is not allowed; a number of at most 9.0072e+15",
    f"a: {'9' * 5000}": "has 5000 characters; at most 4000",
    f"a: -{'9' * 3000}": "is not allowed; a number of at most",
    'a: "x\\ny"': "write >- before a text of several lines",
    'a: "\\0"': "control character '\\x00'",
    'a: "x\\u202ey"': "control character '\\u202e'",
    '"x\\u200by": 1': "f: key: 'x\\u200by' holds the control character",
    'a: "\\ud800"': "not YAML",
    "\ta: 1": "not YAML",
    "a: [1": "not YAML",
    "a: 1\n---\na: 2": "but found another document",
}


def read(tmp_path: Path, content: str | bytes):
    path = tmp_path / "f.yaml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return strict_yaml.read(path, "f")


@pytest.mark.parametrize("content", REFUSED, ids=lambda content: content[:40])
def test_refused(content: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, content)
    assert REFUSED[content] in str(caught.value)
    assert str(caught.value).startswith("f: ")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a: \xe9".encode("latin-1"), "not UTF-8: byte 3 is 0xe9"),
        ("a: 1".encode("utf-16"), "not UTF-8: byte 0 is 0xff"),
        (b"a: \x01", "not YAML"),
    ],
    ids=["latin-1", "UTF-16", "control character"],
)
def test_bytes_that_are_no_text(content: bytes, words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"f: {words}"):
        read(tmp_path, content)


def test_what_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="f: cannot be read: Is a directory"):
        strict_yaml.read(tmp_path, "f")


def test_plain_words_are_those_of_yaml_1_2(tmp_path: Path) -> None:
    content = (
        "[yes, No, on, 010, 0x10, 1:30, 1_000, 2023-01-01, 1e, .e1, true, FALSE, ~, null, 1e-3, 5E2, 1., .5, -7, +1]"
    )
    assert read(tmp_path, content) == [
        *("yes", "No", "on", "010", "0x10", "1:30", "1_000", "2023-01-01", "1e", ".e1"),
        *(True, False, None, None, 1e-3, 500.0, 1.0, 0.5, -7, 1),
    ]


@pytest.mark.parametrize(
    "word", ["yes", "010", "true", "False", "7", "-1e-3", "inf", "1:30", "*a", "{a", "", "9" * 9999]
)
def test_a_word_of_the_command_line_is_read_as_in_a_file(word: str, tmp_path: Path) -> None:
    as_text = word in ("*a", "{a", "", "9" * 9999)  # a file would need quotes, or refuses it
    assert strict_yaml.as_in_a_file([word])[0] == (word if as_text else read(tmp_path, f"[{word}]")[0])


def test_a_byte_order_mark_and_line_ends_of_windows_change_nothing(tmp_path: Path) -> None:
    assert read(tmp_path, b"\xef\xbb\xbfa: 1\r\nb: [x, y]\r\n") == {"a": 1, "b": ["x", "y"]}
