"""The folder of a long fit: it stays after a failure, and goes after a success."""

import errno

import pytest

from dahgnn.classifier import workplace
from dahgnn.classifier.workplace import keeping_work, work_folder
from dahgnn.world import ALONE


def enter(parent, identity="four rows, k 10"):
    return work_folder(parent, identity, ALONE)


def test_it_goes_with_a_fit_that_ends_well(tmp_path):
    with enter(tmp_path / "new") as path:
        (path / "part").write_text("done")
    assert list((tmp_path / "new").iterdir()) == []


def test_it_stays_with_what_was_done_for_the_same_fit_alone(tmp_path, caplog):
    with pytest.raises(OSError, match="full"), enter(tmp_path) as path:
        (path / "part").write_text("done")
        raise OSError("full")
    assert f"What was done is kept in {path}" in caplog.text
    with enter(tmp_path, "other rows, k 10") as other:
        assert not (other / "part").exists()
    with enter(tmp_path) as again:
        assert (again / "part").read_text() == "done"
    assert list(tmp_path.iterdir()) == []


def test_it_stays_until_what_comes_of_it_is_written(tmp_path, caplog):
    with pytest.raises(OSError, match="full"), keeping_work():
        with enter(tmp_path) as path:
            (path / "part").write_text("done")
        assert (path / "part").exists()
        raise OSError("full")
    assert f"What was done is kept in {path}" in caplog.text
    with keeping_work():
        with enter(tmp_path) as again:
            assert (again / "part").read_text() == "done"
        with enter(tmp_path) as other:  # the first one still has it
            assert other != path
    assert list(tmp_path.iterdir()) == []
    with enter(tmp_path) as path:
        pass
    assert not path.exists()  # nobody keeps it any more


def test_two_fits_of_the_same_do_not_meet(tmp_path):
    with enter(tmp_path) as first:
        (first / "part").write_text("first")
        with enter(tmp_path) as second:
            assert second != first
            assert list(second.iterdir()) == []
        assert (first / "part").exists()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_locked_is_told(tmp_path, monkeypatch, caplog):
    """File systems of some clusters have no locks; a fit works there all the same."""

    def refuse(*_):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(workplace.fcntl, "flock", refuse)
    with enter(tmp_path) as first, enter(tmp_path) as second:
        assert first != second
    assert f"because files in {tmp_path} cannot be locked (Function not implemented)" in caplog.text
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["lock"]


def test_a_folder_that_another_fit_has_is_not_told(tmp_path, caplog):
    with enter(tmp_path), enter(tmp_path):
        pass
    assert caplog.text == ""
