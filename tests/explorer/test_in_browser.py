"""The labelling page in a real browser, on a real server; skipped where Playwright or Chromium is missing."""

import csv
import re
from pathlib import Path

import pytest
from browsers import COUNT_COLOURS, wait_until
from label_desk import count_of, find_row, label_rows, name_class, press, recent_of, row_of, wait_saved

# --- The whole way ---


def choose(page, row, word, known):
    """Decide on a card as a person would, with whatever key is nearest, and return how."""
    if page.locator("#card").get_attribute("data-way") == "audit":
        assert "its guess is hidden" in page.locator("#card-notes").inner_text()
        assert page.locator("#card-choices .percent").count() == 0
        assert not page.locator("#why").is_visible()
        press(page, "Enter")
        assert row_of(page) == row  # there is no guess to take
        press(page, str(known.index(word) + 1))
        return "audit"
    likely = page.locator("#card-choices .likely .choice .cut")
    if likely.count() and likely.first.inner_text() == word:
        press(page, "Enter")
        return "enter"
    press(page, letters_of(known)[word] if row % 2 else str(known.index(word) + 1))
    return "key"


def letters_of(known):
    """Return the letter of each class: the first of its name that no class before it has."""
    letters = {}
    for word in known:
        letters[word] = next(letter for letter in word if letter not in letters.values())
    return letters


def focused_text(page):
    return page.evaluate("document.activeElement.textContent.trim()")


def test_from_a_file_without_labels_to_an_export_by_keyboard_alone(fresh, desk):
    client, truth = fresh
    page = desk.open(client)
    assert "Press Shift+N" in page.locator("#card-notes").inner_text()
    known, ways, row = [], [], row_of(page)
    asked = {}
    while len(ways) < 24 or not {"audit", "enter", "key"} <= set(ways):
        word = asked[row] = truth[row]
        if word not in known:
            name_class(page, word)
            known.append(word)
        else:
            ways.append(choose(page, row, word, known))
        if len(asked) == 6:
            page.locator("#model-age", has_text=re.compile(r"model \d")).wait_for()
        row = row_of(page, other_than=row)
    wait_saved(page, len(asked))
    client.wait_for_model()
    press(page, "Shift+E")
    page.locator("#export").wait_for()
    for _ in range(9):
        press(page, "Tab")
        if focused_text(page) == "CSV":
            break
    assert focused_text(page) == "CSV"
    with page.expect_download() as download:
        press(page, "Enter")
    with Path(download.value.path()).open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [each["id"] for each in rows] == [f"row-{number}" for number in range(60)]
    by_people = {number: each["label"] for number, each in enumerate(rows) if each["by"] == "person"}
    assert by_people == asked
    guessed = [each["label"] == truth[number] for number, each in enumerate(rows) if each["by"] == "model"]
    assert len(guessed) == 60 - len(asked)
    assert sum(guessed) > 0.9 * len(guessed)


def test_a_model_that_comes_while_a_name_is_typed_leaves_the_field_alone(fresh, desk):
    client, truth = fresh
    page = desk.open(client)
    row = row_of(page)
    others = [each for each in range(60) if each != row]
    press(page, "Shift+N")
    page.keyboard.type("ap")
    for word in ("apple", "pear"):
        client.label([each for each in others if truth[each] == word][-3:], word)
    page.locator("#card-choices .likely").wait_for()  # the card has got its guess
    page.keyboard.type("ricot")
    press(page, "Enter")  # which, out of the field, would take the likeliest class
    wait_saved(page, 7)
    labels = client.project.session.labels
    assert labels.of(row) == "apricot"
    assert labels.classes == ["apple", "pear", "apricot"]


# --- Undo, skip, and what was said before ---


def test_backspace_undoes_one_action_after_the_other_also_after_a_reload(fresh, desk):
    client, truth = fresh
    page = desk.open(client)
    rows = label_rows(page, truth, 4)
    wait_saved(page, 4)
    for left in (3, 2):
        press(page, "Backspace")
        wait_until(page, lambda at=left: row_of(page) == rows[at], "the row before")
        wait_saved(page, left)
        assert [row for row, _, _ in recent_of(page)] == rows[left - 1 :: -1]
    page.reload()
    row_of(page)
    press(page, "Backspace")
    wait_until(page, lambda: row_of(page) == rows[1], "the row that was labelled before the reload")
    wait_saved(page, 1)
    labels = client.project.session.labels
    assert [labels.of(row) for row in rows] == [truth[rows[0]], None, None, None]
    name_class(page, "fig")  # the card is open, to be decided anew
    wait_saved(page, 2)
    assert labels.of(rows[1]) == "fig"


def test_undo_without_anything_done_does_nothing(fresh, desk):
    client, _ = fresh
    desk.forgive("404")
    page = desk.open(client)
    press(page, "Backspace")
    page.locator("#said", has_text="nothing to undo").wait_for(state="attached")
    assert client.project.session.state.version == 0


def test_space_skips_a_row_and_backspace_brings_it_back(fresh, desk):
    client, _ = fresh
    page = desk.open(client)
    row = row_of(page)
    press(page, "Space")
    assert row_of(page, other_than=row) != row
    state = client.project.session.state
    wait_until(page, lambda: state.skipped == {f"row-{row}"}, "the skip")
    press(page, "Backspace")
    wait_until(page, lambda: row_of(page) == row, "the row that was skipped")
    wait_until(page, lambda: not state.skipped, "the undo")
    assert count_of(page) == 0


def test_the_last_ten_labels_stay_open_to_change(fresh, desk):
    client, truth = fresh
    page = desk.open(client)
    rows = label_rows(page, truth, 12)
    wait_saved(page, 12)
    assert [row for row, _, _ in recent_of(page)] == rows[:1:-1]
    waiting = row_of(page)
    press(page, "Shift+R")
    wait_until(page, lambda: row_of(page) == rows[-1], "the last label")
    press(page, "Shift+R")
    wait_until(page, lambda: row_of(page) == rows[-2], "the one before it")
    assert f"Its label is {truth[rows[-2]]}" in page.locator("#card-notes").inner_text().replace("\n", "")
    name_class(page, "fig")
    wait_until(page, lambda: client.project.session.labels.of(rows[-2]) == "fig", "the change")
    assert row_of(page) == waiting
    wait_saved(page, 12)
    assert recent_of(page)[0] == [rows[-2], "fig", "saved"]


# --- Reload ---


def test_a_reload_finds_everything_as_it_was(fresh, desk):
    client, truth = fresh
    page = desk.open(client)
    label_rows(page, truth, 7)
    wait_saved(page, 7)
    client.wait_for_model()
    classes = page.locator("#card-choices .choice").count()
    recent = recent_of(page)
    page.reload()
    row_of(page)
    wait_saved(page, 7)
    assert recent_of(page) == recent
    assert page.locator("#card-choices .choice").count() == classes
    page.locator("#model-age", has_text="model").wait_for()


@pytest.mark.parametrize("lost", ["nothing", "the request", "the answer"])
def test_a_label_typed_right_before_a_reload_is_kept_once(fresh, desk, lost):
    client, truth = fresh
    desk.forgive("ERR_FAILED")
    page = desk.open(client)
    label_rows(page, truth, 2)
    wait_saved(page, 2)
    held = []

    def lose(route):
        if lost == "the answer":
            route.fetch()
        held.append(route)
        route.abort()

    if lost != "nothing":
        page.route("**/api/label", lose)
    row = row_of(page)
    name_class(page, "fig")
    if lost != "nothing":
        wait_until(page, lambda: held, "the label on its way")
    page.unroute_all(behavior="wait")
    page.reload()
    row_of(page)
    wait_saved(page, 3)
    session = client.project.session
    assert [event.rows for event in session.journal.events() if event.label == "fig"] == [(f"row-{row}",)]
    assert session.labels.of(row) == "fig"


# --- Two windows ---


def legend_of(page):
    """Return how many rows have each colour of the map, by the name of the class."""
    keys = page.locator("#legend .key")
    return dict(
        keys.evaluate_all(
            "keys => keys.map(key => [key.children[1].textContent, Number(key.children[2].textContent)])"
        )
    )


def test_what_one_window_labels_shows_in_the_other(fresh, desk):
    client, truth = fresh
    first, second = desk.open(client), desk.open(client)
    row = row_of(first)
    assert row != row_of(second)
    before = second.evaluate(COUNT_COLOURS)
    name_class(first, truth[row])
    for page in (first, second):
        wait_saved(page, 1)
    assert recent_of(first) == [[row, truth[row], "saved"]]
    assert recent_of(second) == [[row, truth[row], "elsewhere"]]
    assert legend_of(second) == {truth[row]: 1, "no class yet": 59}
    wait_until(second, lambda: second.evaluate(COUNT_COLOURS) != before, "another colour on the map")
    held = {row_of(first), row_of(second)}
    assert len(held) == 2
    find_row(second, f"row-{row}", row)  # and what it opens there is what the other one said
    assert f"Its label is {truth[row]}" in second.locator("#card-notes").inner_text().replace("\n", "")


@pytest.mark.parametrize(("button", "label"), [("use mine", "fig"), ("keep theirs", "date")])
def test_two_windows_that_label_one_row_at_once_ask_which_is_right(fresh, desk, button, label):
    client, _ = fresh
    desk.forgive("409")
    first, second = desk.open(client), desk.open(client)
    for page in (first, second):
        find_row(page, "row-7", 7)
    held = []
    second.route("**/api/label", lambda route: held.append(route))
    name_class(second, "fig")
    wait_until(second, lambda: held, "the label on its way")
    name_class(first, "date")
    wait_saved(first, 1)
    held[0].continue_()
    second.unroute("**/api/label")
    notice = second.locator(".notice.bad")
    notice.wait_for()
    assert re.search(r"row-7: another window .* date.* fig.* not saved", notice.inner_text())
    labels = client.project.session.labels
    assert labels.of(7) == "date"
    second.locator(".notice.bad").get_by_role("button", name=button).click()
    notice.wait_for(state="detached")
    for page in (first, second):
        wait_until(page, lambda page=page: recent_of(page)[0][:2] == [7, label], "one label in both")
        wait_saved(page, 1)
    assert labels.of(7) == label
