"""Keys, names and titles in the tables of a spec."""

import pytest

from dahgnn.experiments.keys import check_keys, check_name, check_title


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (3, "It must be a table. Got 3"),
        ({"rnus": 3}, "It has no key 'rnus'. Did you mean 'runs'"),
        ({"x": 3}, "It has no key 'x'. It has: name, runs"),
        ({"runs": 3}, "It needs the key 'name'"),
    ],
)
def test_what_is_wrong_with_a_table_is_named(table, words):
    with pytest.raises((TypeError, ValueError), match=words):
        check_keys(table, {"name", "runs"}, "It", required=("name",))
    check_keys({"name": 1}, {"name", "runs"}, "It", required=("name",))


@pytest.mark.parametrize("name", ["", "../x", "a b", 3, "x" * 101])
def test_a_name_is_fit_for_a_folder(name):
    check_name("da-hgnn_2.0", "It")
    with pytest.raises(ValueError, match="letters, digits"):
        check_name(name, "It")


@pytest.mark.parametrize("title", ["", "  ", None])
def test_a_title_is_a_text(title):
    check_title("Ours & theirs", "It")
    with pytest.raises(ValueError, match="a text that is not empty"):
        check_title(title, "It")
