"""Chromium as the tests drive it, and what they read back from a page."""

import shutil
import time

import numpy as np
import pytest

SWITCHES = {"webgl2": "--enable-unsafe-swiftshader", "2d": "--disable-3d-apis"}
# How long anything may take on a busy machine, in seconds.
PATIENCE = 30.0
# How many pixels of the map have a colour, by that colour cut to 512 of them.
COUNT_COLOURS = """
() => {
  const canvas = document.querySelector('#points canvas'), copy = document.createElement('canvas');
  Object.assign(copy, {width: canvas.width, height: canvas.height});
  const pen = copy.getContext('2d');
  pen.drawImage(canvas, 0, 0);
  const {data} = pen.getImageData(0, 0, copy.width, copy.height), found = {};
  for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 200) {
    const key = [data[i] >> 5, data[i + 1] >> 5, data[i + 2] >> 5].join('-');
    found[key] = (found[key] ?? 0) + 1;
  }
  return found;
}"""


def find_chromium():
    """Return the path of Chromium, or None."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((path for path in map(shutil.which, names) if path), None)


class Launcher:
    """Browsers of each kind, started when they are first asked for."""

    def __init__(self, playwright):
        self._playwright, self._started = playwright, {}

    def __call__(self, kind="webgl2"):
        """Return the browser that draws by this kind of canvas."""
        if kind not in self._started:
            switches = [SWITCHES[kind], "--no-sandbox"]
            started = self._playwright.chromium.launch(executable_path=find_chromium(), args=switches)
            started.kind = kind
            self._started[kind] = started
        return self._started[kind]

    def close(self):
        """End all of them."""
        for browser in self._started.values():
            browser.close()


def launching():
    """Yield a launcher; skip where Playwright or Chromium is missing."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs Playwright")
    if find_chromium() is None:
        pytest.skip("needs Chromium")
    with sync_api.sync_playwright() as playwright:
        launcher = Launcher(playwright)
        yield launcher
        launcher.close()


def wait_until(page, condition, what="what was waited for"):
    """Wait until a condition holds, while the page goes on, and return what it returned."""
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < end, f"{what} did not come"
        page.wait_for_timeout(20)
    return found


def places_in_window(page, position):
    """Return where points stand in the window while a map shows all, told from their places and its size."""
    box = page.locator("#points").bounding_box()
    low, high = position.min(0), position.max(0)
    middle, half = (low + high) / 2, (high - low).max() / 2
    width, height = box["width"] - 2, box["height"] - 2  # the border is not the map's
    scale = 0.92 * min(width / ((high - low)[0] / half), height / ((high - low)[1] / half))
    at = (position - middle) / half * scale * [1, -1]
    return at + np.array([box["x"] + 1 + width / 2, box["y"] + 1 + height / 2])


def draw_around(page, low, high):
    """Draw a box around points of a map, with Shift and the mouse."""
    (left, top), (right, bottom) = low, high
    page.keyboard.down("Shift")
    page.mouse.move(left, top)
    page.mouse.down()
    for corner in ((right, top), (right, bottom), (left, bottom), (left, top)):
        page.mouse.move(*corner, steps=10)
    page.mouse.up()
    page.keyboard.up("Shift")
