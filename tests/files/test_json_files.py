"""JSON files that are whole, and all the ways in which they are not."""

import json
import os

import pytest

from dahgnn.files.json_files import read_json


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_a_file_is_read_in_each_encoding_of_json(write, encoding):
    content = {"ä": [1, 2.5, None, True, "x"], "b": {"c": 10**30}}
    assert read_json(write(json.dumps(content, ensure_ascii=False), "a.json", encoding)) == content


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "must have content. Got an empty file"),
        (" \n ", "must have content. Got an empty file"),
        ('{"a": [1, 2', "must be JSON. Got an error in line 1, column 12"),
        ('{"a": 1}\n{"b": 2}', "an error in line 2, column 1: Extra data"),
        ("a,b\n1,2\n", "must be JSON. Got an error in line 1"),
        ('{"a": NaN}', "Got NaN, which is no number of JSON"),
        ('{"a": -Infinity}', "Got -Infinity, which is no number of JSON"),
        ('{"a": 1, "a": 2}', "Got the key 'a' twice in one object"),
        ("[" * 100_000, "within each other, too deep to be read"),
        (b'{"a": "\xff\xfe\x00"}', "must be JSON. Got bytes that are no text at place 7"),
        (b"\x89PNG\r\n\x1a\n", "must be JSON. Got"),
    ],
)
def test_a_bad_file_is_refused_in_a_sentence(write, content, words):
    with pytest.raises(ValueError, match=words) as caught:
        read_json(write(content, "a.json"))
    assert str(caught.value).count("\n") == 0
    assert len(str(caught.value)) < 400


def test_numbers_of_thousands_of_digits_are_infinite(write):
    assert read_json(write('{"a": 1' + "0" * 5000 + "}", "a.json")) == {"a": float("inf")}


def test_a_huge_file_is_refused_before_it_is_read(write, monkeypatch):
    path = write("[1, 2, 3, 4]", "a.json")
    with pytest.raises(ValueError, match=r"a.json must have at most 11 bytes. Got 12."):
        read_json(path, most_bytes=11)
    assert read_json(path, most_bytes=12) == [1, 2, 3, 4]
    monkeypatch.setattr("dahgnn.files.json_files.MOST_BYTES", 5)
    with pytest.raises(ValueError, match="at most 5 bytes"):
        read_json(path)


def test_what_is_no_file_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no file"):
        read_json(tmp_path / "none.json")
    with pytest.raises(IsADirectoryError, match="must be a file. Got a folder"):
        read_json(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="must be a regular file. Got a device or pipe"):
        read_json(tmp_path / "pipe")
