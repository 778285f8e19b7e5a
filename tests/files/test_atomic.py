import os
import stat

import pytest

from dahgnn.files.atomic import replacing


def test_the_new_content_takes_the_place_of_the_old(tmp_path):
    path = tmp_path / "deep" / "note.txt"
    for content in ("old", "new"):
        with replacing(path) as temporary:
            temporary.write_text(content)
    assert path.read_text() == "new"
    assert os.listdir(path.parent) == ["note.txt"]


@pytest.mark.parametrize("error", [OSError("No space left on device"), KeyboardInterrupt()])
def test_an_error_leaves_the_old_content_and_nothing_beside_it(tmp_path, error):
    path = tmp_path / "note.txt"
    path.write_text("old")
    with pytest.raises(type(error)), replacing(path) as temporary:
        temporary.write_text("ne")
        raise error
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["note.txt"]


def test_the_mode_is_that_of_the_old_file_or_of_any_new_one(tmp_path):
    path, plain = tmp_path / "note.txt", tmp_path / "plain.txt"
    plain.write_text("")
    with replacing(path):
        pass
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)
    path.chmod(0o640)
    with replacing(path):
        pass
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_what_a_link_points_to_is_replaced(tmp_path):
    target, link = tmp_path / "target.txt", tmp_path / "link.txt"
    target.write_text("old")
    link.symlink_to(target)
    with replacing(link) as temporary:
        temporary.write_text("new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_a_folder_is_not_replaced(tmp_path):
    with pytest.raises(FileExistsError, match="must be a file to be replaced"), replacing(tmp_path):
        pass
    assert tmp_path.is_dir()


def test_a_writer_that_makes_a_file_of_its_own_does_not_change_who_may_read_it(tmp_path):
    others = tmp_path / "others.txt"
    others.write_text("of the same folder")
    with replacing(tmp_path / "new.txt") as temporary:
        temporary.unlink()
        temporary.touch(mode=0o600)
    assert (tmp_path / "new.txt").stat().st_mode == others.stat().st_mode
