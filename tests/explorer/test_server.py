"""The application over real HTTP."""

import csv
import http.client
import io
import json
import threading

import numpy as np
import pytest
from label_server import options, served, write_blobs

from dahgnn.explorer.security import HEADERS, MOST_BYTES

pytest.importorskip("uvicorn")


@pytest.fixture(scope="module")
def fruit(tmp_path_factory):
    """A table with three labels, one a class."""
    path = tmp_path_factory.mktemp("fruit") / "fruit.csv"
    truth = write_blobs(path, given=(0, 1, 2))
    with served(path) as client:
        yield client, truth


# --- Who may ask ---


def test_every_answer_is_protected(fruit):
    client, _ = fruit
    for path in ("/", "/api/start", "/assets/map.js", "/nowhere"):
        _, headers, _ = client.ask("GET", path)
        assert {name: headers[name] for name in HEADERS} == dict(HEADERS)


@pytest.mark.parametrize(
    "path", ["/", "/api/start", "/assets/map.js", "/api/rows/0/picture", "/api/events", "/nowhere"]
)
def test_nothing_is_told_without_the_cookie(fruit, path):
    client, _ = fruit
    status, headers, content = client.ask("GET", path, cookie=False)
    assert status == 401
    assert b"Open the address" in content
    assert "Set-Cookie" not in headers
    assert client.ask("GET", path + "?token=wrong", cookie=False)[0] == 401


def test_a_token_becomes_a_cookie_once(fruit):
    client, _ = fruit
    token = client.gate.new_token()
    status, headers, _ = client.ask("GET", f"/?token={token}", cookie=False)
    assert (status, headers["Location"]) == (303, "/")
    assert "HttpOnly" in headers["Set-Cookie"]
    assert "SameSite=Strict" in headers["Set-Cookie"]
    assert client.ask("GET", f"/?token={token}", cookie=False)[0] == 401
    assert client.ask("GET", "/api/start", cookie=False, Cookie=headers["Set-Cookie"].split(";")[0])[0] == 200


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/", {"Host": "evil.example"}, 421),
        ("GET", "/api/start", {"Host": "evil.example:80"}, 421),
        ("GET", "/api/start", {"Sec_Fetch_Site": "cross-site"}, 403),
        ("GET", "/assets/map.js", {"Sec_Fetch_Site": "same-site"}, 403),
        ("POST", "/api/undo", {"Origin": "http://evil.example"}, 403),
        ("POST", "/api/undo", {"Content_Type": "text/plain"}, 415),
        ("DELETE", "/api/label", {}, 405),
        ("GET", "/api/label", {}, 405),
    ],
)
def test_what_other_sites_could_send_is_refused(fruit, method, path, headers, status):
    client, _ = fruit
    assert client.ask(method, path, b"{}" if method == "POST" else None, **headers)[0] == status
    assert client.project.session.state.version == 0 or path != "/api/undo"


def test_an_oversized_body_is_refused_also_when_it_hides_its_length(fruit):
    client, _ = fruit
    long = b'{"window": "' + b"x" * MOST_BYTES + b'"}'
    assert client.ask("POST", "/api/next", long)[0] == 413
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=60)
    chunks = iter([long[: 2**20]] * 17)
    headers = {"Cookie": client.cookie, "Content-Type": "application/json", "Transfer-Encoding": "chunked"}
    try:
        connection.request("POST", "/api/next", body=chunks, headers=headers, encode_chunked=True)
        assert connection.getresponse().status == 413
    except (BrokenPipeError, ConnectionResetError):  # it hangs up before all has come
        pass
    finally:
        connection.close()


@pytest.mark.parametrize(
    "path",
    [
        "/assets/../server.py",
        "/assets/%2e%2e/server.py",
        "/assets/..%2fserver.py",
        "/assets/label.py",
        "/assets/",
    ],
)
def test_only_scripts_and_styles_of_the_package_are_files(fruit, path):
    client, _ = fruit
    assert client.ask("GET", path)[0] == 404


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"3", b"[" * 100_000, b'{"a": NaN', b"\xff\xfe"])
def test_what_is_no_json_object_is_refused(fruit, body):
    client, _ = fruit
    assert client.ask("POST", "/api/label", body)[0] == 400


# --- What is told ---


def test_a_window_begins_with_everything(fruit):
    client, _ = fruit
    start = client.get("/api/start")
    assert (start["n"], start["given"], start["classes"][:3]) == (60, 3, ["apple", "pear", "plum"])
    assert start["journal"] == "fruit.csv.labels.sqlite"
    assert "60 rows" in start["notes"][0]


def test_the_page_names_its_file_and_its_modules(fruit):
    client, _ = fruit
    status, headers, content = client.ask("GET", "/")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert "<title>fruit.csv" in content.decode()
    status, headers, script = client.ask("GET", "/assets/label_page.js")
    assert (status, headers["Content-Type"]) == (200, "text/javascript; charset=utf-8")
    assert b"import " in script


def test_a_card_a_tip_and_why(fruit):
    client, truth = fruit
    client.wait_for_model(0)
    card = client.get("/api/rows/9/card")
    assert card["cells"][0][0] == "a"
    assert card["likely"][0][0] == truth[9]
    assert (card["label"], card["way"], card["hidden"], card["picture"]) == (None, "map", False, False)
    assert client.get("/api/rows/0/card")["by"] == "file"
    why = client.get("/api/rows/9/why")
    assert why["labelled"][0]["label"] == truth[9]
    shares = sum(each["weight"] for each in why["labelled"]) + why["rest"]
    assert shares == pytest.approx(1)
    assert 9 in [member["row"] for each in why["hyperedges"] for member in each["members"]]
    assert client.get("/api/rows/9/tip")["id"] == "row-9"


def test_an_explanation_names_the_labels_that_the_model_learned_from(fresh):
    client, _ = fresh
    rows = {0: "apple", 1: "pear", 2: "plum"}
    for row, word in rows.items():
        client.label([row], word)
    model = client.wait_for_model()
    client.project.session.trainer.stop()  # no other model knows of what follows
    client.label([0], None)
    client.label([1], "fig")
    why = client.get("/api/rows/9/why")
    assert why["model"] == model.number
    assert {each["row"]: each["label"] for each in why["labelled"]} == rows


@pytest.mark.parametrize("row", ["60", "999999999999999999999", "-1"])
def test_there_is_no_other_row(fruit, row):
    client, _ = fruit
    for kind in ("card", "why", "tip", "picture"):
        assert client.ask("GET", f"/api/rows/{row}/{kind}")[0] == 404


def test_the_map_has_all_rows(fruit):
    client, truth = fruit
    client.wait_for_model(0)
    places = np.frombuffer(client.ask("GET", "/api/map/places")[2], "<f4").reshape(2, 60).T
    np.testing.assert_array_equal(places, client.project.places)
    content = client.ask("GET", "/api/map/rows")[2]
    n, _, model, n_classes = np.frombuffer(content, "<i4", 4)
    assert (n, model >= 1, n_classes >= 3) == (60, True, True)
    at = 16
    found = {}
    for name, kind in (
        ("label", "<i2"),
        ("who", "u1"),
        ("predicted", "<i2"),
        ("sure", "u1"),
        ("density", "<f4"),
    ):
        found[name] = np.frombuffer(content, kind, 60, at)
        at += -(-found[name].nbytes // 4) * 4
    assert at == len(content)
    assert found["label"][:4].tolist() == [0, 1, 2, -1]
    assert found["who"][:4].tolist() == [1, 1, 1, 0]
    classes = client.get("/api/start")["classes"]
    right = np.mean([classes[place] == truth[row] for row, place in enumerate(found["predicted"])])
    assert right > 0.9
    assert found["sure"].min() >= 80
    assert np.isfinite(found["density"]).all()


def test_rows_are_found_by_the_beginning_of_their_id(fruit):
    client, _ = fruit
    assert client.get("/api/find?id=row-7")["row"] == 7
    assert client.get("/api/find?id=row-5")["row"] == 5
    assert client.get("/api/find?id=%20row-59%20")["row"] == 59
    assert client.ask("GET", "/api/find?id=nobody")[0] == 404
    assert client.ask("GET", "/api/find")[0] == 404


def test_a_sheet_counts_what_is_inside_a_loop(fruit):
    client, truth = fruit
    client.wait_for_model(0)
    rows = list(range(30))
    sheet = client.post("/api/sheet", rows=rows)
    assert sheet["count"] == 30
    assert sum(count for _, count in sheet["counts"]) == 30
    assert len(sheet["sample"]) == 30
    assert {name for name, _ in sheet["counts"]} == set(truth)
    client.post("/api/sheet", 422, rows=[])
    client.post("/api/sheet", 422, rows=[60])


# --- What is done ---


def test_from_no_label_to_an_export(fresh):
    client, truth = fresh
    client.post("/api/train", 409)
    client.post("/api/export-fit", 409)
    ways = []
    for _ in range(20):
        (card,) = client.post("/api/next", have=[], count=1)["cards"]
        assert card["hidden"] == (card["way"] == "audit")
        ways.append(card["way"])
        client.label([card["row"]], truth[card["row"]], way=card["way"])
        if len(ways) == 8:
            client.wait_for_model()  # so that there is a guess of the audit rows
    assert ways.count("audit") == 2
    client.wait_for_model()
    rows = list(csv.DictReader(io.StringIO(client.ask("GET", "/api/export.csv")[2].decode())))
    assert [row["id"] for row in rows] == [f"row-{row}" for row in range(60)]
    assert sum(row["by"] == "person" for row in rows) == 20
    assert np.mean([row["label"] == truth[place] for place, row in enumerate(rows)]) > 0.9
    model = [row for row in rows if row["by"] == "model"]
    assert all(0.33 < float(row["probability"]) <= 1 for row in model)
    assert all(row["time"].endswith("Z") for row in rows)
    progress = client.get("/api/start")["progress"]
    assert (progress["labelled"], progress["audits"]) == (20, 2)


def test_an_export_as_parquet_has_the_same(fruit):
    parquet = pytest.importorskip("pyarrow.parquet")
    client, _ = fruit
    client.wait_for_model(0)
    content = client.ask("GET", "/api/export.parquet")[2]
    table = parquet.read_table(io.BytesIO(content)).to_pylist()
    rows = list(csv.DictReader(io.StringIO(client.ask("GET", "/api/export.csv")[2].decode())))
    assert [row["label"] for row in table] == [row["label"] for row in rows]
    assert [row["by"] for row in table[:4]] == ["file", "file", "file", "model"]


def test_the_same_key_labels_once(fresh):
    client, _ = fresh
    body = {"rows": [4], "label": "apple", "way": "map", "seen": 0, "key": "one"}
    first = client.post("/api/label", **body)
    assert client.post("/api/label", **body)["event"] == first["event"]
    assert client.project.session.state.version == 1
    assert client.get("/api/start")["labelled"] == 1


def test_two_windows_do_not_overwrite_each_other(fresh):
    client, _ = fresh
    client.post("/api/label", rows=[4], label="apple", way="map", seen=0, window="w1")
    told = client.post("/api/label", 409, rows=[4, 5], label="pear", way="map", seen=0, window="w2")
    assert told["conflicts"] == [{"row": 4, "id": "row-4", "label": "apple", "event": 1}]
    assert client.get("/api/rows/5/card")["label"] is None
    client.post("/api/label", rows=[4, 5], label="pear", way="map", seen=told["version"], window="w2")
    assert client.get("/api/rows/4/card")["label"] == "pear"


def test_two_windows_get_different_rows(fresh):
    client, _ = fresh
    held = {}
    for window in ("w1", "w2", "w3"):
        held[window] = [
            card["row"] for card in client.post("/api/next", have=[], count=5, window=window)["cards"]
        ]
    assert len({row for rows in held.values() for row in rows}) == 15
    kept = held["w1"][:2]
    more = client.post("/api/next", have=kept, count=5, window="w1")["cards"]
    assert not {card["row"] for card in more} & {*kept, *held["w2"], *held["w3"]}


def test_undo_gives_back_what_was_and_can_be_said_of_any_event(fresh):
    client, _ = fresh
    client.label([4], "apple")
    client.label([4], "pear")
    undone = client.post("/api/undo", event=None)
    assert (undone["undone"], undone["rows"], undone["labels"]) == (2, [4], ["apple"])
    assert client.post("/api/undo", event=1)["labels"] == [None]
    client.post("/api/undo", 404, event=None)
    client.post("/api/undo", 404, event=1)
    client.post("/api/undo", 404, event=77)
    assert client.get("/api/start")["labelled"] == 0


def test_undo_is_of_ones_own_window(fresh):
    client, _ = fresh
    client.label([4], "apple", window="w1")
    client.label([5], "apple", window="w2")
    assert client.post("/api/undo", event=None, window="w1")["rows"] == [4]


def test_skipped_rows_come_last(fresh):
    client, _ = fresh
    (card,) = client.post("/api/next", have=[], count=1)["cards"]
    client.post("/api/skip", row=card["row"], seen=0)
    others = [row for row in range(60) if row != card["row"]]
    client.label(others[:-1], "apple")
    left = [client.post("/api/next", have=[], count=5)["cards"]][0]
    assert [each["row"] for each in left] == [others[-1], card["row"]]
    assert client.post("/api/undo", event=1)["labels"] == [None]


def test_a_label_can_be_taken_away_also_one_of_the_file(fruit):
    client, _ = fruit
    client.label([2], None)
    assert client.get("/api/rows/2/card")["label"] is None
    client.post("/api/undo", event=None)
    assert (client.get("/api/rows/2/card")["label"], client.get("/api/rows/2/card")["by"]) == ("plum", "file")


@pytest.mark.parametrize("label", ["", "   ", "x" * 201, "a\0b", 3, ["a"]])
def test_labels_that_are_none(fresh, label):
    client, _ = fresh
    client.label([4], label, status=422)
    assert client.project.session.state.version == 0


def test_labels_lose_the_blanks_around_them_and_keep_what_is_in_them(fresh):
    client, _ = fresh
    hostile = "<img src=x onerror=alert(1)> \u202e'\"; DROP TABLE events; --"
    client.label([4], f"  {hostile} ")
    session = client.project.session
    assert session.labels.of(4) == hostile
    shown = client.get("/api/rows/4/card")["label"]
    assert "\u202e" not in shown
    assert shown.startswith("<img")
    client.label([5], shown)
    assert session.labels.classes == [hostile]


def test_ways_are_known(fresh):
    client, _ = fresh
    client.label([4], "apple", status=422, way="magic")
    assert client.project.session.state.version == 0
    client.label([4], "apple", way="find")
    assert client.project.session.labels.of(4) == "apple"


def test_doubtful_labels_are_listed_until_they_are_kept_or_changed(tmp_path):
    truth = write_blobs(tmp_path / "fruit.csv", n=90)
    with served(tmp_path / "fruit.csv", options(networks=5)) as client:  # which hold out every label once
        for word in sorted(set(truth)):
            rows = [row for row in range(60) if truth[row] == word and row not in (0, 1)]
            client.label(rows, word)
        client.label([0], "plum")
        client.label([1], "apple")
        client.wait_for_model()
        told = client.get("/api/doubtful")
        assert {each["row"] for each in told["rows"]} == {0, 1}
        by_row = {each["row"]: each for each in told["rows"]}
        assert (by_row[0]["label"], by_row[0]["opinion"], by_row[0]["by"]) == ("plum", "apple", "person")
        seen = client.project.session.state.version
        client.post("/api/keep", row=0, seen=seen)
        assert [each["row"] for each in client.get("/api/doubtful")["rows"]] == [1]
        client.label([1], truth[1])
        assert client.get("/api/doubtful")["count"] == 0
        client.wait_for_model()
        changed = client.get("/api/changed")
        assert changed["count"] == len(changed["rows"])


def test_events_reach_every_window(fresh):
    client, truth = fresh
    heard, ready = [], threading.Event()

    def listen():
        connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=60)
        connection.request("GET", "/api/events", headers={"Cookie": client.cookie})
        answer = connection.getresponse()
        ready.set()
        kind = ""
        while not any(name == "model" for name, _ in heard):
            line = answer.readline().decode().strip()
            if line.startswith("event: "):
                kind = line.removeprefix("event: ")
            elif line.startswith("data: "):
                heard.append((kind, json.loads(line.removeprefix("data: "))))
        connection.close()

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    assert ready.wait(20)
    client.label([0], truth[0])
    client.label([1, 2], truth[1])
    thread.join(60)
    kinds = [kind for kind, _ in heard]
    assert kinds[0] == "label"
    assert heard[0][1]["rows"] == [0]
    assert heard[0][1]["recent"][0]["label"] == truth[0]
    assert "training" in kinds
    model = dict(heard)["model"]
    assert (model["number"], model["labels"]) == (1, 3)
    assert model["progress"]["labelled"] == 3


def test_the_fit_folder_that_other_commands_take(fresh, tmp_path, capsys):
    from dahgnn.cli.commands import main

    pytest.importorskip("openTSNE")
    client, truth = fresh
    client.project.folder = tmp_path / "out"
    for word in sorted(set(truth)):
        client.label([row for row in range(30) if truth[row] == word], word)
    told = client.post("/api/export-fit")
    assert "model.safetensors" in told["files"]
    assert main(["explain", str(tmp_path / "out"), "--row", "row-40"]) == 0
    assert truth[40] in capsys.readouterr().out
    assert main(["predict", str(tmp_path / "out"), str(tmp_path / "fruit.csv"), "--out", "-"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 61
