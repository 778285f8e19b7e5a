"""A person at the labelling page: windows in a real browser, and keys."""

import re

from browsers import PATIENCE, wait_until


class Desk:
    """Windows of one browser in which nothing may go wrong unsaid.

    Whatever a page logs as an error, throws, or asks of another server is kept; `check` looks at it.
    """

    def __init__(self, browser, **options):
        options = {"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce"} | options
        self.context = browser.new_context(**options)
        self.context.set_default_timeout(1000 * PATIENCE)
        self.wrongs, self.requests, self.forgiven, self.origins = [], [], [], set()
        self._hears = True
        self.context.on("console", self._hear)
        self.context.on("weberror", self._catch)
        self.context.on("request", lambda request: self.requests.append(request.url))

    def _catch(self, error):
        if self._hears:
            self.wrongs.append(f"thrown: {error.error.stack or error.error}")

    def _hear(self, message):
        if not self._hears:
            return
        # Software that stands in for a graphics card complains of itself.
        if message.type in ("error", "warning") and "GL Driver Message" not in message.text:
            self.wrongs.append(f"{message.type}: {message.text} ({message.location.get('url', '')})")

    def open(self, client, outlives=False):
        """Return a new window at a fresh address, with its first card; it may outlive its server."""
        self.origins.add(client.origin)
        if not outlives:
            client.before_end.append(self.listen_no_more)
        page = self.context.new_page()
        page.goto(client.address())
        row_of(page)
        return page

    def forgive(self, *patterns):
        """Let errors pass that a test provokes."""
        self.forgiven += patterns

    def listen_no_more(self):
        """Hear what is under way, but nothing after it: pages complain when their server ends."""
        if self._hears:
            for page in self.context.pages:
                page.evaluate("0")
            self._hears = False

    def check(self):
        """Find everything in order."""
        self.listen_no_more()
        wrongs = [each for each in self.wrongs if not any(re.search(some, each) for some in self.forgiven)]
        assert not wrongs, wrongs
        away = [url for url in self.requests if not url.startswith((*self.origins, "blob:"))]
        assert not away, away


def row_of(page, other_than=None):
    """Wait for a card, of another row than the given one, and return its row."""
    card = page.locator("#card[data-row]")

    def row():
        found = card.get_attribute("data-row") if card.count() else None
        return found is not None and found != str(other_than) and found

    return int(wait_until(page, row, "another card"))


def press(page, *keys):
    """Press keys one after the other."""
    for key in keys:
        page.keyboard.press(key)


def name_class(page, name):
    """Label the row on the card by the name of a class, by keyboard."""
    press(page, "Shift+N")
    page.keyboard.type(name)
    press(page, "Enter")


def find_row(page, text, row):
    """Open a row by its id or the beginning of it, by keyboard."""
    press(page, "/")
    page.keyboard.insert_text(text)
    press(page, "Enter")
    page.locator(f'#card[data-row="{row}"][data-way=find]').wait_for()


def label_rows(page, truth, count, own_keys=False):
    """Label some rows of the queue as they are, by digits, and return them in order; name new classes.

    With ``own_keys`` classes are called by digits, which are their keys.
    """
    known, rows, row = [], [], row_of(page)
    for _ in range(count):
        word = truth[row]
        if word in known:
            press(page, word if own_keys else str(known.index(word) + 1))
        else:
            name_class(page, word)
            known.append(word)
        rows.append(row)
        row = row_of(page, other_than=row)
    return rows


def count_of(page):
    """Return how many rows have a label, as the page says it."""
    return int(page.get_by_label("Rows with a label").evaluate("bar => bar.value"))


def recent_of(page):
    """Return the recent labels: row, class and state of each, the newest first."""
    tiles = page.locator("#recent-list .tile")
    return tiles.evaluate_all(
        "tiles => tiles.map(tile => [Number(tile.dataset.row), "
        "(tile.querySelector('.named .cut') ?? tile.querySelector('.named')).textContent, "
        "tile.querySelector('.state').textContent])"
    )


def wait_saved(page, count):
    """Wait until all is on the disk, and the page counts so many labels."""

    def is_saved():
        return count_of(page) == count and all(
            state in ("saved", "elsewhere") for _, _, state in recent_of(page)
        )

    wait_until(page, is_saved, f"{count} labels on the disk")
