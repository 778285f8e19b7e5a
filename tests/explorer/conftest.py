"""A labelling project on a real server, and a browser in front of it."""

import pytest
from label_desk import Desk


@pytest.fixture(scope="module")
def browser(launch):
    return launch("webgl2")


@pytest.fixture
def make_desk():
    """Make desks of browsers, in which everything must be in order at the end."""
    desks = []

    def make(browser, **options):
        desks.append(Desk(browser, **options))
        return desks[-1]

    yield make
    try:
        for desk in desks:
            desk.check()
    finally:
        for desk in desks:
            desk.context.close()


@pytest.fixture
def desk(browser, make_desk):
    return make_desk(browser)


@pytest.fixture
def fresh(tmp_path):
    """A table without a label, for one test alone: a client, and what each row is."""
    pytest.importorskip("uvicorn", reason="needs uvicorn")
    from label_server import served, write_blobs

    truth = write_blobs(tmp_path / "fruit.csv")
    with served(tmp_path / "fruit.csv") as client:
        yield client, truth
