"""One HTML file that needs nothing else: styles, plotly.js and data inside, foreign text never markup.

Two guards stand between foreign text and a browser. All text is escaped where it enters; and the page names
the digests of its scripts, so that a browser runs no other, even where an escape were forgotten.
"""

from __future__ import annotations

import base64
import hashlib
import json
from html import escape

# Told apart on white and on near-black.
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


def chip(group: str, text: str, mark: str, *, dashed: bool = False, pressed: bool = True) -> str:
    """Return a button of a legend that shows and hides the traces of a group."""
    kind, state = "dashed" if dashed else "solid", "true" if pressed else "false"
    return (
        f'<button type="button" class="chip" data-group="{escape(group)}" aria-pressed="{state}">'
        f'<i class="{kind}" style="--c:{escape(mark)}"></i>{escape(text)}</button>'
    )


def document(*, title: str, body: str, data: object, code: str, webgl: bool = False) -> str:
    """Compose the file.

    Parameters
    ----------
    title : str
        Plain text.
    body : str
        HTML, its text escaped.
    data : object
        What JSON can hold; the scripts find it as ``data``.
    code : str
        Runs after plotly.js and the functions that every page shares.
    webgl : bool
        Whether plotly may compile the functions that its WebGL traces need.

    Returns
    -------
    str
        The same for the same arguments.
    """
    from plotly.offline import get_plotlyjs

    scripts = [get_plotlyjs(), f"(() => {{{_SHARED}{code}}})();"]
    sources = " ".join(f"'sha256-{_digest(script)}'" for script in scripts)
    policy = (
        f"default-src 'none'; script-src {sources}{_EVAL if webgl else ''}; style-src 'unsafe-inline'; "
        "img-src data: blob:"
    )
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{escape(title)}</title>",
            f"<style>{_STYLE}</style>",
            "</head>",
            "<body>",
            body,
            f'<script type="application/json" id="data">{data_block(data)}</script>',
            *(f"<script>{script}</script>" for script in scripts),
            "</body>",
            "</html>",
            "",
        ]
    )


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


_EVAL = " 'unsafe-eval'"

_STYLE = """
:root { --ground: #fbfbfa; --card: #ffffff; --text: #1d2129; --faint: #626a76; --line: #e3e5e8;
  --grid: #eceef0; --accent: #2f6fd0; --good: #1b7f4d; --far: #a8570b; --head: #f4f5f6; }
@media (prefers-color-scheme: dark) { :root { --ground: #14161a; --card: #1c1f25; --text: #e7e9ec;
  --faint: #9aa3af; --line: #30353d; --grid: #2a2f37; --accent: #7fb0ff; --good: #5fcf98; --far: #f0a860;
  --head: #23272e; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; scroll-behavior: smooth; }
body { margin: 0; background: var(--ground); color: var(--text);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main, header, footer { max-width: 1240px; margin: 0 auto; padding: 0 clamp(14px, 3vw, 32px); }
header { padding-top: clamp(24px, 5vw, 56px); }
h1 { font-size: clamp(1.5rem, 1.1rem + 1.8vw, 2.3rem); line-height: 1.2; letter-spacing: -0.015em;
  margin: 0 0 0.5rem; overflow-wrap: anywhere; text-wrap: balance; }
h2 { font-size: 1.35rem; letter-spacing: -0.01em; margin: 2.8rem 0 0.8rem; scroll-margin-top: 1rem; }
h3 { font-size: 1rem; margin: 0 0 0.6rem; overflow-wrap: anywhere; }
p { margin: 0.4rem 0 0.9rem; max-width: 78ch; overflow-wrap: anywhere; }
.note { color: var(--faint); font-size: 0.86rem; line-height: 1.5; margin: 0.7rem 0 0; }
nav { display: flex; flex-wrap: wrap; gap: 0.3rem 1.1rem; margin: 0.9rem 0 0; font-size: 0.92rem; }
a { color: var(--accent); text-decoration: none; } a:hover { text-decoration: underline; }
.facts { display: grid; gap: 12px; margin: 1.4rem 0 0;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 205px), 1fr)); }
.fact, .card { background: var(--card); border: 1px solid var(--line); border-radius: 12px; min-width: 0; }
.fact { padding: 12px 16px; } .fact b { display: block; font-size: 1.4rem; letter-spacing: -0.01em; }
.fact span { color: var(--faint); font-size: 0.86rem; display: block; line-height: 1.4;
  overflow-wrap: anywhere; }
.card { padding: clamp(12px, 2vw, 20px); margin: 0 0 16px; }
.cards { display: grid; gap: 16px; grid-template-columns: repeat(auto-fit, minmax(min(100%, 350px), 1fr)); }
.cards .card { margin: 0; }
.box { overflow-x: auto; -webkit-overflow-scrolling: touch; }
.box:focus-visible { outline: 2px solid var(--accent); }
table { border-collapse: separate; border-spacing: 0; width: 100%; font-size: 0.92rem;
  font-variant-numeric: tabular-nums; }
th, td { padding: 6px 12px; text-align: right; white-space: nowrap; border-top: 1px solid var(--line); }
thead th { border-top: 0; color: var(--faint); font-weight: 600; background: var(--head); }
thead th:first-child { border-radius: 8px 0 0 8px; } thead th:last-child { border-radius: 0 8px 8px 0; }
th:first-child { text-align: left; position: sticky; left: 0; background: var(--card); font-weight: 600;
  white-space: normal; max-width: 19rem; overflow-wrap: break-word; }
thead th:first-child { background: var(--head); }
tr.lesser th, tr.lesser td { border-top: 0; padding-top: 0; color: var(--faint); font-size: 0.84rem; }
tr.lesser th:first-child { font-weight: 400; padding-left: 24px; white-space: nowrap; }
tr.group th { padding-top: 16px; max-width: none !important; position: static !important; }
tr.group span { position: sticky; left: 12px; display: inline-block; max-width: min(78vw, 60rem); }
td.good { color: var(--good) !important; } td.far { color: var(--far) !important; }
th.text { text-align: left; } td.text { text-align: left; white-space: normal; min-width: 9rem; }
.chips { display: flex; flex-wrap: wrap; gap: 6px; margin: 0 0 10px; align-items: center; }
.chips > span { color: var(--faint); font-size: 0.86rem; margin-right: 4px; min-width: 4.6rem; }
.chip { font: inherit; font-size: 0.84rem; line-height: 1.3; color: inherit; background: var(--card);
  border: 1px solid var(--line); border-radius: 999px; padding: 4px 11px; cursor: pointer;
  display: inline-flex; align-items: center; gap: 7px; text-align: left; overflow-wrap: anywhere; }
.chip:hover { border-color: var(--faint); }
.keys b { font-weight: 400; font-size: 0.84rem; display: inline-flex; align-items: center; gap: 7px;
  margin-right: 10px; overflow-wrap: anywhere; }
.chip i, .keys i { width: 18px; height: 0; border-top: 3px solid var(--c); flex: none; }
.chip i.dashed, .keys i.dashed { border-top-style: dashed; }
.chip[aria-pressed="false"] { opacity: 0.45; text-decoration: line-through; }
.dots .chip i { width: 10px; height: 10px; border: 0; border-radius: 50%; background: var(--c); }
.picks { display: flex; flex-wrap: wrap; gap: 10px 16px; margin: 0 0 12px; }
.picks label { display: grid; gap: 2px; color: var(--faint); font-size: 0.82rem; min-width: 0; }
select { font: inherit; font-size: 0.92rem; color: var(--text); background: var(--card);
  border: 1px solid var(--line); border-radius: 8px; padding: 6px 10px; max-width: 78vw; }
.chart { min-width: 0; width: 100%; height: 380px; } .chart.tall { height: 460px; }
.map { position: relative; overflow: hidden; } .map .chart { height: auto; aspect-ratio: 1; }
.map > i { position: absolute; display: none; width: 18px; height: 18px; margin: -9px 0 0 -9px;
  border: 3px solid var(--text); border-radius: 50%; pointer-events: none; }
.square { max-width: 640px; height: min(600px, 96vw); margin: 0 auto; }
footer { color: var(--faint); font-size: 0.86rem; border-top: 1px solid var(--line); margin-top: 3rem;
  padding-top: 1rem; padding-bottom: 3rem; }
footer dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 4px 18px; margin: 0; }
footer dt { font-weight: 600; } footer dd { margin: 0; overflow-wrap: anywhere; }
#tip { position: fixed; z-index: 10; pointer-events: none; display: none; gap: 12px; align-items: center;
  background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 8px 12px 8px 8px;
  box-shadow: 0 6px 24px rgb(0 0 0 / 0.25); font-size: 0.86rem; line-height: 1.45; max-width: 300px; }
#tip canvas { width: 84px; height: 84px; image-rendering: pixelated; border-radius: 6px; flex: none; }
#tip span { white-space: pre-line; overflow-wrap: anywhere; }
@media (max-width: 520px) { table { font-size: 0.86rem; } th, td { padding: 6px 8px; }
  th:first-child { max-width: 9.4rem; } tr.lesser th:first-child { padding-left: 14px; }
  footer dl { grid-template-columns: 1fr; } footer dt { margin-top: 6px; } }
@media print { .picks, nav { display: none; } .box { overflow: visible; } }
"""

# Charts take their colours from the style sheet, and again when the system goes from light to dark.
_SHARED = """
const data = JSON.parse(document.getElementById('data').textContent);
const find = id => document.getElementById(id);
const tone = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const coarse = matchMedia('(pointer: coarse)').matches;
const drawn = new Map();
function themed(layout) {
  const copy = structuredClone(layout);
  Object.assign(copy, {paper_bgcolor: 'rgba(0,0,0,0)', plot_bgcolor: 'rgba(0,0,0,0)', autosize: true,
    font: {color: tone('--text'), size: 12.5, family: 'system-ui, sans-serif'},
    hoverlabel: {bgcolor: tone('--card'), bordercolor: tone('--line'), font: {color: tone('--text')},
      namelength: -1},
    modebar: {bgcolor: 'rgba(0,0,0,0)', color: tone('--line'), activecolor: tone('--text')}});
  // On a touch screen a drag must scroll the page.
  if (coarse) copy.dragmode = false;
  for (const key of Object.keys(copy).filter(key => /^[xy]axis/.test(key)))
    copy[key] = {gridcolor: tone('--grid'), linecolor: tone('--line'), zerolinecolor: tone('--faint'),
      ...copy[key]};
  return copy;
}
function draw(id, traces, layout) {
  drawn.set(id, [traces, layout]);
  const own = traces.map(trace => ({...trace, textfont: {color: tone('--text')},
    ...(trace.meta === 'ring' && {marker: {...trace.marker, color: tone('--text')}})}));
  return Plotly.react(id, own, themed(layout),
    {responsive: true, displaylogo: false, displayModeBar: coarse ? false : 'hover',
      // A tap sends two clicks, and two clicks would reset the view.
      doubleClick: coarse ? false : 'reset+autosize',
      modeBarButtonsToRemove: ['select2d', 'lasso2d', 'autoScale2d']});
}
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
  for (const [id, [traces, layout]] of drawn) draw(id, traces, layout);
});
for (const button of document.querySelectorAll('.chip')) button.addEventListener('click', () => {
  const shown = button.getAttribute('aria-pressed') !== 'true';
  button.setAttribute('aria-pressed', shown);
  for (const [id, [traces, layout]] of drawn) {
    const mine = traces.filter(trace => (trace.legendgroup || '').split(' ').includes(button.dataset.group));
    if (!mine.length) continue;
    for (const trace of mine) trace.visible = trace.legendgroup.split(' ').every(group =>
      [...document.querySelectorAll('.chip')].every(other => other.dataset.group !== group ||
        other.getAttribute('aria-pressed') === 'true'));
    draw(id, traces, layout);
  }
});
"""
