"""Measure how `dahgnn label` starts and draws a table of a million rows, of which the neighbours are known.

Rows are 16 numbers around 10,000 centres that lie apart, so that the neighbours of a row are found among the
hundred rows of its centre. Prints the seconds until the address is there and until the map is painted, the
frames a second while it is moved, the seconds until the first model, and the memory.

Playwright, Chromium and psutil are needed.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from dahgnn.environment import describe_environment

WIDTH, SIZE, K = 16, 100, 10
PAINTED = """
() => {
  const canvas = document.querySelector('#points canvas'), copy = document.createElement('canvas');
  if (!canvas?.width) return 0;
  Object.assign(copy, {width: canvas.width, height: canvas.height});
  const pen = copy.getContext('2d');
  pen.drawImage(canvas, 0, 0);
  const {data} = pen.getImageData(0, 0, copy.width, copy.height);
  let painted = 0;
  for (let i = 3; i < data.length; i += 4) painted += data[i] > 100;
  return painted;
}"""
FRAMES = """
() => { window.painted = new Promise(done => {
  let frames = 0;
  const start = performance.now(), count = () => {
    frames++;
    if (performance.now() - start < 3000) requestAnimationFrame(count);
    else done(frames / 3);
  };
  requestAnimationFrame(count);
}); }"""


def main() -> None:
    """Run, and print a line of JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000, metavar="N", help="how many (%(default)s)")
    parser.add_argument("--model", type=float, default=600, metavar="S", help="wait so long for a model")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        kinds = write_rows(Path(folder), options.rows)
        line = measure(Path(folder), kinds, options.model)
    print(json.dumps({"rows": options.rows} | line | describe_environment("cpu")))


def write_rows(folder: Path, n: int) -> np.ndarray:
    """Write rows and their neighbours, and return which of five kinds each row is."""
    generator = np.random.default_rng(0)
    centres = generator.normal(size=(n // SIZE, WIDTH)).astype(np.float32) * 10
    centres[:, :5] += 40 * np.eye(5, dtype=np.float32)[np.arange(len(centres)) % 5]
    rows = (centres[:, None] + generator.normal(size=(len(centres), SIZE, WIDTH))).astype(np.float32)
    near = np.empty((len(centres), SIZE, K), dtype=np.int64)
    for number, group in enumerate(rows):
        apart = np.square(group[:, None] - group).sum(2) + 1e9 * np.eye(SIZE)
        near[number] = np.argsort(apart, 1)[:, :K] + SIZE * number
    np.save(folder / "rows.npy", rows.reshape(-1, WIDTH))
    np.save(folder / "near.npy", near.reshape(-1, K))
    return np.repeat(np.arange(len(centres)) % 5, SIZE)


def measure(folder: Path, kinds: np.ndarray, patience: float) -> dict[str, float]:
    """Start the program, open it, move the map, label some rows, and wait for a model."""
    import psutil
    from playwright.sync_api import sync_playwright

    command = ["label", "rows.npy", "--neighbors", "near.npy", "--no-browser"]
    begin = time.perf_counter()
    process = subprocess.Popen(  # noqa: S603, our own program
        [sys.executable, "-m", "dahgnn", *command], cwd=folder, stdout=subprocess.PIPE, text=True
    )
    try:
        address = re.search(r"http://\S+", process.stdout.readline()).group()
        found = {"s_to_address": time.perf_counter() - begin}
        memory = psutil.Process(process.pid).memory_info
        found["gib_at_start"] = memory().rss / 2**30
        with sync_playwright() as playwright:
            chromium = shutil.which("chromium") or shutil.which("google-chrome")
            switches = ["--no-sandbox", "--enable-unsafe-swiftshader"]
            browser = playwright.chromium.launch(executable_path=chromium, args=switches)
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            page.set_default_timeout(1000 * patience)
            found |= look(page, address, kinds)
            browser.close()
        found["gib_at_end"] = memory().rss / 2**30
        found["gib_most"] = (
            int(Path(f"/proc/{process.pid}/status").read_text().split("VmHWM:")[1].split()[0]) / 2**20
        )
    finally:
        process.terminate()
        process.communicate(timeout=120)
    return {name: round(value, 2) for name, value in found.items()}


def look(page, address: str, kinds: np.ndarray) -> dict[str, float]:
    """Open the page, move the map, label by keys, and wait for a model."""
    begin = time.perf_counter()
    page.goto(address)
    page.wait_for_function(f"() => ({PAINTED})() > 1000")
    found = {"s_to_map": time.perf_counter() - begin}
    points = page.locator("#points").bounding_box()
    page.mouse.move(points["x"] + points["width"] / 2, points["y"] + points["height"] / 2)
    page.evaluate(FRAMES)
    for _ in range(20):
        page.mouse.wheel(0, -120)
        page.wait_for_timeout(100)
    found["frames_a_second"] = page.evaluate("() => window.painted")
    named: set[str] = set()
    for _ in range(12):
        page.wait_for_selector("#card[data-row]")  # the next row may be on its way
        row = page.locator("#card").get_attribute("data-row")
        word = f"kind {kinds[int(row)] + 1}"
        if word in named:
            page.locator("#card-choices button", has_text=word).first.click()
        else:
            page.keyboard.press("Shift+N")
            page.keyboard.type(word)
            page.keyboard.press("Enter")
            named.add(word)
        page.wait_for_function(f"() => document.getElementById('card').dataset.row !== '{row}'")
    begin = time.perf_counter()
    page.wait_for_function("() => document.getElementById('model-age').textContent.startsWith('model')")
    return found | {"s_to_model": time.perf_counter() - begin}


if __name__ == "__main__":
    main()
