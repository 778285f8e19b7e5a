import base64
import io

import pytest
import torch
from matplotlib.figure import Figure
from PIL import Image
from report_cases import HOSTILE, Reader

from dahgnn.report.embedding import MOST_POINTS, Panel, draw_pair, interactive_embedding
from dahgnn.report.html import colour

LABELS = torch.tensor([0, 1, 2, 0, 1, 2])


def make_panel(title="GAT", predictions=(1, 1, 2, 0, 1, 0), **changes):
    # Node 0 is wrong too, but no test node.
    values = {
        "layout": torch.arange(12.0).reshape(6, 2),
        "predictions": torch.tensor(predictions),
        "test": torch.tensor([2, 3, 4, 5]),
    }
    return Panel(title=title, **(values | changes))


PANELS = [make_panel(), make_panel("DA-HGNN", (0, 1, 2, 0, 1, 2))]


def make_images(n=6, channels=1, side=4):
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (n, channels, side, side), dtype=torch.uint8, generator=generator)


def test_the_pair_has_titles_with_accuracies_one_legend_and_the_wrong_ones(tmp_path, monkeypatch):
    drawn = {}
    save = Figure.savefig

    def remember(figure, path, **settings):
        drawn["titles"] = [axes.get_title() for axes in figure.axes]
        drawn["legends"] = [[text.get_text() for text in legend.get_texts()] for legend in figure.legends]
        drawn["wrong"] = [axes.collections[-1].get_offsets().tolist() for axes in figure.axes]
        return save(figure, path, **settings)

    monkeypatch.setattr(Figure, "savefig", remember)
    draw_pair(tmp_path / "pair.png", PANELS, LABELS)
    assert drawn["titles"] == [
        "GAT\n75.00 % of 4 test nodes correct",
        "DA-HGNN\n100.00 % of 4 test nodes correct",
    ]
    assert drawn["legends"] == [["0", "1", "2", "wrong"]]
    assert drawn["wrong"] == [[[10.0, 11.0]], []]


@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("a.pdf", b"%PDF"), ("a", b"\x89PNG")])
def test_the_ending_chooses_the_format_and_drawings_repeat(tmp_path, name, start):
    panels = [make_panel("a $x_ <b>"), *PANELS]
    draw_pair(tmp_path / name, panels, LABELS, classes=["$", HOSTILE, "c"])
    first = (tmp_path / name).read_bytes()
    draw_pair(tmp_path / name, panels, LABELS, classes=["$", HOSTILE, "c"])
    assert first.startswith(start)
    assert (tmp_path / name).read_bytes() == first


def page_of(path, *arguments, **settings):
    interactive_embedding(path, *arguments, **settings)
    return Reader(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("channels", [1, 3])
def test_the_sprite_sheet_holds_each_image_where_the_page_looks(tmp_path, channels):
    images = make_images(channels=channels)
    data = page_of(tmp_path / "a.html", PANELS, LABELS, images).data()
    sheet = Image.open(io.BytesIO(base64.b64decode(data["sprite"].removeprefix("data:image/png;base64,"))))
    width, height = data["size"]
    for node, image in enumerate(images):
        left, top = node % data["columns"] * width, node // data["columns"] * height
        tile = sheet.crop((left, top, left + width, top + height))
        expected = image[0] if channels == 1 else image.permute(1, 2, 0)
        assert torch.equal(torch.tensor(list(tile.tobytes())).view(expected.shape), expected.long())


def test_every_node_is_a_point_and_the_wrong_test_nodes_are_named(tmp_path):
    data = page_of(tmp_path / "a.html", PANELS, LABELS, make_images()).data()
    assert data["labels"] == LABELS.tolist()
    assert [panel["predictions"] for panel in data["panels"]] == [[1, 1, 2, 0, 1, 0], [0, 1, 2, 0, 1, 2]]
    assert [panel["wrong"] for panel in data["panels"]] == [[5], []]
    for panel in data["panels"]:
        assert panel["x"] == [2.0 * node for node in range(6)]
        assert panel["y"] == [2.0 * node + 1 for node in range(6)]
    assert data["colours"] == {str(label): colour(label) for label in range(3)}


def test_foreign_text_stays_text(tmp_path):
    panels = [make_panel(HOSTILE), PANELS[1]]
    reader = page_of(
        tmp_path / "a.html", panels, LABELS, make_images(), classes=[HOSTILE, "b", "c"], title=HOSTILE
    )
    tags = [tag for tag, _ in reader.elements]
    assert "img" not in tags
    assert tags.count("script") == 2
    assert reader.text.count(HOSTILE) == 4  # title, heading, panel, class
    assert reader.addresses() == []
    assert reader.data()["names"]["0"] == HOSTILE  # set as text by the page


def test_the_page_repeats(tmp_path):
    for name in ("a.html", "b.html"):
        interactive_embedding(tmp_path / name, PANELS, LABELS, make_images())
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layout": torch.zeros(5, 2)}, r"'layout' parameter of Panel must be of shape \(6, 2\)"),
        ({"predictions": (0, 1)}, r"'predictions' parameter of Panel must be of shape \(6,\)"),
        ({"test": torch.tensor([6])}, "'test' parameter of Panel must be indices between 0 and"),
        (
            {"test": torch.tensor([], dtype=torch.int64)},
            "'test' parameter of Panel must be at least one node",
        ),
    ],
)
def test_panels_that_do_not_fit_are_refused(tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        draw_pair(tmp_path / "a.png", [make_panel(**changes)], LABELS)
    assert list(tmp_path.iterdir()) == []


def test_too_few_names_no_panels_and_wrong_images_are_refused(tmp_path):
    path = tmp_path / "a.html"
    with pytest.raises(ValueError, match="'classes' parameter of draw_pair must be at least 3 names. Got 2"):
        draw_pair(tmp_path / "a.png", PANELS, LABELS, classes=["a", "b"])
    with pytest.raises(ValueError, match="at least one panel"):
        draw_pair(tmp_path / "a.png", [], LABELS)
    with pytest.raises(TypeError, match="of torch.uint8. Got torch.float32"):
        interactive_embedding(path, PANELS, LABELS, make_images().float())
    for images in (make_images(5), make_images(6, 2), make_images()[:, 0]):
        with pytest.raises(ValueError, match=r"of shape \(6, 1 or 3, height, width\)"):
            interactive_embedding(path, PANELS, LABELS, images)
    n = MOST_POINTS + 1
    many = make_panel(layout=torch.zeros(n, 2), predictions=[0] * n)
    with pytest.raises(ValueError, match="at most 10,000. Got 10,001. Show a sample"):
        interactive_embedding(path, [many], torch.zeros(n, dtype=torch.int64), make_images(1))
    assert list(tmp_path.iterdir()) == []
