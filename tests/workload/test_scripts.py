"""Script files: read once, with weights and labels; every way in which they can be wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimtab.errors import UsageError
from trimtab.workload.scripts import digest, read_scripts, with_weights
from trimtab.workload.sql.statements import writes


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.sql").write_text("SELECT 1;")
    (tmp_path / "b.sql").write_text("SELECT 2;")
    (tmp_path / "latin.sql").write_bytes(b"SELECT '\xe9';")
    (tmp_path / "large.sql").write_text(" " * (1 << 20) + "SELECT 1;")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.sql").write_text("SELECT 3;")
    return tmp_path


def test_files_have_labels_and_weights(folder: Path) -> None:
    scripts = read_scripts(["a.sql@3", "b.sql"], folder)
    assert [(s.label, s.weight, s.text, s.source) for s in scripts] == [
        ("a", 3.0, "SELECT 1;", "a.sql"),
        ("b", 1.0, "SELECT 2;", "b.sql"),
    ]
    assert [s.weight for s in with_weights(scripts, {"b": 9})] == [3.0, 9.0]


def test_a_byte_order_mark_is_no_part_of_the_first_statement(folder: Path) -> None:
    (folder / "marked.sql").write_bytes(b"\xef\xbb\xbfSELECT 4;\r\n")
    (script,) = read_scripts(["marked.sql"], folder)
    assert script.text == "SELECT 4;\n"
    assert not writes(script.text)


def test_the_digest_follows_text_and_weight(folder: Path) -> None:
    scripts = read_scripts(["a.sql", "b.sql"], folder)
    assert digest(scripts) == digest(read_scripts(["a.sql", "b.sql"], folder))
    assert len({digest(scripts), digest(with_weights(scripts, {"a": 2})), digest(scripts[:1])}) == 3


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("c.sql", "cannot read script='c.sql': No such file"),
        ("sub", "cannot read script='sub': Is a directory"),
        ("a.sql@many", "script='a.sql@many' has no weight after '@'"),
        ("a.sql@-1", "script='a.sql@-1' has no weight after '@'"),
        ("a.sql@nan", "script='a.sql@nan' has no weight after '@'"),
        (7, "script=7 is not a file name"),
        ("", "script='' is not a file name"),
        ("latin.sql", "script='latin.sql' is not UTF-8 text"),
        ("large.sql", "script='large.sql' is larger than 1 MiB"),
    ],
)
def test_files_that_cannot_be_read_are_named(folder: Path, name: object, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read_scripts([name], folder)


def test_one_label_twice_is_refused(folder: Path) -> None:
    with pytest.raises(UsageError, match="two scripts have the label 'a'"):
        read_scripts(["a.sql", "sub/a.sql"], folder)


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ({"c": 1}, r"\[workload.weights\] names 'c', which is not a script"),
        ({"a": "much"}, r"a='much' is not a weight"),
        ({"a": True}, r"a=True is not a weight"),
        ({"a": 2e15}, r"a=2000000000000000.0 is not a weight"),
        ({"a": 0, "b": 0}, "the weights of the scripts sum to 0"),
        ([1, 2], r"\[workload.weights\] is \[1, 2\] and no table"),
    ],
)
def test_wrong_weights_are_named(folder: Path, weights: object, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        with_weights(read_scripts(["a.sql", "b.sql"], folder), weights)


def test_weights_may_be_the_calls_of_years(folder: Path) -> None:
    weighted = with_weights(read_scripts(["a.sql@5000000000", "b.sql"], folder), {"b": 40_000_000_000})
    assert [script.weight for script in weighted] == [5e9, 4e10]
