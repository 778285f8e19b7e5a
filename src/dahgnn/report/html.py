"""One HTML file that needs nothing else: styles, scripts and data inside, text of the data never markup.

Three guards stand between text of the data and a browser. Pages come from the templates in ``templates/``,
which escape every text. The page names the digests of its scripts, so that a browser runs no other, even
where an escape were forgotten. And every text passes `clean_text`, so that no character acts unseen. Styles
and scripts are files in ``assets/``.
"""

from __future__ import annotations

import base64
import hashlib
import json
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment, Template

# No two are nearer than 0.09 in OKLab, none is near grey, and all can be told from white and near-black.
COLOURS = (
    "#2f7ed8",
    "#e07b39",
    "#2ca86b",
    "#c9499c",
    "#8a63d2",
    "#b3912f",
    "#17a2b8",
    "#d64545",
    "#706000",
    "#d800f8",
    "#c090b8",
    "#7820f8",
    "#008000",
    "#a018b8",
    "#0050f8",
    "#904870",
    "#486090",
    "#388070",
    "#70a0f8",
    "#c078f8",
    "#f86888",
    "#f858d0",
    "#a87058",
    "#a84000",
)

# Letters that join others in some scripts and in emoji; elsewhere they only hide.
_JOINERS = "\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}"
# Letters and marks that a reader does not see; their categories do not tell.
_BLANKS = "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0"
# From here on are the scripts that need joiners; before are Latin, Greek and Cyrillic, which do not.
_FIRST_JOINED = "\u0590"


def clean_text(text: object) -> str:
    r"""Return text in which every character shows: one that acts or hides becomes its name.

    Control characters become their pictures. Those that turn the direction of what follows, take no room or
    cannot be written in UTF-8 become their numbers. Pages put all text through this.

    Examples
    --------
    >>> clean_text("one\ttwo"), clean_text("abc\u202etxt.exe")
    ('one␉two', 'abc[U+202E]txt.exe')
    """
    found = str(text)
    # Nearly all text is such, and millions of cells take long letter by letter.
    if found.isprintable() and not any(blank in found for blank in _BLANKS):
        return found
    around = f" {found} "
    return "".join(_shown(*around[place : place + 3]) for place in range(len(found)))


def _shown(before: str, letter: str, after: str) -> str:
    """Return a letter between two others, or what stands for it."""
    if letter in _JOINERS and before not in _JOINERS and min(before, after) >= _FIRST_JOINED:
        return letter
    if letter < " ":
        return chr(0x2400 + ord(letter))
    hides = letter in _BLANKS or unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    return f"[U+{ord(letter):04X}]" if hides else letter


def clean_values(value: Any) -> Any:
    """Return what JSON can hold with every text in it clean."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, Mapping):
        return {clean_text(name): clean_values(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [clean_values(part) for part in value]
    return value


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
    return escape(clean_text(text), quote=False)


@cache
def environment(package: str = "dahgnn.report") -> Environment:
    """Return the environment of a package's templates: it escapes every text, and refuses unknown names."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_cleaned,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["percent"] = _percent
    made.filters["thousands"] = lambda count: f"{count:,}"
    made.globals["colour"] = colour
    return made


def _cleaned(value: object) -> object:
    """Return what a template is about to write, text of the data clean; markup is made of such."""
    return clean_text(value) if type(value) is str else value


def _percent(share: float) -> str:
    return f"{100 * share:.1f}\N{NO-BREAK SPACE}%"


def render_page(
    template: str | Template,
    context: Mapping[str, object],
    *,
    title: str,
    data: object,
    assets: Sequence[str] = (),
    plotly: bool = False,
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
        Names of style sheets and scripts in ``assets/`` that the page has besides those of every page. A
        script comes after those that it imports.
    plotly : bool
        Whether the page has plotly.js, too.

    Returns
    -------
    str
        The same for the same arguments.
    """
    from markupsafe import Markup

    styles = [_asset(name) for name in ("page.css", *assets) if name.endswith(".css")]
    module = _joined([name for name in ("page.js", *assets) if name.endswith(".js")])
    library = _plotly() if plotly else ""
    scripts = [script for script in (library, module) if script]
    frame = {
        "title": title,
        "policy": Markup(_policy(scripts)),  # noqa: S704, digests and fixed words alone
        "styles": [Markup(style) for style in styles],  # noqa: S704, files of the package
        "library": Markup(library),  # noqa: S704, a file of plotly
        "module": Markup(module),  # noqa: S704, files of the package
        "data_block": Markup(data_block(clean_values(data))),  # noqa: S704, without any sign that begins markup
    }
    return environment().get_template(template).render({**context, **frame})


def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


def _joined(names: Sequence[str]) -> str:
    """Return modules as one: what they import of each other is there already."""
    lines = (line for name in names for line in _asset(name).splitlines())
    return "\n".join(line for line in lines if not line.startswith("import "))


def _asset(name: str) -> str:
    return resources.files("dahgnn.report").joinpath("assets", name).read_text(encoding="utf-8")


def _policy(scripts: Sequence[str]) -> str:
    """Return the rule by which a browser runs these scripts and loads nothing."""
    sources = " ".join(f"'sha256-{_digest(script)}'" for script in scripts)
    return f"default-src 'none'; script-src {sources}; style-src 'unsafe-inline'; img-src data: blob:"


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
