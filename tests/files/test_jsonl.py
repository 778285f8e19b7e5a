"""Files that only grow; `tests/experiments/test_runner.py` kills, fills disks and starts twice."""

import json
import logging
import os

import pytest

from dahgnn.files.jsonl import append_lines, lock_folder, read_objects, repair_last_line


def test_lines_are_appended_in_order(tmp_path):
    file = tmp_path / "lines.jsonl"
    append_lines(file, [{"a": 1}, {"b": "two\nlines"}])
    append_lines(file, [])
    append_lines(file, [{"c": None}])
    assert [json.loads(text) for text in file.read_text().splitlines()] == [
        {"a": 1},
        {"b": "two\nlines"},
        {"c": None},
    ]


def test_a_line_that_cannot_be_written_leaves_those_before(tmp_path):
    file = tmp_path / "lines.jsonl"
    with pytest.raises(TypeError):
        append_lines(file, [{"a": 1}, {"b": object()}])
    assert file.read_text() == '{"a": 1}\n'


@pytest.mark.parametrize(
    ("error", "kept"), [(KeyboardInterrupt(), b'{"run": 1}\n{"run": 2}\n'), (OSError(), b'{"run": 1}\n')]
)
def test_an_interruption_does_not_take_a_whole_line_back(tmp_path, monkeypatch, error, kept):
    file = tmp_path / "runs.jsonl"
    append_lines(file, [{"run": 1}])

    def fail(_):
        raise error

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(type(error)):
        append_lines(file, [{"run": 2}])
    assert file.read_bytes() == kept


@pytest.mark.parametrize(
    ("content", "mended"),
    [
        ("", ""),
        ('{"a": 1}\n', '{"a": 1}\n'),
        ('{"a": 1}\n{"b": 2}', '{"a": 1}\n{"b": 2}\n'),
        ('{"a": 1}\n{"b": ', '{"a": 1}\n'),
        ('{"b": ', ""),
        ('{"a": 1}\n' + "[" * 100_000, '{"a": 1}\n'),
    ],
)
def test_the_end_is_mended(tmp_path, caplog, content, mended):
    file = tmp_path / "lines.jsonl"
    file.write_text(content)
    with caplog.at_level(logging.WARNING):
        repair_last_line(file)
    assert file.read_text() == mended
    assert ("was cut" in caplog.text) == (len(mended) < len(content))


def test_one_is_alone_until_the_block_ends(tmp_path):
    folder = tmp_path / "new" / "folder"
    with (
        lock_folder(folder),
        pytest.raises(ValueError, match=f"Another process works in {folder}"),
        lock_folder(folder),
    ):
        pass
    with lock_folder(folder):
        pass


def test_lines_are_read_with_their_numbers_and_a_cut_one_is_left_out(tmp_path, caplog):
    file = tmp_path / "lines.jsonl"
    file.write_text('{"a": 1}\n[2]\n{"a": ')
    with caplog.at_level(logging.WARNING):
        assert list(read_objects(file)) == [(1, {"a": 1}), (2, [2])]
    assert "line 3 is cut short and left out" in caplog.text
    file.write_text('{"a": 1}\n{"a": \n{}\n')
    with pytest.raises(ValueError, match="Line 2 of .* must be a JSON object"):
        list(read_objects(file))
