"""What a run notes of its epochs, and whom it tells."""

import torch
from torch import nn

from dahgnn.training.run import Labelled, Parts, Run


def make_run(callback=None):
    nodes = torch.arange(4)
    part = Labelled(nodes, nodes % 2)
    return Run(3, nn.Identity(), Parts(part, part), 0, callback)


def row(loss):
    return [0.5, loss, 0.25, 0.75]


def test_a_run_knows_its_best_epoch():
    run = make_run()
    noted = run.note([row(3.0), row(2.0), row(2.0), row(2.5), row(1.0)])
    assert [epoch.best_epoch for epoch in noted] == [0, 1, 1, 1, 4]  # of equals, the first
    assert [epoch.epoch for epoch in run.note([row(9.0)])] == [5]
    assert run.history[-1].best_epoch == 4


def test_a_run_tells_its_number():
    heard = []
    run = make_run(callback=lambda *news: heard.append(news))
    run.tell(run.note([row(1.0), row(2.0)]))
    assert [(number, epoch.epoch) for number, epoch in heard] == [(3, 0), (3, 1)]
