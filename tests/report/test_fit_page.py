import base64
import io
import json
import math
import re
import shutil
import subprocess
import sys
from urllib.parse import quote

import numpy as np
import pytest
from fit_views import NONE_HELD_OUT, make_view
from PIL import Image
from report_cases import HOSTILE, Reader

import dahgnn.report.fit_page as fit_page_module
from dahgnn.report.fit_page import fit_page

LONG = "x" * 500
NAMES = [HOSTILE, "__proto__", "\u202eright to left", LONG, "constructor"]
KINDS = {"f4": "<f4", "i4": "<i4", "i2": "<i2", "u2": "<u2", "u1": "u1"}


def hostile_view():
    n = 60
    return make_view(
        n,
        5,
        title=HOSTILE,
        ids=[NAMES[i] if i < 5 else NAMES[i % 5] + str(i) for i in range(n)],
        classes=NAMES,
        facts=dict.fromkeys(NAMES, HOSTILE),
        notes=NAMES,
        details=[{"__proto__": HOSTILE, HOSTILE: LONG}] * n,
        projection=HOSTILE,
    )


def read(view):
    return Reader(fit_page(view))


def unpacked(data, name):
    kind, text = data["arrays"][name]
    return np.frombuffer(base64.b64decode(text), KINDS[kind])


def test_the_arrays_are_the_view():
    view = make_view()
    data = read(view).data()
    order = np.argsort(-view.probabilities, axis=1)
    assert np.array_equal(unpacked(data, "first"), order[:, 0])
    assert np.array_equal(unpacked(data, "second"), order[:, 1])
    ranked = np.take_along_axis(view.probabilities, order, 1)
    assert np.allclose(unpacked(data, "top"), ranked[:, 0])
    assert np.allclose(unpacked(data, "next"), ranked[:, 1])
    assert np.allclose(unpacked(data, "x"), view.position[:, 0])
    assert np.allclose(unpacked(data, "y"), view.position[:, 1])
    assert np.allclose(unpacked(data, "density"), view.density)
    assert np.array_equal(unpacked(data, "given"), view.given)
    assert np.array_equal(unpacked(data, "members"), view.members.ravel())
    assert np.allclose(unpacked(data, "weights") / 65535, view.attention.ravel(), atol=1e-5)
    assert data["ids"] == view.ids


def test_the_page_repeats_and_loads_nothing():
    view = make_view(images=np.zeros((60, 3, 3), dtype=np.uint8))
    text = fit_page(view)
    assert text == fit_page(view)
    reader = Reader(text)
    targets = {a["id"] for _, a in reader.elements if "id" in a}
    assert {address[1:] for address in reader.addresses()} <= targets
    assert not any(name.startswith("on") for _, a in reader.elements for name in a)


def test_the_page_needs_no_plotly(monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly", None)
    assert "Plotly" not in fit_page(make_view())


def test_the_page_of_a_small_table_is_small():
    names = ("bill", "depth", "flipper", "mass", "island", "sex", "year")
    details = [dict.fromkeys(names, "39.1")] * 344
    history = [
        {"network": k, "epoch": e, "train_loss": 1.0, "validation_loss": 1.0, "train_accuracy": 0.5}
        for k in range(10)
        for e in range(300)
    ]
    view = make_view(344, 3, k=10, details=details, history=history, best_epochs=[100] * 10)
    assert len(fit_page(view).encode()) < 200_000


def test_foreign_text_stays_text():
    reader = read(hostile_view())
    tags = [tag for tag, _ in reader.elements]
    assert "img" not in tags
    assert tags.count("script") == 2
    # Title, heading, five facts and one's name, a note, projection, classes, and rows of the table.
    assert reader.text.count(HOSTILE) > 10
    data = reader.data()
    assert data["classes"] == [HOSTILE, "__proto__", "[U+202E]right to left", LONG, "constructor"]
    assert data["details"]["columns"] == ["__proto__", HOSTILE]
    assert data["details"]["rows"][0] == [HOSTILE, LONG]
    assert "alert" not in reader.scripts[1]
    assert "\u202e" not in reader.text


def test_text_that_utf_8_cannot_hold_does_not_stop_the_page():
    view = make_view(title="\ud800", ids=["\ud800"] * 60, facts={"\ud800": "\ud800"})
    assert "<h1><bdi>[U+D800]</bdi></h1>" in fit_page(view).encode("utf-8").decode("utf-8")


def rows_of(text, start):
    """Return the rows of the table after a heading, as they stand in the HTML."""
    part = text[text.index(f'<h2 id="{start}"') :]
    return part[part.index("<tbody>") : part.index("</tbody>")].split("</tr>")[:-1]


def test_the_uncertain_rows_are_unlabelled_and_in_order():
    view = make_view(n=90)
    rows = rows_of(fit_page(view), "uncertain")
    found = [int(row.split('data-open="')[1].split('"')[0]) for row in rows]
    ranked = np.sort(view.probabilities, axis=1)
    margin = ranked[:, -1] - ranked[:, -2]
    expected = sorted((i for i in range(90) if view.given[i] < 0), key=lambda i: margin[i])[:20]
    assert found == expected
    assert f"{100 * margin[expected[0]]:.1f}\u00a0%" in rows[0]


def test_the_balance_counts_predictions_and_labels():
    view = make_view(
        n=4,
        c=2,
        probabilities=np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.4, 0.6]]),
        given=np.array([0, 1, -1, -1]),
        held_out=np.array([0]),
        held_out_probabilities=np.array([[0.9, 0.1]]),
    )
    first, second = rows_of(fit_page(view), "classes")
    assert "<td>3</td><td>1</td>" in first
    assert "75.0\u00a0%" in first
    assert "<td>1</td><td>1</td>" in second
    assert "width:100.00%" in first


def test_calibration_says_the_expected_error():
    # Half the rows are 95 % sure and all right, half are 65 % sure and half right.
    place = np.arange(40)
    top = np.where(place % 2 == 0, 0.95, 0.65)
    reader = read(
        make_view(
            40,
            2,
            probabilities=np.full((40, 2), 0.5),  # which saw the labels, and do not count
            held_out=place,
            held_out_probabilities=np.stack([top, 1 - top], 1),
            given=np.where(place % 2 == 0, 0, place // 2 % 2),
        )
    )
    assert "10.0\u00a0%" in reader.text[reader.text.index("expected calibration error") :][:60]
    assert "confidence 65.0 %: 50.0 % of 20 rows right" in reader.text


@pytest.mark.parametrize(
    ("held", "words"), [(0, "No row was"), (1, "One row was"), (19, "Only 19 rows were")]
)
def test_few_held_out_rows_give_a_sentence(held, words):
    view = make_view(
        held_out=np.arange(held),
        held_out_probabilities=np.full((held, 3), 1 / 3),
        given=np.zeros(60, dtype=int),
    )
    reader = read(view)
    assert f"{words} held out" in reader.text
    assert "rows right" not in reader.text
    assert "Every row has a label." in reader.text


def test_each_network_has_its_curves():
    reader = read(make_view())
    assert "Each of 2 networks has a curve" in reader.text
    paths = [
        a["class"] for tag, a in reader.elements if tag == "path" and a.get("class") in ("main", "other")
    ]
    # Calibration, two curves of each kind of loss, and of the accuracy the training's alone.
    assert paths == ["main", "main", "main", "other", "other", "other", "other"]
    assert "network 2, epoch 2: 1" in reader.text


def test_one_network_is_called_so():
    history = [{"network": 0, "epoch": 0, "train_loss": 2.0}, {"network": 0, "epoch": 10, "train_loss": 1.0}]
    reader = read(make_view(history=history, best_epochs=[10]))
    assert "The dot is the best epoch, 10" in reader.text
    assert [a["aria-label"] for tag, a in reader.elements if tag == "svg"][1:] == ["loss by epoch"]


ASSESSED = {
    "confusion": [[8, 1, 0], [0, 5, 2], [0, 0, 4]],
    "recall": [8 / 9, 5 / 7, 1.0],
    "precision": [1.0, 5 / 6, None],
    "accuracy": 0.85,
    "baselines": {"majority": 0.45, "logistic_regression": None, "nearest_neighbours": 0.9},
    "baseline_labels": 30,
    "doubtful_count": 21,
    "doubtful": [
        {
            "row": 4,
            "id": "row-4",
            "given": "class 0",
            "opinion": "class 2",
            "probability": 0.9,
            "given_probability": 0.02,
        }
    ]
    * 21,
}


def test_the_accuracy_is_the_one_large_number_and_its_interval_stands_beside_it():
    text = " ".join(read(make_view(estimate=(0.942, 0.91, 0.968))).text.split())
    assert "94.2 % of the unlabelled rows are expected to be right95 % interval: 91.0 % to 96.8 %" in text
    # Without an estimate, or without a row that it is for, held-out labels speak.
    view = make_view(given=np.arange(60) % 3, estimate=(0.942, 0.91, 0.968))
    right = (view.held_out_probabilities.argmax(1) == view.held_out % 3).mean()
    assert f"{100 * right:.1f} % of 20 held-out labels are right" in " ".join(read(view).text.split())
    text = read(make_view(**NONE_HELD_OUT)).text
    assert "No label was held out, so nothing tells" in text
    assert "No label was held out, so none can be doubted." in text


def test_the_page_says_what_held_out_labels_say():
    text = fit_page(make_view(assessment=ASSESSED))
    words = " ".join(Reader(text).text.split())
    assert "this fit85.0 % nearest neighbours90.0 % the commonest class45.0 %" in words
    assert "The simple methods had 30 of the labels." in words
    matrix = [re.findall(r">(\d*)</td>", row) for row in rows_of(text, "mistakes")]
    assert matrix == [["8", "1", ""], ["", "5", "2"], ["", "", "4"]]
    classes = rows_of(text, "classes")
    assert "<td>88.9\u00a0%</td><td>100.0\u00a0%</td>" in classes[0]
    assert "–" in classes[2]
    doubtful = rows_of(text, "doubtful")
    assert len(doubtful) == 20
    assert 'data-open="4"' in doubtful[0]
    assert "class 0</bdi>, 2.0\u00a0%" in doubtful[0]
    assert "class 2</bdi>, 90.0\u00a0%" in doubtful[0]
    assert "21 given labels are contradicted by those who had not seen them. Given labels stay" in words
    assert "… and 1 more." in words
    assert Reader(text).data()["doubtful"] == [4] * 21


def test_more_classes_than_a_matrix_has_room_for_are_a_list_that_says_it_goes_on():
    c = 30
    confusion = np.eye(c, dtype=int) * 9
    confusion[np.arange(25), np.arange(25) + 1] = np.arange(25) + 1
    shares = [0.5] * c
    assessment = ASSESSED | {"confusion": confusion.tolist(), "recall": shares, "precision": shares}
    text = fit_page(make_view(200, c, assessment=assessment))
    pairs = rows_of(text, "mistakes")
    assert len(pairs) == 20
    assert "class 24<" in pairs[0] and "class 25<" in pairs[0] and "<td>25</td>" in pairs[0]  # noqa: PT018
    assert "… and 5 more pairs" in text
    assert len(rows_of(text, "classes")) == 24
    assert "… and 6 more</button>" in text


def test_a_view_without_places_is_a_page_without_a_map():
    reader = read(make_view(position=None))
    ids = {a.get("id") for _, a in reader.elements}
    assert "points" not in ids
    assert ids >= {"map", "panel", "search"}
    assert "This page has no map" in reader.text
    assert not {"x", "y"} & reader.data()["arrays"].keys()


def test_the_page_says_how_many_columns_there_are_and_how_it_was_made():
    view = make_view(
        details=[{"a": "1", "b": "2"}] * 60,
        n_columns=64,
        facts={"Seed": "7"},
        notes=["Column c is left out."],
    )
    reader = read(view)
    assert reader.data()["details"]["of"] == 64
    words = " ".join(reader.text.split())
    assert "Seed7" in words
    assert "Column c is left out." in words


@pytest.mark.parametrize(
    "changes",
    [
        {"n": 1, "c": 1, "given": np.array([-1]), **NONE_HELD_OUT},
        {"n": 2, "history": [], "facts": {}, "density": np.ones(2)},
        {"n": 5, "c": 1, "given": np.array([-1, 0, 0, -1, 0])},
        {
            "n": 3,
            "history": [{"network": 0, "epoch": 0, "train_loss": math.nan, "validation_loss": math.inf}],
        },
        {"n": 70, "c": 200, "given": np.full(70, -1), **NONE_HELD_OUT},
    ],
)
def test_little_data_still_makes_a_page(changes):
    reader = read(make_view(**changes))
    ids = {a.get("id") for _, a in reader.elements}
    assert ids >= {"map", "uncertain", "classes", "calibration", "training", "points", "panel"}
    if "history" in changes:
        assert "There is no training history." in reader.text


@pytest.mark.parametrize("channels", [(), (3,)])
def test_sheets_hold_each_image_where_the_page_looks(monkeypatch, channels):
    monkeypatch.setattr(fit_page_module, "_SHEET_SIDE", 16)
    images = np.random.default_rng(0).integers(0, 256, (60, 4, 5, *channels), dtype=np.uint8)
    found = read(make_view(images=images)).data()["images"]
    (width, height), columns = found["size"], found["columns"]
    assert (width, height, columns, len(found["sheets"])) == (5, 4, 3, 7)
    for row, image in enumerate(images):
        raw = base64.b64decode(found["sheets"][row // columns**2].removeprefix("data:image/png;base64,"))
        sheet = np.asarray(Image.open(io.BytesIO(raw)))
        place = row % columns**2
        top, left = place // columns * height, place % columns * width
        assert np.array_equal(sheet[top : top + height, left : left + width], image)


def test_images_over_the_limit_are_left_out_and_the_page_says_so(monkeypatch):
    monkeypatch.setattr(fit_page_module, "MOST_IMAGE_BYTES", 60 * 16 - 1)
    reader = read(make_view(images=np.zeros((60, 4, 4), dtype=np.uint8)))
    assert reader.data()["images"] is None
    assert "The images are left out" in reader.text


def test_a_view_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="'ids' parameter of FitView must be at least one row. Got none"):
        fit_page(make_view(ids=[]))


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
@pytest.mark.parametrize("row", [0, 1])
def test_a_browser_opens_the_row_of_the_address_and_runs_no_foreign_script(tmp_path, row):
    view = hostile_view()
    path = tmp_path / "fit.html"
    path.write_text(fit_page(view).replace("alert(1)", "document.title=1"), encoding="utf-8")
    address = f"{path.as_uri()}#row={quote(view.ids[row].replace('alert(1)', 'document.title=1'), safe='')}"
    gl = ["--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
    command = [CHROMIUM, "--headless", "--no-sandbox", f"--user-data-dir={tmp_path / 'profile'}", *gl]
    done = subprocess.run(
        [*command, "--virtual-time-budget=8000", "--dump-dom", address],
        capture_output=True,
        encoding="utf-8",
        check=True,
        timeout=120,
    )
    reader = Reader(done.stdout)
    panel = next(a for _, a in reader.elements if a.get("id") == "panel")
    assert panel["data-chosen"] == str(row)
    lines = [tag for tag, a in reader.elements if tag == "line" and "stroke-opacity" in a]
    assert len(lines) == view.members.shape[1] - 1
    assert "img" not in [tag for tag, _ in reader.elements]
    assert done.stdout[done.stdout.index("<title>") :].startswith("<title>&lt;/script&gt;")
    assert json.loads(reader.scripts[0])["ids"][1] == "__proto__"
