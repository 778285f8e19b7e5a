"""A full disk, and a server that goes and comes back, as the labelling page shows them."""

from browsers import wait_until
from label_desk import count_of, label_rows, name_class, press, recent_of, row_of, wait_saved
from label_server import served, write_blobs


def events_of(client, row):
    """Return the labels that the journal holds of a row."""
    session = client.project.session
    return [event.label for event in session.journal.events() if event.rows == (session.rows.ids[row],)]


def limit_pages(client, most):
    """Let the journal have so many pages; it keeps those that it has."""
    journal = client.project.session.journal
    with journal._lock:
        journal._connection.execute(f"PRAGMA max_page_count = {most}").fetchall()


def write_long_names(path, n=60):
    """Write a table whose ids are so long that few events fit on a page of the journal."""
    truth = write_blobs(path, n)
    head, *lines = path.read_text().splitlines()
    path.write_text("\n".join([head, *(("x" * 1500) + line for line in lines)]) + "\n")
    return truth


def test_a_full_disk_is_told_and_the_label_is_saved_once_there_is_room(desk, tmp_path):
    truth = write_long_names(tmp_path / "fruit.csv")
    with served(tmp_path / "fruit.csv") as client:
        desk.forgive("507")
        page = desk.open(client)
        known = sorted({truth[row] for row in label_rows(page, truth, 6)})
        wait_saved(page, 6)
        session, notice = client.project.session, page.locator(".notice.bad")
        limit_pages(client, 1)
        saved, row = 6, row_of(page)
        while True:  # what is left of the last page takes a label or two
            name_class(page, truth[row])
            wait_until(page, lambda: recent_of(page)[0][2] != "saving …", "an answer")
            if recent_of(page)[0][2] == "not saved":
                break
            saved, row = saved + 1, row_of(page, other_than=row)
        notice.wait_for()
        assert "Make room" in notice.inner_text()
        assert "1 action is not saved yet" in notice.inner_text()
        assert recent_of(page)[0] == [row, truth[row], "not saved"]
        assert session.labels.n_labelled == session.state.version == saved
        second = row_of(page, other_than=row)  # the next card is there all the same
        name_class(page, truth[second])
        wait_until(page, lambda: "2 actions are not saved yet" in notice.inner_text(), "both")
        assert count_of(page) == saved
        assert events_of(client, row) == events_of(client, second) == []
        limit_pages(client, 100_000)
        notice.wait_for(state="detached")
        wait_saved(page, saved + 2)
        assert events_of(client, row) == [truth[row]]
        assert events_of(client, second) == [truth[second]]
        assert session.state.version == saved + 2
        assert set(known) <= set(session.labels.classes)


def test_a_server_that_goes_and_comes_back_gets_what_was_typed_meanwhile(desk, tmp_path):
    path = tmp_path / "fruit.csv"
    truth = write_blobs(path)
    desk.forgive("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED", "ERR_CONNECTION_RESET", "401")
    with served(path) as client:
        page = desk.open(client, outlives=True)
        label_rows(page, truth, 2)
        wait_saved(page, 2)
        port, row = client.port, row_of(page)
    page.locator(".notice.bad", has_text="Connection lost").wait_for()
    name_class(page, "fig")
    wait_until(page, lambda: recent_of(page)[0] == [row, "fig", "not saved"], "a label that waits")
    next_row = row_of(page, other_than=row)
    press(page, "Space")
    with served(path, port=port) as client:
        assert client.project.session.state.version == 2
        page.locator(
            ".notice.bad", has_text="fresh address"
        ).first.wait_for()  # the old cookie is worth nothing
        desk.open(client)
        wait_saved(page, 3)
        wait_until(page, lambda: page.locator(".notice.bad").count() == 0, "peace")
        assert events_of(client, row) == ["fig"]
        state = client.project.session.state
        wait_until(page, lambda: client.project.session.rows.ids[next_row] in state.skipped, "the skip")
        press(page, "Shift+F")
        shown = row_of(page)
        name_class(page, "date")  # and on it goes
        wait_saved(page, 4)
        assert events_of(client, shown) == ["date"]
