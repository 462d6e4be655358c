"""A heat map of topics by systems as a small picture, a pixel a cell."""

from io import BytesIO

import numpy as np
from PIL import Image

from tasks.reports.heatmap import DARK, LIGHT
from tasks.stats.intervals import Values

NOTHING = (200, 200, 200)
"""Colour of a cell without a value."""


def draw_heat_picture(values: Values) -> bytes:
    """Returns a PNG: a column a topic, a row a system, light for 0 and dark for 1.

    Args:
        values: `(n_topics, n_systems)`, NaN where there is none.
    """
    share = np.clip(np.nan_to_num(values.T), 0, 1)[:, :, None]
    light, dark = np.array(LIGHT), np.array(DARK)
    pixels = np.where(np.isnan(values.T)[:, :, None], np.array(NOTHING), light + (dark - light) * share)
    out = BytesIO()
    Image.fromarray(pixels.round().astype(np.uint8), "RGB").save(out, "PNG", optimize=True)
    return out.getvalue()
