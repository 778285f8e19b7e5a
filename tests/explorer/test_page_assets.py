"""The page of the labelling application as files: what it links and imports is there, and nothing is inline."""

import re
import shutil
from pathlib import Path

import pytest
from jinja2 import Environment, StrictUndefined, meta

import dahgnn.report

PACKAGE = Path(dahgnn.report.__file__).parent.parent
FOLDERS = [PACKAGE / room / "assets" for room in ("explorer", "report")]
TEMPLATE = PACKAGE / "explorer" / "templates" / "label_page.html"
SCRIPTS = sorted((PACKAGE / "explorer" / "assets").glob("*.js"))
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def asset(name):
    return next(folder / name for folder in FOLDERS if (folder / name).is_file())


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_module_imports_what_is_there_and_makes_no_markup_of_text(path):
    source = path.read_text(encoding="utf-8")
    for names, module in re.findall(r"^import \{(.*)\} from '\./(.*)';$", source, re.M):
        exported = asset(module).read_text(encoding="utf-8")
        for name in names.split(", "):
            assert re.search(rf"^export (?:async )?(?:const|function|class) {name}\b", exported, re.M), name
            assert len(re.findall(rf"\b{name}\b", source)) > 1, f"{name} is not used"
    assert len(re.findall(r"^import ", source, re.M)) == len(
        re.findall(r"^import \{.*\} from '\./.*';$", source, re.M)
    )
    assert not re.search(
        r"\beval\(|new Function|innerHTML|outerHTML|insertAdjacentHTML|document\.write", source
    )
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", source)


def test_the_template_needs_the_title_alone_and_has_nothing_inline():
    source = TEMPLATE.read_text(encoding="utf-8")
    assert meta.find_undeclared_variables(Environment(autoescape=True).parse(source)) == {"title"}
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]* src=)", source)
    linked = re.findall(r'(?:href|src)="/assets/([^"]+)"', source)
    assert {"label_page.js", "label_page.css", "map.css", "page.css"} <= {asset(name).name for name in linked}


def test_the_title_is_text():
    template = Environment(autoescape=True, undefined=StrictUndefined).from_string(
        TEMPLATE.read_text("utf-8")
    )
    page = template.render(title="</title><script>alert(1)</script>")
    assert "<script>" not in page
    assert page.count("&lt;/title&gt;&lt;script&gt;alert(1)") == 2


def test_every_control_of_the_page_has_a_name():
    source = TEMPLATE.read_text(encoding="utf-8")
    for attributes, content in re.findall(r"<button([^>]*)>(.*?)</button>", source, re.S):
        assert "aria-label=" in attributes or re.sub(r"<[^>]*>|\s", "", content)
        assert 'type="button"' in attributes
    for attributes in re.findall(r"<input([^>]*)>", source):
        name = re.search(r'id="([^"]+)"', attributes).group(1)
        assert f'for="{name}"' in source
    ids = re.findall(r'\sid="([^"]+)"', source)
    assert len(ids) == len(set(ids))
    for named in re.findall(r'aria-labelledby="([^"]+)"', source):
        assert named in ids or named in ("help-title", "export-title")  # these are made when they are opened


@pytest.fixture(scope="module")
def keys():
    """Return a function that calls one of label_keys.js in a browser."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs Playwright")
    if CHROMIUM is None:
        pytest.skip("needs Chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        source = asset("label_keys.js").read_text(encoding="utf-8")
        page.route("http://page.test/", lambda route: route.fulfill(body="", content_type="text/html"))
        page.route(
            "http://page.test/*.js", lambda route: route.fulfill(body=source, content_type="text/javascript")
        )
        page.goto("http://page.test/")
        call = "async ([name, values]) => (await import('/label_keys.js'))[name](...values)"
        yield lambda name, *values: page.evaluate(call, [name, values])
        browser.close()


def pairs(assigned):
    return [(each["digit"], each["letter"]) for each in assigned]


def test_classes_have_digits_in_order_and_the_first_free_letter_of_their_names(keys):
    assert pairs(keys("assignKeys", ["setosa", "Sepal", "Äther", "七"])) == [
        ("1", "s"), ("2", "e"), ("3", "t"), ("4", None)
    ]  # fmt: skip


def test_a_class_that_is_called_by_a_digit_has_it(keys):
    digits = [str(digit) for digit in range(10)]
    assert [digit for digit, _ in pairs(keys("assignKeys", digits))] == digits
    assert pairs(keys("assignKeys", ["cat", "1", "2"])) == [("1", "c"), ("2", None), ("3", None)]


def test_a_new_class_takes_no_key_from_an_old_one(keys):
    names = [f"{letter}{letter}" for letter in "zyxabcabcabcabcabc"] + ["七", "八"]
    every = pairs(keys("assignKeys", names))
    for n in range(len(names)):
        assert pairs(keys("assignKeys", names[:n])) == every[:n]
    given = [key for pair in every for key in pair if key]
    assert len(given) == len(set(given))
    # The tenth and later classes have no digit; without a letter of their own they get any that is free.
    assert all(letter is not None for digit, letter in every if digit is None)


@pytest.mark.parametrize(
    ("event", "meaning"),
    [
        ({"key": "1"}, {"place": 0}),
        ({"key": "b"}, {"place": 1}),
        ({"key": "B"}, {"place": 1}),  # Caps Lock
        ({"key": "B", "shiftKey": True}, None),
        ({"key": "N", "shiftKey": True}, {"command": "newClass"}),
        ({"key": "n"}, None),
        ({"key": "?", "shiftKey": True}, {"command": "help"}),
        ({"key": "/", "shiftKey": True}, {"command": "find"}),  # a German keyboard
        ({"key": " "}, {"command": "skip"}),
        ({"key": "Backspace"}, {"command": "undo"}),
        ({"key": "1", "ctrlKey": True}, None),
        ({"key": "F5"}, None),
    ],
)
def test_what_a_key_means(keys, event, meaning):
    none = dict.fromkeys(("shiftKey", "ctrlKey", "metaKey", "altKey"), False)
    assert (
        keys("meaningOf", none | event, [{"digit": "1", "letter": "a"}, {"digit": "2", "letter": "b"}])
        == meaning
    )
