"""Many small pictures in one PNG, which a page cuts them out of."""

from __future__ import annotations

import base64
import io
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray


def image_sheet(images: NDArray[Any], columns: int) -> str:
    """Return pictures in one PNG, row by row, as a ``data:`` address.

    Parameters
    ----------
    images : ndarray of uint8, (n, height, width) or (n, height, width, 3)
        The pictures, grey or in colour.
    columns : int
        How many stand side by side.
    """
    from PIL import Image

    n, height, width, *channels = images.shape
    rows = math.ceil(n / columns)
    sheet = np.zeros((rows * columns, height, width, *channels), dtype=np.uint8)
    sheet[:n] = images
    tiled = sheet.reshape(rows, columns, height, width, *channels).swapaxes(1, 2)
    file = io.BytesIO()
    Image.fromarray(tiled.reshape(rows * height, columns * width, *channels)).save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
