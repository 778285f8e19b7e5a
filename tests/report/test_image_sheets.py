import base64
import io

import numpy as np
import pytest
from PIL import Image

from dahgnn.report.image_sheets import image_sheet


@pytest.mark.parametrize("channels", [(), (3,)])
@pytest.mark.parametrize(("n", "columns"), [(1, 1), (7, 3), (6, 3), (2, 5)])
def test_each_picture_stands_at_its_place(n, columns, channels):
    images = np.random.default_rng(0).integers(0, 256, (n, 4, 5, *channels), dtype=np.uint8)
    raw = base64.b64decode(image_sheet(images, columns).removeprefix("data:image/png;base64,"))
    sheet = np.asarray(Image.open(io.BytesIO(raw)))
    assert sheet.shape == (4 * -(-n // columns), 5 * columns, *channels)
    for place, image in enumerate(images):
        top, left = place // columns * 4, place % columns * 5
        assert np.array_equal(sheet[top : top + 4, left : left + 5], image)
