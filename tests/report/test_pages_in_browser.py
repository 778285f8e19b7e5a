"""The pages as a browser shows them, by WebGL and without; skipped where Playwright or Chromium is missing."""

import numpy as np
import pytest
import torch
from browsers import COUNT_COLOURS, SWITCHES, draw_around, places_in_window
from fit_views import make_view
from report_cases import HOSTILE

from dahgnn.report.embedding import Panel, interactive_embedding
from dahgnn.report.fit_page import fit_page


@pytest.fixture(scope="module", params=SWITCHES)
def browser(request, launch):
    return launch(request.param)


def opened(browser, path, text, width=1280):
    """Return the page of a file with HTML, and the errors that it meets."""
    path.write_text(text, encoding="utf-8")
    page = browser.new_page(viewport={"width": width, "height": 900}, reduced_motion="reduce")
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(path.as_uri())
    page.wait_for_timeout(300)
    return page, errors


def places(page, view):
    """Return where the rows stand in the window."""
    page.locator("#points").scroll_into_view_if_needed()
    page.wait_for_timeout(100)
    return places_in_window(page, view.position)


def test_the_map_is_drawn_and_rows_can_be_pointed_at_and_chosen(browser, tmp_path):
    view = make_view(n=200)
    page, errors = opened(browser, tmp_path / "a.html", fit_page(view))
    assert page.evaluate(f"!!document.querySelector('#points canvas').getContext('{browser.kind}')")
    colours = page.evaluate(COUNT_COLOURS)
    assert sum(colours.values()) > 4000
    assert len(colours) >= 4  # three classes, and the rings
    at = places(page, view)
    apart = np.linalg.norm(at[:, None] - at, axis=2) + 1e9 * np.eye(len(at))
    row = int(apart.min(1).argmax())
    page.mouse.move(*at[row])
    assert f"row-{row}" in page.locator("#tip").inner_text()
    page.mouse.click(*at[row])
    assert page.locator("#panel").get_attribute("data-chosen") == str(row)
    page.wait_for_timeout(100)
    assert page.locator("#points line").count() == view.members.shape[1] - 1
    page.keyboard.press("Escape")
    assert page.locator("#panel").get_attribute("data-chosen") is None
    assert errors == []


def test_a_loop_counts_the_rows_inside_and_turns_the_others_grey(browser, tmp_path):
    view = make_view(n=200)
    page, errors = opened(browser, tmp_path / "a.html", fit_page(view))
    at = places(page, view)
    left, top = at.mean(0) - 90
    inside = ((at > [left, top]) & (at < [left + 180, top + 180])).all(1)
    draw_around(page, (left, top), (left + 180, top + 180))
    assert page.locator("#panel h3").inner_text().startswith(f"{inside.sum()} rows")
    first = page.locator("#panel .ids li").first.inner_text()
    assert first == f"row-{np.flatnonzero(inside)[0]}"
    page.wait_for_timeout(200)
    before = sum(page.evaluate(COUNT_COLOURS).values())
    page.keyboard.press("Escape")
    page.wait_for_timeout(200)
    assert sum(page.evaluate(COUNT_COLOURS).values()) > 2 * before  # grey ones are pale
    assert errors == []


def test_keys_move_the_map_and_choose(browser, tmp_path):
    page, errors = opened(browser, tmp_path / "a.html", fit_page(make_view(n=200)))
    page.locator("#points").focus()
    whole = page.evaluate(COUNT_COLOURS)
    for key in ("+", "+", "ArrowLeft"):
        page.keyboard.press(key)
    page.wait_for_timeout(400)
    assert page.evaluate(COUNT_COLOURS) != whole
    said = page.locator(".point-map-said").inner_text()
    assert said.startswith("row-")
    page.keyboard.press("Enter")
    assert page.locator("#panel h3").first.inner_text().startswith(said.split(":")[0])
    page.keyboard.press("0")
    page.keyboard.press("Escape")
    page.wait_for_timeout(400)
    assert page.evaluate(COUNT_COLOURS) == whole
    assert errors == []


def test_a_phone_scrolls_down_only_and_hostile_names_do_nothing(browser, tmp_path):
    names = [HOSTILE, "\u202eevil gpj.exe", "x" * 300]
    view = make_view(
        title=HOSTILE,
        classes=names,
        ids=[names[i % 3] + str(i) for i in range(60)],
        facts={names[1]: names[2]},
    )
    text = fit_page(view).replace("alert(1)", "document.title=1")
    page, errors = opened(browser, tmp_path / "a.html", text, width=390)
    page.locator("#uncertain ~ .card button").first.click()
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert page.title().startswith("</script>")
    assert "\u202e" not in page.content()
    assert page.locator("img").count() == 0
    assert errors == []


def test_a_page_without_a_map_opens_rows(browser, tmp_path):
    page, errors = opened(browser, tmp_path / "a.html", fit_page(make_view(position=None)))
    page.locator("#wanted").fill("row-7")
    page.keyboard.press("Enter")
    assert page.locator("#panel").get_attribute("data-chosen") == "7"
    assert errors == []


def test_panels_of_embeddings_point_at_the_same_node(browser, tmp_path):
    labels = torch.arange(20) % 2
    layout = torch.stack([torch.arange(20.0), torch.arange(20.0) % 5], 1)
    panels = [Panel(title=t, layout=layout, predictions=labels, test=torch.arange(5)) for t in "ab"]
    interactive_embedding(tmp_path / "a.html", panels, labels, torch.zeros(20, 1, 4, 4, dtype=torch.uint8))
    page, errors = opened(browser, tmp_path / "b.html", (tmp_path / "a.html").read_text(encoding="utf-8"))
    page.locator("#panel-0").focus()
    page.wait_for_timeout(200)
    assert "true: " in page.locator("#tip").inner_text()
    assert page.locator("circle.pointed").count() == 2
    assert errors == []
