"""The map, the cards and the lists of the labelling page in a real browser."""

import re

import numpy as np
import pytest
from browsers import COUNT_COLOURS, SWITCHES, draw_around, places_in_window, wait_until
from label_desk import press, row_of, wait_saved
from label_server import options, served, write_blobs

from dahgnn.explorer.project import LabelOptions
from dahgnn.report.fit_folder import FitOptions
from dahgnn.tables.planning import Choices

# --- The map ---


@pytest.fixture(params=SWITCHES)
def drawn(request, launch, make_desk, tmp_path):
    """A table with three labels, on a map that is drawn by each kind of canvas."""
    browser = launch(request.param)
    write_blobs(tmp_path / "fruit.csv", n=90, given=(0, 1, 2))
    with served(tmp_path / "fruit.csv") as client:
        client.wait_for_model(0)
        page = make_desk(browser).open(client)
        kind = page.evaluate(f"!!document.querySelector('#points canvas').getContext('{browser.kind}')")
        assert kind
        yield client, page


def coloured(colours):
    """Return how many pixels are of some colour, and not grey."""
    cells = ((map(int, key.split("-")), count) for key, count in colours.items())
    return sum(count for cell, count in cells if np.ptp(list(cell)) >= 2)


def settled_colours(page):
    """Return the colours of the map when they no longer change."""
    found = [page.evaluate(COUNT_COLOURS)]

    def is_settled():
        page.wait_for_timeout(60)
        found.append(page.evaluate(COUNT_COLOURS))
        return found[-1] == found[-2] and sum(found[-1].values())

    wait_until(page, is_settled, "a map at rest")
    return found[-1]


def test_the_map_shows_all_rows_and_takes_the_colour_of_a_new_class(drawn):
    client, page = drawn
    before = settled_colours(page)
    assert coloured(before) > 90 * 20  # each row is a disc of some pixels
    row = row_of(page)
    press(page, "Shift+N")
    page.keyboard.type("fig")
    press(page, "Enter")
    wait_saved(page, 4)
    client.wait_for_model()
    after = settled_colours(page)
    new = [key for key in after if after[key] > 40 and before.get(key, 0) < after[key] / 4]
    assert new  # of the fourth class there was nothing
    assert client.project.session.labels.of(row) == "fig"


def test_the_map_is_coloured_in_four_ways(drawn):
    _, page = drawn
    looks, pressed = [], page.locator("#modes [aria-pressed=true]")
    for name in ("confidence", "density", "given label", "class"):
        press(page, "Shift+M")
        wait_until(page, lambda name=name: pressed.inner_text() == name, name)
        looks.append(settled_colours(page))
    assert all(a != b for place, a in enumerate(looks) for b in looks[:place])
    assert coloured(looks[2]) < coloured(looks[3]) / 3  # three rows have a label, all have a class


def test_a_loop_opens_a_sheet_and_a_key_labels_all_inside(drawn):
    client, page = drawn
    row = row_of(page)
    before = settled_colours(page)
    at = places_in_window(page, client.project.places)
    box = page.locator("#points").bounding_box()
    low = np.array([box["x"] + 4, box["y"] + 4])
    high = np.array([np.median(at[:, 0]), box["y"] + box["height"] - 4])
    inside = np.flatnonzero(((at > low) & (at < high)).all(1))
    draw_around(page, low.tolist(), high.tolist())
    page.locator("#sheet-choices .choice").first.wait_for()
    assert page.locator("#sheet-title").inner_text() == f"{len(inside)} rows"
    assert page.locator("#sheet .tile").count() == len(inside)
    grey = settled_colours(page)
    assert coloured(grey) < 0.75 * coloured(before)
    assert page.locator("#points canvas").is_visible()
    press(page, "2")
    assert row_of(page) == row or row in inside
    labels = client.project.session.labels
    wait_until(page, lambda: {labels.of(int(each)) for each in inside} == {"pear"}, "the labels")
    assert labels.n_labelled == len(inside) + sum(each not in inside for each in (0, 1, 2))
    assert coloured(settled_colours(page)) > coloured(grey)
    press(page, "Backspace")
    wait_until(page, lambda: labels.n_labelled == 3, "the undo of all")
    assert page.locator("#sheet-title").inner_text() == f"{len(inside)} rows"
    press(page, "Escape")
    assert not page.locator("#sheet").is_visible()


def test_a_row_of_the_map_can_be_pointed_at_and_opened(drawn):
    client, page = drawn
    settled_colours(page)
    at = places_in_window(page, client.project.places)
    apart = np.linalg.norm(at[:, None] - at, axis=2) + 1e9 * np.eye(len(at))
    row = int(apart.min(1).argmax())
    page.mouse.move(*at[row].tolist())
    page.locator("#tip", has_text=f"row-{row}").wait_for()
    page.mouse.click(*at[row].tolist())
    wait_until(page, lambda: row_of(page) == row, "the row of the map")
    press(page, "Escape")
    row_of(page, other_than=row)


# --- Doubtful labels, and what changed ---


def test_doubtful_labels_are_kept_by_enter_and_changed_by_a_class_key(desk, tmp_path):
    truth = write_blobs(tmp_path / "fruit.csv", n=90)
    with served(tmp_path / "fruit.csv", options(networks=5)) as client:  # which hold out every label once
        for word in ("apple", "pear", "plum"):
            client.label([row for row in range(2, 60) if truth[row] == word], word)
        client.label([0], "plum")
        client.label([1], "apple")
        client.wait_for_model()
        page = desk.open(client)
        press(page, "Shift+D")
        page.locator("#card[data-way=doubtful]").wait_for()
        assert "Doubtful label 1 of 2" in page.locator("#card-notes").inner_text()
        first = row_of(page)
        press(page, "Space")  # the next one, and back again
        second = row_of(page, other_than=first)
        assert {first, second} == {0, 1}
        press(page, "Enter")
        assert row_of(page, other_than=second) == first
        press(page, str(("apple", "pear", "plum").index(truth[first]) + 1))
        page.locator(".notice", has_text="No label looks doubtful").wait_for()
        session = client.project.session
        wrong = {0: "plum", 1: "apple"}[second]
        wait_until(page, lambda: session.labels.of(first) == truth[first], "the change")
        assert session.state.kept == {f"row-{second}": wrong}
        assert session.labels.of(second) == wrong
        client.wait_for_model()
        press(page, "Shift+C")
        page.locator("#changed-body", has_text=f"Model {session.model.number} changed").wait_for()
        assert page.locator("#changed .tile").count() == len(session.model.changed)
        press(page, "Shift+F")
        row_of(page)


# --- Pictures and texts ---


def test_pictures_of_a_folder_are_shown_as_they_are(desk, tmp_path):
    pil = pytest.importorskip("PIL.Image")
    folder = tmp_path / "photos"
    folder.mkdir()
    shades = [(53 * number % 256, 97 * number % 256, 9) for number in range(24)]
    for number, shade in enumerate(shades):
        pil.new("RGB", (12, 8), shade).save(folder / f"{number:02}.png")
    quick = LabelOptions(fit=FitOptions(networks=1, map="pca"))
    with served(folder, quick) as client:
        page = desk.open(client)
        seen = {}
        for _ in range(4):
            row = row_of(page)
            image = page.locator("#card-body figure img")
            wait_until(page, lambda each=image: each.evaluate("image => image.naturalWidth"), "a picture")
            seen[row] = image.evaluate(
                """image => {
                  const pen = document.createElement('canvas').getContext('2d');
                  pen.drawImage(image, 0, 0);
                  return [...pen.getImageData(2, 2, 1, 1).data].slice(0, 3);
                }"""
            )
            press(page, "Space")
            row_of(page, other_than=row)
        names = client.project.session.rows.ids
        assert len(seen) == 4
        for row, shade in seen.items():
            assert tuple(shade) == shades[int(re.search(r"(\d\d)\.png", names[row])[1])]


def test_free_text_is_read_with_its_lines(desk, tmp_path):
    words = ["ripe", "green", "sour", "sweet", "soft"]
    reviews = [
        f"Line one of review {row}, {words[row % 5]}.\nLine two of it, {words[row % 3]} again."
        for row in range(30)
    ]
    lines = [f'"{text}",{row % 7}' for row, text in enumerate(reviews)]
    (tmp_path / "reviews.csv").write_text("review,stars\n" + "\n".join(lines) + "\n")
    chosen = LabelOptions(fit=FitOptions(networks=1, map="pca", choices=Choices(text=["review"])))
    with served(tmp_path / "reviews.csv", chosen) as client:
        page = desk.open(client)
        row = row_of(page)
        assert page.locator("#card-body .text p").inner_text() == reviews[row]
        assert page.locator("#card-body .cells td").inner_text() == str(row % 7)


# --- For everybody ---

KEYS = ["Enter", "Backspace", "Space", "/", "?", "Escape", *(f"Shift + {letter}" for letter in "NTMLDCEFR")]
FOCUS = """
() => {
  const at = document.activeElement, style = getComputedStyle(at);
  const shown = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0;
  return [at.tagName, at.id, shown || style.boxShadow !== 'none'];
}"""


@pytest.fixture
def labelled_page(fresh, desk):
    """A page with a model, so that all of its parts are there."""
    client, truth = fresh
    for word in ("apple", "pear", "plum"):
        client.label([row for row in range(12) if truth[row] == word], word)
    client.wait_for_model()
    page = desk.open(client)
    page.locator("#why .tile").first.wait_for()
    return page


def test_whatever_can_be_used_has_a_name_and_shows_its_focus(labelled_page):
    page = labelled_page
    told = page.locator("body").aria_snapshot()
    kinds = "button|link|textbox|searchbox|combobox|img|progressbar|region|dialog"
    nameless = re.findall(rf"^\s*- (?:{kinds})(?! \").*$", told, re.MULTILINE)
    assert nameless == []
    assert told.count("- button ") > 20
    visited = []
    for _ in range(60):
        press(page, "Tab")
        name, id_, shown = page.evaluate(FOCUS)
        if name == "BODY":
            break
        assert shown, f"nothing shows that {name} {id_} has the focus"
        visited.append(id_)
    assert {"train", "wanted", "show-help", "card-body", "undo", "skip", "loop", "points"} <= set(visited)


def test_dialogs_take_the_focus_and_give_it_back(labelled_page):
    page = labelled_page
    for _ in range(9):
        press(page, "Tab")
        if page.evaluate("document.activeElement.id") == "show-export":
            break
    press(page, "?")
    page.locator("#help").wait_for()
    told = page.locator("#help").inner_text()
    for key in KEYS:
        assert key in told
    for word in ("apple", "pear", "plum"):
        assert word in told
    before = row_of(page)
    for _ in range(4):
        assert page.evaluate("document.activeElement.closest('dialog, body').id || 'body'") in (
            "help",
            "body",
        )
        press(page, "Tab")
    press(page, "1", "Space", "Backspace")  # the page behind does not hear
    press(page, "Escape")
    page.locator("#help").wait_for(state="hidden")
    assert page.evaluate("document.activeElement.id") == "show-export"
    assert row_of(page) == before
    press(page, "Shift+E")
    page.locator("#export").wait_for()
    assert page.evaluate("!!document.activeElement.closest('#export')")
    press(page, "Escape")
    page.locator("#export").wait_for(state="hidden")


def test_typing_in_a_field_is_typing(labelled_page):
    page = labelled_page
    row = row_of(page)
    press(page, "/")
    page.keyboard.type("1a? N")
    assert page.locator("#wanted").input_value() == "1a? N"
    press(page, "Escape", "Shift+N")
    page.keyboard.type("12")
    assert page.locator("#card-class-name").input_value() == "12"
    press(page, "Escape")
    assert row_of(page) == row
    wait_saved(page, 12)


@pytest.mark.parametrize("width", [390, 1280, 3840])
def test_pages_of_any_width_scroll_down_only_and_are_dark_at_night(fresh, make_desk, browser, width):
    client, truth = fresh
    client.label([0], truth[0])
    page = make_desk(browser, viewport={"width": width, "height": 844}, color_scheme="dark").open(client)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    shade = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert max(map(int, re.findall(r"\d+", shade)[:3])) < 64
