"""The GPU kernels of the training loop against torch: loss, gradient, Adam."""

import os

import pytest
import torch

from dahgnn import kernels_gpu, kernels_training

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

pytestmark = pytest.mark.skipif(
    kernels_gpu.triton is None or not (torch.cuda.is_available() or INTERPRETED),
    reason="there is neither a GPU with Triton nor TRITON_INTERPRET=1",
)


def draw(*shape, seed, dtype=torch.float32):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


@pytest.mark.parametrize("weight_decay", [0.0, 0.01])
def test_adam_is_that_of_torch(weight_decay):
    theirs, ours = (
        [draw(33, 40, seed=1).requires_grad_(), draw(5, seed=2).requires_grad_()] for _ in range(2)
    )
    adam = torch.optim.Adam(theirs, lr=0.01, weight_decay=weight_decay)
    schedule = torch.optim.lr_scheduler.StepLR(adam, 3, 0.5)
    mine = kernels_training.Adam(ours, rate=0.01, decay=0.5, decay_every=3, weight_decay=weight_decay)
    for step in range(10):
        for weights in (theirs, ours):
            for number, weight in enumerate(weights):
                weight.grad = draw(*weight.shape, seed=10 * step + number) * (weight.detach() + 1)
        mine.better.fill_(step == 6)
        if step == 6:
            kept = [weight.detach().clone() for weight in ours]
        adam.step()
        schedule.step()
        mine.step()
    for first, second in zip(ours, theirs, strict=True):
        torch.testing.assert_close(first, second, rtol=1e-5, atol=1e-6)
    assert all(torch.equal(best, old) for best, old in zip(mine.best, kept, strict=True))
    assert int(mine.epoch) == 10


@pytest.mark.parametrize(("count", "classes"), [(1, 2), (63, 3), (64, 10), (65, 10), (500, 17)])
def test_scores_and_their_gradient(count, classes):
    logits = (5 * draw(700, classes, seed=1)).requires_grad_()
    nodes = torch.randperm(700, generator=torch.Generator().manual_seed(0))[:count].to(DEVICE)
    labels = torch.randint(0, classes, (count,), generator=torch.Generator().manual_seed(1)).to(DEVICE)
    loss = torch.nn.functional.cross_entropy(logits[nodes], labels)
    sums = kernels_training.score(logits.detach(), nodes, labels).sum(0)
    torch.testing.assert_close(sums[0] / count, loss.detach())
    assert int(sums[1]) == int((logits[nodes].argmax(1) == labels).sum())
    (expected,) = torch.autograd.grad(loss, logits)
    actual = kernels_training.score_gradient(logits.detach(), nodes, labels)
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-7)
