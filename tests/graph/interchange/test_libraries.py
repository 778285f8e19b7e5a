import pytest

from dahgnn.graph.interchange.libraries import check_source, library


def test_a_library_that_is_there():
    assert library("json").dumps([1]) == "[1]"


def test_a_library_that_is_missing_is_named_with_its_extra():
    with pytest.raises(
        ModuleNotFoundError, match="nolibrary is not installed. It comes with .* 'interchange'"
    ):
        library("nolibrary.deep")


def test_what_a_library_lacks_is_named(tmp_path, monkeypatch):
    (tmp_path / "halflibrary.py").write_text("import whatitneeds\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="No module named 'whatitneeds'"):
        library("halflibrary")


def test_a_source_of_another_type_is_refused():
    check_source(1, int, "an int")
    with pytest.raises(TypeError, match="'source' parameter of import_hypergraph must be an int. Got str"):
        check_source("1", int, "an int")
