"""One HTML file that needs nothing else: styles, plotly.js and data inside, text of the data never markup.

Two guards stand between text of the data and a browser. Pages come from the templates in ``templates/``,
which escape every text; and the page names the digests of its scripts, so that a browser runs no other, even
where an escape were forgotten. Styles and scripts are files in ``assets/``.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment, Template

# These colours can be told apart on white and on near-black.
COLOURS = (
    "#2f7ed8",
    "#e07b39",
    "#2ca86b",
    "#c9499c",
    "#8a63d2",
    "#b3912f",
    "#17a2b8",
    "#d64545",
    "#7a8794",
    "#5f8f2f",
    "#a5623d",
    "#5a67c9",
    "#14a08c",
    "#e5628e",
    "#0b5fa5",
    "#94a800",
)


def colour(place: int) -> str:
    """Return the colour of a method or class by its place."""
    return COLOURS[place % len(COLOURS)]


def data_block(value: object) -> str:
    r"""Write a value as JSON that no HTML parser takes for the end of its script element.

    Examples
    --------
    >>> data_block("</script>")
    '"\\u003c/script\\u003e"'
    """
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def chart_text(text: str) -> str:
    """Escape text for plotly, which reads some HTML elements in titles, legends and hover boxes."""
    return escape(text, quote=False)


@cache
def environment() -> Environment:
    """Return the one environment of all templates: it escapes every text, and refuses unknown names."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("dahgnn.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["percent"] = _percent
    made.filters["thousands"] = lambda count: f"{count:,}"
    made.globals["colour"] = colour
    return made


def _percent(share: float) -> str:
    return f"{100 * share:.1f}\N{NO-BREAK SPACE}%"


def render_page(
    template: str | Template,
    context: Mapping[str, object],
    *,
    title: str,
    data: object,
    assets: Sequence[str] = (),
    webgl: bool = False,
) -> str:
    """Compose the file of a page.

    Parameters
    ----------
    template : str or Template
        A template that extends ``page.html``, or its name.
    context : mapping
        What the template shows; texts in it are plain text.
    title : str
        The title of the page, in plain text.
    data : object
        What JSON can hold; the scripts find it as ``data``.
    assets : sequence of str
        Names of style sheets and scripts in ``assets/`` that the page has besides those of every page. The
        scripts run after plotly.js and ``page.js``.
    webgl : bool
        Whether plotly may compile the functions that its WebGL traces need.

    Returns
    -------
    str
        The same for the same arguments.
    """
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs

    styles = [_asset(name) for name in ("page.css", *assets) if name.endswith(".css")]
    code = "".join(_asset(name) for name in ("page.js", *assets) if name.endswith(".js"))
    scripts = [get_plotlyjs(), f"(() => {{{code}}})();"]
    frame = {
        "title": title,
        "policy": Markup(_policy(scripts, webgl)),  # noqa: S704, digests and fixed words alone
        "styles": [Markup(style) for style in styles],  # noqa: S704, files of the package
        "scripts": [Markup(script) for script in scripts],  # noqa: S704, files of the package and of plotly
        "data_block": Markup(data_block(data)),  # noqa: S704, without any sign that begins markup
    }
    return environment().get_template(template).render({**context, **frame})


def _asset(name: str) -> str:
    return resources.files("dahgnn.report").joinpath("assets", name).read_text(encoding="utf-8")


def _policy(scripts: Sequence[str], webgl: bool) -> str:
    """Return the rule by which a browser runs these scripts and loads nothing."""
    sources = " ".join(f"'sha256-{_digest(script)}'" for script in scripts)
    compiled = " 'unsafe-eval'" if webgl else ""
    return (
        f"default-src 'none'; script-src {sources}{compiled}; style-src 'unsafe-inline'; img-src data: blob:"
    )


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
