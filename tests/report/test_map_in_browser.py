"""The map in a browser, by WebGL and without: a few points change, and all move. Skipped without Chromium."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import dahgnn.report

sync_api = pytest.importorskip("playwright.sync_api", reason="needs Playwright")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
SWITCHES = {"webgl2": "--enable-unsafe-swiftshader", "2d": "--disable-3d-apis"}
ASSETS = Path(dahgnn.report.__file__).parent / "assets"
# No request leaves the browser: the test answers each.
SITE = "http://map.test/"
PAGE = """<!DOCTYPE html><style>#points { width: 600px; height: 400px; color: rgb(0, 0, 0) }
#points canvas { display: block; width: 100%; height: 100% } #points svg { position: absolute }</style>
<div id="points"></div>"""
# Points on a grid, all grey but for what a test changes. What the page draws is read back from its canvas.
START = """
async ([n, side]) => {
  const {createMap} = await import('/map.js'), at = (i, k) => Math.floor(i / side ** k) % side;
  const x = Float32Array.from({length: n}, (_, i) => at(i, 0)), y = Float32Array.from({length: n}, (_, i) => at(i, 1));
  window.looks = {colours: new Uint8Array(4 * n).fill(160), marks: new Uint8Array(n)};
  for (let i = 0; i < n; i++) looks.colours[4 * i + 3] = 255;
  window.map = createMap(document.getElementById('points'), {x, y, name: 'A map', describe: String,
    onChoose: point => { window.chosen = point; }});
  map.setLooks(looks);
  window.pixel = point => {
    const [px, py] = map.placeOf(point), copy = document.createElement('canvas');
    Object.assign(copy, {width: map.canvas.width, height: map.canvas.height});
    const pen = copy.getContext('2d', {willReadFrequently: true});
    pen.drawImage(map.canvas, 0, 0);
    return [...pen.getImageData(Math.round(px), Math.round(py), 1, 1).data];
  };
  window.paintings = 0;
  const {paint} = map.painter;
  map.painter.paint = (...all) => { paintings++; paint(...all); };
}"""


@pytest.fixture(scope="module", params=SWITCHES)
def browser(request):
    with sync_api.sync_playwright() as playwright:
        made = playwright.chromium.launch(
            executable_path=CHROMIUM, args=[SWITCHES[request.param], "--no-sandbox"]
        )
        made.kind = request.param
        yield made
        made.close()


@pytest.fixture
def page(browser):
    made = browser.new_page(viewport={"width": 800, "height": 600}, reduced_motion="reduce")

    def answer(route):
        name = route.request.url.removeprefix(SITE)
        if name:
            route.fulfill(path=ASSETS / name, content_type="text/javascript")
        else:
            route.fulfill(body=PAGE, content_type="text/html")

    made.route(SITE + "**", answer)
    made.goto(SITE)
    yield made
    made.close()


def begin(page, n=100, side=10):
    page.evaluate(START, [n, side])
    page.wait_for_timeout(400)
    page.evaluate("() => { paintings = 0; }")


def test_a_few_points_change_without_all_being_painted_again(browser, page):
    begin(page)
    assert page.evaluate("map.painter.kind") == browser.kind
    assert page.evaluate("pixel(37)") == [160, 160, 160, 255]
    page.evaluate(
        "() => { looks.colours.set([250, 10, 20, 255], 4 * 37); looks.marks[37] = 1; map.changeLooks([37]); }"
    )
    page.wait_for_timeout(200)
    assert np.allclose(page.evaluate("pixel(37)"), [250, 10, 20, 255], atol=3)
    assert page.evaluate("pixel(38)") == [160, 160, 160, 255]
    assert page.evaluate("paintings") == 0
    # Painted whole, it looks the same.
    page.evaluate("() => map.repaint()")
    page.wait_for_timeout(200)
    assert page.evaluate("paintings") == 1
    assert np.allclose(page.evaluate("pixel(37)"), [250, 10, 20, 255], atol=3)


def test_a_mark_that_is_taken_away_leaves_nothing(page):
    begin(page)
    clean = page.evaluate("map.canvas.toDataURL()")
    page.evaluate("() => { looks.marks[55] = 1; map.changeLooks([55]); }")
    page.wait_for_timeout(200)
    assert page.evaluate("map.canvas.toDataURL()") != clean
    page.evaluate("() => { looks.marks[55] = 0; map.changeLooks([55]); }")
    page.wait_for_timeout(200)
    assert page.evaluate("map.canvas.toDataURL()") == clean


def test_what_does_not_stand_out_stays_grey_when_it_changes(page):
    begin(page)
    page.evaluate("() => { looks.raised = new Uint8Array(100); looks.raised[3] = 1; map.setLooks(looks); }")
    page.evaluate(
        "() => { looks.colours.set([250, 10, 20, 255], 4 * 37); looks.marks[37] = 1; map.changeLooks([37]); }"
    )
    page.wait_for_timeout(200)
    red, green, blue, opacity = page.evaluate("pixel(37)")
    assert max(red, green, blue) - min(red, green, blue) < 30
    assert 0 < opacity < 255


def test_marked_points_of_a_crowd_are_larger(page):
    begin(page, n=40000, side=200)
    # So far from its middle a point of the crowd does not reach, and one with a mark does.
    away = """point => { const at = map.placeOf(point); map.placeOf = () => [at[0] + 3, at[1]];
      const found = pixel(point); delete map.placeOf; return found; }"""
    page.evaluate("() => { looks.colours.set([250, 10, 20, 255], 4 * 20100); map.changeLooks([20100]); }")
    page.wait_for_timeout(300)
    assert page.evaluate(away, 20100)[0] != 250
    page.evaluate("() => { looks.marks[20100] = 1; map.changeLooks([20100]); }")
    page.wait_for_timeout(300)
    assert page.evaluate(away, 20100) != [160, 160, 160, 255]


def test_points_move_to_new_places_and_the_zoom_stays(page):
    begin(page)
    page.evaluate("() => { looks.colours.set([250, 10, 20, 255], 0); map.changeLooks([0]); map.zoom(1.5); }")
    page.wait_for_timeout(300)
    before = page.evaluate("({scale: map.view.scale, place: map.placeOf(0)})")
    # The map turned by half: the first point is where the last was.
    page.evaluate("() => map.setPlaces(map.x.map(at => -at), map.y.map(at => -at))")
    page.wait_for_timeout(300)
    after = page.evaluate(
        "({scale: map.view.scale, place: map.placeOf(0), now: pixel(99), last: map.placeOf(99)})"
    )
    assert after["scale"] == pytest.approx(before["scale"])
    assert after["last"] == pytest.approx(before["place"])
    page.evaluate("() => map.showAll()")
    page.wait_for_timeout(300)
    assert np.allclose(page.evaluate("pixel(0)"), [250, 10, 20, 255], atol=3)
    box = page.locator("#points").bounding_box()
    place = page.evaluate("map.placeOf(0)")
    page.mouse.click(box["x"] + place[0], box["y"] + place[1])
    assert page.evaluate("chosen") == 0


def test_points_glide_to_their_new_places(browser, page):
    page.emulate_media(reduced_motion="no-preference")
    begin(page)
    page.evaluate("() => map.setPlaces(map.x.map(at => -at), map.y)")
    page.wait_for_timeout(1500)
    assert page.evaluate("map.move") is None
    assert page.evaluate("pixel(0)") == [160, 160, 160, 255]
