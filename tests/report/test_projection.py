import pytest
import torch

from dahgnn.report.projection import draw_embedding, tsne


def test_tsne_repeats_and_keeps_groups_apart():
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(90) % 3
    embedding = 10 * torch.eye(3)[labels] + torch.randn(90, 3, generator=generator)
    layout = tsne(embedding, seed=0)
    assert torch.equal(layout, tsne(embedding, seed=0))
    centres = torch.stack([layout[labels == label].mean(0) for label in range(3)])
    assert torch.equal(torch.cdist(layout, centres).argmin(1), labels)


def test_a_layout_tells_how_far_it_is_and_stays_the_same(caplog):
    embedding = torch.randn(60, 5, generator=torch.Generator().manual_seed(1))
    told = []
    layout = tsne(embedding, seed=0, progress=lambda done, total, text: told.append((done, total, text)))
    assert told[0] == (50, 750, "step 50 of 750")
    assert told[-1] == (750, 750, "step 750 of 750")
    assert [done for done, _, _ in told] == sorted({done for done, _, _ in told})
    assert torch.equal(layout, tsne(embedding, seed=0))
    assert not caplog.records  # nothing of a perplexity that few rows do not allow


def test_more_rows_than_are_laid_out_stand_among_their_nearest(monkeypatch):
    monkeypatch.setattr("dahgnn.report.projection.MOST_BY_TSNE", 90)
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(240) % 3
    embedding = 10 * torch.eye(3)[labels] + torch.randn(240, 3, generator=generator)
    layout = tsne(embedding, seed=0)
    assert layout.shape == (240, 2)
    assert torch.equal(layout, tsne(embedding, seed=0))
    centres = torch.stack([layout[labels == label].mean(0) for label in range(3)])
    assert torch.equal(torch.cdist(layout, centres).argmin(1), labels)


def test_the_picture_shows_every_class_the_wrong_ones_and_the_title(tmp_path, monkeypatch):
    drawn = {}

    def remember(figure, path, **settings):
        axes = figure.axes[0]
        drawn["title"] = axes.get_title()
        drawn["legend"] = [text.get_text() for text in axes.get_legend().get_texts()]
        drawn["wrong"] = axes.collections[-1].get_offsets().tolist()
        return save(figure, path, **settings)

    from matplotlib.figure import Figure

    save = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", remember)
    labels = torch.tensor([0, 1, 2, 0, 1, 2])
    predictions = torch.tensor([1, 1, 2, 0, 1, 0])
    layout = torch.arange(12.0).reshape(6, 2)
    path = tmp_path / "embedding.png"
    # Node 0 is wrong too, but no test node.
    draw_embedding(path, layout, labels, predictions, torch.tensor([2, 3, 4, 5]), title="75 % of 4")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert drawn == {"title": "75 % of 4", "legend": ["0", "1", "2", "wrong (1)"], "wrong": [[10.0, 11.0]]}


def test_a_picture_that_cannot_be_written_leaves_nothing(tmp_path):
    with pytest.raises(ValueError, match="not supported"):
        draw_embedding(
            tmp_path / "a.nope", torch.zeros(2, 2), *torch.zeros(3, 2, dtype=torch.int64), title=""
        )
    assert list(tmp_path.iterdir()) == []


def test_a_picture_without_an_ending_is_a_png(tmp_path):
    draw_embedding(tmp_path / "map", torch.rand(2, 2), *torch.zeros(3, 2, dtype=torch.int64), title="")
    assert [path.name for path in tmp_path.iterdir()] == ["map"]
    assert (tmp_path / "map").read_bytes().startswith(b"\x89PNG")
