"""Names that would like to run, and pages of other sites, against the labelling page in a real browser."""

import http.server
import json
import threading
from contextlib import contextmanager

import numpy as np
import pytest
from browsers import draw_around, wait_until
from label_desk import find_row, name_class, press, recent_of, row_of, wait_saved
from label_server import options, served

from dahgnn.explorer.project import LabelOptions
from dahgnn.report.fit_folder import FitOptions

# --- Names ---

IMAGE = "<img src=x onerror=document.title='owned'>"
SCRIPT = "</script></title><script>document.title='owned'</script>"
BENT = "\u202egnp.exe \u2066\u200b"
NAMES = [IMAGE, SCRIPT, BENT, "🍎🧑‍🌾" * 9, "x" * 10_000, "a\tb", "'\"`${7*7}{{7*7}}&amp;", "ｆｕｌｌ"]


def write_hostile(path, n=60):
    """Write a table all of whose names are hostile: columns, ids and cells."""

    def quoted(text):
        return '"' + text.replace('"', '""') + '"'

    generator = np.random.default_rng(0)
    columns = [f"{name} {place}" for place, name in enumerate(NAMES)]
    lines = [",".join(map(quoted, ["id", *columns, "a", "b"]))]
    for row in range(n):
        point = 4 * (row % 2) + generator.normal(size=2)
        cells = [f"{NAMES[(row + place) % len(NAMES)]}{row % 3}" for place in range(len(NAMES))]
        lines.append(",".join([quoted(f"{NAMES[row % 8]} #{row}"), *map(quoted, cells), *map(str, point)]))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def check_harmless(page, width, title):
    """Nothing has run, nothing became markup, and the page is no wider than its window."""
    assert page.title() == title
    assert page.locator("img").count() == 0
    assert page.locator("body script").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert "\u202e" not in page.locator("body").inner_text()


@pytest.mark.parametrize("width", [390, 1280])
def test_hostile_names_are_text(browser, make_desk, tmp_path, width):
    path = tmp_path / f"{IMAGE}.csv"
    write_hostile(path)
    with served(path, options(label=None, id="id")) as client:
        page = make_desk(browser, viewport={"width": width, "height": 900}).open(client)
        title = page.title()
        assert IMAGE in title

        def check():
            check_harmless(page, width, title)

        check()
        words = [IMAGE, SCRIPT, "🍎🧑‍🌾" * 9]
        for word in words:
            row = row_of(page)
            assert page.locator("#card-body th, #card-body article").count() == len(NAMES) + 2
            name_class(page, word)
            row_of(page, other_than=row)
        wait_saved(page, 3)
        assert client.project.session.labels.classes == words
        for place, name in enumerate([BENT, "x" * 200]):
            rows = [row for row in range(60) if row % 8 == place]
            client.label(rows, name)
        client.wait_for_model()
        shown = page.locator("#recent-list")
        wait_until(page, lambda: "x" * 40 in shown.inner_text(), "the labels of others")
        assert IMAGE in shown.inner_text()
        for row in range(8):  # each kind of id
            find_row(page, client.project.session.rows.ids[row], row)
            page.locator("#why .tile").first.wait_for()
            check()
            press(page, "Escape")
        for key in ("Shift+C", "Shift+D", "Shift+E", "Shift+M", "?"):
            press(page, key)
            page.wait_for_timeout(50)
            check()
            press(page, "Escape")
        page.locator("#points").scroll_into_view_if_needed()
        box = page.locator("#points").bounding_box()
        low = (box["x"] + 3, box["y"] + 3)
        draw_around(page, low, (low[0] + box["width"] - 6, low[1] + box["height"] - 6))
        page.locator("#sheet .tile").first.wait_for()
        check()
        assert IMAGE in page.locator("#sheet").inner_text()


def test_a_label_that_is_too_long_or_empty_is_not_taken(fresh, desk):
    client, _ = fresh
    page = desk.open(client)
    row = row_of(page)
    name_class(page, "   ")
    assert page.evaluate("document.activeElement.id") == "card-class-name"
    assert row_of(page) == row
    page.locator("#card-class-name").fill("")
    page.keyboard.insert_text("y" * 10_000)
    press(page, "Enter")
    wait_saved(page, 1)
    assert client.project.session.labels.classes == ["y" * 200]


# --- Who may open the page ---


def test_an_address_works_once_and_a_wrong_one_never(fresh, desk, browser):
    client, _ = fresh
    address = client.address()
    desk.origins.add(client.origin)
    page = desk.context.new_page()
    page.goto(address)
    row_of(page)
    page.goto(address)  # this browser is known
    row_of(page)
    assert page.url == client.origin + "/"
    other = browser.new_context()
    try:
        page = other.new_page()
        for wrong in (address, f"{client.origin}/?token=wrong", client.origin):
            assert page.goto(wrong).status == 401
            assert "Open the address that the program printed" in page.inner_text("body")
        assert other.cookies() == []
    finally:
        other.close()


def test_a_page_that_lost_its_cookie_keeps_its_labels_until_it_has_one(fresh, desk):
    client, truth = fresh
    desk.forgive("401")
    page = desk.open(client)
    row = row_of(page)
    desk.context.clear_cookies()
    name_class(page, truth[row])
    page.locator(".notice.bad", has_text="fresh address").first.wait_for()
    assert recent_of(page)[0] == [row, truth[row], "not saved"]
    assert client.project.session.state.version == 0
    desk.open(client)
    wait_saved(page, 1)
    page.locator(".notice.bad").wait_for(state="detached")
    assert [event.rows for event in client.project.session.journal.events()] == [(f"row-{row}",)]


# --- Other sites ---


class _Blank(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!DOCTYPE html><title>another site</title>")

    def log_message(self, *_):
        pass


@contextmanager
def another_site(host):
    """Yield the address of an empty page on another port of this machine."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Blank)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://{host}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


# Each attack returns what it got hold of; nothing is null.
ATTACKS = """
async ([target, body]) => {
  const got = {}, events = [];
  const first = (element, good) => new Promise(resolve => {
    element['on' + good] = () => resolve(good);
    element.onerror = () => resolve(null);
  });
  const asked = (path, options) => fetch(target + path, {credentials: 'include', ...options})
    .then(answer => answer.text()).then(text => text || null).catch(() => null);
  const added = (name, values) => {
    const element = Object.assign(document.createElement(name), values);
    document.body.append(element);
    return element;
  };
  got.read = await asked('/api/start');
  got.readWithoutCors = await asked('/api/start', {mode: 'no-cors'});
  got.readPage = await asked('/');
  for (const type of ['application/json', 'text/plain', 'application/x-www-form-urlencoded'])
    for (const mode of ['cors', 'no-cors']) {
      const options = {method: 'POST', body, mode, headers: {'Content-Type': type}};
      got[`post ${type} ${mode}`] = await asked('/api/label', options);
    }
  navigator.sendBeacon(target + '/api/label', new Blob([body], {type: 'text/plain'}));
  got.image = await first(added('img', {src: target + '/api/rows/0/picture?side=32'}), 'load');
  got.script = await first(added('script', {src: target + '/assets/elements.js', type: 'module'}), 'load');
  got.style = await first(added('link', {href: target + '/assets/page.css', rel: 'stylesheet'}), 'load');
  const source = new EventSource(target + '/api/events', {withCredentials: true});
  for (const kind of ['training', 'model', 'label', 'message']) source.addEventListener(kind, event => events.push(event));
  got.stream = await first(source, 'open');
  got.socket = await first(new WebSocket(target.replace('http', 'ws') + '/api/events'), 'open');
  const frame = added('iframe', {name: 'framed', src: target + '/'});
  await new Promise(resolve => { frame.onload = resolve; setTimeout(resolve, 3000); });
  added('iframe', {name: 'posted'});
  const form = added('form', {method: 'post', action: target + '/api/label', enctype: 'text/plain', target: 'posted'});
  const [name, value] = body.split(/(?<=\\{)(?=.)/);
  form.append(Object.assign(document.createElement('input'), {name, value}));
  form.submit();
  got.events = events.length || null;
  source.close();
  return got;
}"""


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])  # another site, and another origin of this one
def test_another_site_can_neither_read_nor_change_anything(desk, pack, host):
    images = np.random.default_rng(0).integers(0, 256, (30, 8, 8)).astype(np.uint8)
    with (
        served(pack(X=images), LabelOptions(fit=FitOptions(networks=1, map="pca"))) as client,
        another_site(host) as site,
    ):
        ours = desk.open(client)
        desk.forgive(".")  # the other page meets little else than errors
        desk.origins.add(site)
        theirs = desk.context.new_page()
        theirs.goto(site)
        body = {"window": "w", "key": "k", "rows": [0], "label": "owned", "way": "map", "seen": 0}
        got = theirs.evaluate(ATTACKS, [client.origin, json.dumps(body)])
        assert {name for name, found in got.items() if found is not None} == set()

        def are_refused():  # the frame, and the frame that the answer to the form was meant for
            shown = [frame.url for frame in theirs.frames if frame != theirs.main_frame]
            return len(shown) == 2 and all(url.startswith("chrome-error:") for url in shown)

        wait_until(theirs, are_refused, "two frames that show nothing")
        with desk.context.expect_page() as opened:
            theirs.evaluate("target => void window.open(target + '/api/export.csv')", client.origin)
        opened.value.wait_for_load_state()
        assert "Another site may not ask this" in opened.value.inner_text("body")
        assert client.project.session.state.version == 0
        # The page itself can do what the other could not.
        read = "path => fetch(path).then(answer => answer.status)"
        assert ours.evaluate(read, "/api/start") == 200
        assert ours.evaluate(read, "/api/rows/0/picture?side=32") == 200
        post = """body => fetch('/api/label', {method: 'POST', body: JSON.stringify(body),
          headers: {'Content-Type': 'application/json'}}).then(answer => answer.status)"""
        assert ours.evaluate(post, body) == 200
        assert client.project.session.labels.of(0) == "owned"
