"""GPU kernels against the reference in `ops`, in value and in gradient, on a GPU or in Triton's interpreter."""

import os
import subprocess
import sys

import pytest
import torch
from oracles import normal

from dahgnn import kernels_gpu, ops

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETED or not torch.cuda.is_available() else "cuda"
needs_kernels = pytest.mark.skipif(
    not kernels_gpu.supports(torch.empty(0, device=DEVICE)),
    reason="there is neither a GPU with Triton nor TRITON_INTERPRET=1",
)

# The segments' lengths by target, and the number of sources.
SHAPES = {
    "uniform": ([11] * 7, 13),
    "one node": ([1], 1),
    "one target": ([5], 9),
    "empty segments": ([0, 3, 0, 0, 1, 40, 2, 0], 6),
    "one long segment": ([2, 1203, 0, 5], 50),
    "ragged": ([1, 2, 3, 4, 5, 15, 16, 17, 31, 33, 65, 129], 17),
    "a hub among sources": ([1] * 150, 1),
    "nothing but empty segments": ([0, 0, 0], 4),
}
WIDTHS = [
    (1, 1),
    (1, 10),
    (2, 3),
    (3, 16),
    (4, 8),
    (5, 8),
    (7, 5),
    (8, 1),
    (8, 64),
    (1, 64),
    (13, 17),
    (40, 8),
]
CASES = [(shape, 4, 8) for shape in SHAPES] + [("ragged", *width) for width in WIDTHS]


def make_incidence(shape):
    lengths, n_sources = SHAPES[shape]
    lengths = torch.tensor(lengths)
    owners = torch.arange(len(lengths)).repeat_interleave(lengths)
    generator = torch.Generator().manual_seed(len(owners))
    sources = torch.randint(n_sources, (len(owners),), generator=generator)
    order = sources.argsort(stable=True)
    degrees = torch.bincount(sources, minlength=n_sources)
    forward = ops.Segments(offsets_of(lengths), sources).to(DEVICE)
    backward = ops.Segments(offsets_of(degrees), owners[order]).to(DEVICE)
    return ops.Incidence(forward, backward, owners.to(DEVICE), order.to(DEVICE))


def offsets_of(lengths):
    return torch.cat([torch.zeros(1, dtype=torch.long), lengths.cumsum(0)])


def make_inputs(incidence, heads, units, dtype=torch.float32):
    """Values, shares of sources and of targets, and the bias."""
    n_sources, n_targets = len(incidence.backward), len(incidence.forward)
    sizes = [(n_sources, heads, units), (n_sources, heads), (n_targets, heads), (n_sources, heads)]
    return [normal(*size, seed=seed).to(DEVICE, dtype) for seed, size in enumerate(sizes)]


def forward(inputs, incidence, activation=True):
    return kernels_gpu.attention_forward(
        *inputs, incidence.forward.offsets, incidence.forward.indices,
        slope=ops.NEGATIVE_SLOPE, activation=activation,
    )  # fmt: skip


def backward(gradient, inputs, incidence, activation=True):
    values, source, target, _ = inputs
    output, coefficients = forward(inputs, incidence, activation)
    return kernels_gpu.attention_backward(
        gradient, values, source, target, coefficients, output,
        (incidence.forward.offsets, incidence.forward.indices),
        (incidence.backward.offsets, incidence.backward.indices),
        incidence.positions, slope=ops.NEGATIVE_SLOPE, activation=activation,
    )  # fmt: skip


def reference(gradient, inputs, incidence, activation=True):
    """Output and gradients of the reference in float64: far more exact than what it is compared with."""
    values, source, target = leaves = [tensor.double().requires_grad_() for tensor in inputs[:3]]
    bias = None if inputs[3] is None else inputs[3].double()
    output = ops.attend(values, source, target, bias, incidence, activation=activation, backend="reference")
    return output.detach(), torch.autograd.grad(output, leaves, gradient.double())


def assert_near(actual, expected):
    """Compare by the type's precision, relative to the largest number."""
    scale = expected.abs().max().item() if expected.numel() else 0.0
    tolerance = 1e-5 if actual.dtype == torch.float32 else 1e-12
    assert actual.dtype in (torch.float32, torch.float64)
    torch.testing.assert_close(
        actual.double(), expected.double(), rtol=tolerance, atol=tolerance * max(scale, 1)
    )


def check_attention(incidence, inputs, activation=True, gradient=None):
    if gradient is None:
        size = (len(incidence.forward), *inputs[0].shape[1:])
        gradient = normal(*size, seed=9).to(inputs[0])
    output, gradients = reference(gradient, inputs, incidence, activation)
    assert_near(forward(inputs, incidence, activation)[0], output)
    for actual, expected in zip(backward(gradient, inputs, incidence, activation), gradients, strict=True):
        assert_near(actual, expected)


@needs_kernels
@pytest.mark.parametrize(("shape", "heads", "units"), CASES)
def test_attention_is_that_of_the_reference(shape, heads, units):
    incidence = make_incidence(shape)
    check_attention(incidence, make_inputs(incidence, heads, units))


@needs_kernels
@pytest.mark.parametrize("activation", [True, False])
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_attention_with_and_without_bias_and_activation(activation, biased, dtype):
    incidence = make_incidence("empty segments")
    inputs = make_inputs(incidence, 3, 5, dtype)
    check_attention(incidence, [*inputs[:3], inputs[3] if biased else None], activation)


@needs_kernels
def test_coefficients_are_the_softmax_of_the_scores():
    incidence = make_incidence("ragged")
    inputs = make_inputs(incidence, 3, 2)
    _, source, target, bias = inputs
    scores = ops.attention_scores(source, target, incidence) + ops.gather(bias, incidence)
    assert_near(forward(inputs, incidence)[1], ops.segment_softmax(scores.double(), incidence))


@needs_kernels
def test_large_scores_do_not_overflow():
    incidence = make_incidence("ragged")
    values, source, target, bias = make_inputs(incidence, 2, 3)
    # Whole numbers, so that float32 has the scores exactly.
    inputs = [values, (200 * source).round(), (1000 * target).round().abs(), (300 * bias).round()]
    output, _ = reference(torch.ones(len(target), 2, 3, device=DEVICE), inputs, incidence)
    actual = forward(inputs, incidence)[0]
    assert actual.isfinite().all()
    torch.testing.assert_close(actual.double(), output, rtol=1e-4, atol=1e-4)


@needs_kernels
def test_small_sums_keep_their_digits_in_the_activation():
    incidence = make_incidence("uniform")
    inputs = make_inputs(incidence, 2, 3)
    inputs[0] *= 1e-6
    output, _ = reference(torch.ones(7, 2, 3, device=DEVICE), inputs, incidence)
    torch.testing.assert_close(forward(inputs, incidence)[0].double(), output, rtol=1e-5, atol=1e-12)


@needs_kernels
@pytest.mark.parametrize("shape", ["ragged", "one long segment"])
def test_rows_without_gradient_are_left_out(shape):
    incidence = make_incidence(shape)
    inputs = make_inputs(incidence, 9, 8)
    gradient = normal(len(incidence.forward), 9, 8, seed=3).to(inputs[0])
    gradient[::3] = 0
    gradient[1, 4:] = 0
    check_attention(incidence, inputs, gradient=gradient)


@needs_kernels
def test_no_gradient_at_all_gives_zeros():
    incidence = make_incidence("ragged")
    inputs = make_inputs(incidence, 2, 3)
    for gradient in backward(torch.zeros(len(incidence.forward), 2, 3, device=DEVICE), inputs, incidence):
        assert not gradient.any()


@needs_kernels
def test_attention_takes_views():
    incidence = make_incidence("empty segments")
    values, source, target, bias = make_inputs(incidence, 4, 6)
    views = [
        values.transpose(1, 2).contiguous().transpose(1, 2),
        source.t().contiguous().t(),
        target.repeat(1, 2)[:, :4],
        bias[:, :1].expand(-1, 4),
    ]
    assert not any(view.is_contiguous() for view in views)
    gradient = torch.ones(1, device=DEVICE).expand(len(target), 4, 6)
    check_attention(incidence, views, gradient=gradient)


@needs_kernels
@pytest.mark.parametrize("heads", [1, 3, 4, 8, 40])
@pytest.mark.parametrize("shape", ["uniform", "one node", "empty segments", "one long segment", "ragged"])
def test_the_peak_is_exact(shape, heads):
    incidence = make_incidence(shape)
    _, source, target, _ = make_inputs(incidence, heads, 1)
    for shift in (0, -100):  # above zero and below
        shifted = source + shift
        peak = kernels_gpu.attention_peak(
            shifted, target, incidence.forward.offsets, incidence.forward.indices, ops.NEGATIVE_SLOPE
        )
        expected = ops.highest_score(shifted, target, incidence, backend="reference")
        assert torch.equal(peak, expected[0])


@needs_kernels
def test_the_peak_of_many_blocks_counts_each_row():
    rows = kernels_gpu._PEAK_ROWS
    n_targets = 2 * rows + 3
    offsets = torch.arange(n_targets + 1, device=DEVICE)
    for row in (0, rows - 1, rows, n_targets - 1):
        source = torch.zeros(n_targets, 1, device=DEVICE)
        source[row] = 2.5
        target = torch.ones(n_targets, 1, device=DEVICE)
        peak = kernels_gpu.attention_peak(source, target, offsets, offsets[:-1], 0.2)
        assert peak.tolist() == [3.5]


def neighbours(shape):
    """Segments from nodes to nodes: as many sources as targets."""
    lengths = torch.tensor(SHAPES[shape][0])
    generator = torch.Generator().manual_seed(1)
    indices = torch.randint(len(lengths), (int(lengths.sum()),), generator=generator)
    return ops.Segments(offsets_of(lengths), indices).to(DEVICE)


@needs_kernels
@pytest.mark.parametrize(("shape", "heads", "units"), CASES)
def test_similarity_sum_is_that_of_the_reference(shape, heads, units):
    segments, delta = neighbours(shape), 0.15
    directions = normal(len(segments), heads, units).to(DEVICE, torch.float32)
    directions = torch.nn.functional.normalize(directions, dim=-1)
    actual = kernels_gpu.similarity_sum(directions, delta, segments.offsets, segments.indices)
    expected = ops.similarity_sum(directions.double(), delta, segments, segments, backend="reference")
    assert_near(actual, expected)


@needs_kernels
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_similarity_sum_of_views_and_of_zero_rows(dtype):
    segments = neighbours("ragged")
    directions = torch.nn.functional.normalize(normal(len(segments), 3, 4).to(DEVICE, dtype), dim=-1)
    directions[::4] = 0
    view = directions.transpose(0, 1).contiguous().transpose(0, 1)
    actual = kernels_gpu.similarity_sum(view, 0.0, segments.offsets, segments.indices)
    assert_near(actual, ops.similarity_sum(directions, 0.0, segments, segments, backend="reference"))


@needs_kernels
def test_nothing_is_similar_beyond_one():
    offsets = torch.tensor([0, 2, 3], device=DEVICE)
    indices = torch.tensor([0, 1, 1], device=DEVICE)
    # Its square rounds to more than one.
    directions = torch.full((2, 1, 1), 1 + 1e-7, device=DEVICE)
    assert kernels_gpu.similarity_sum(directions, 1.0, offsets, indices).tolist() == [[0], [0]]
    assert kernels_gpu.similarity_sum(directions, 0.5, offsets, indices).sum() > 3


@needs_kernels
@pytest.mark.parametrize("shape", ["ragged", "one long segment"])
def test_the_same_bits_twice(shape):
    incidence = make_incidence(shape)
    inputs = make_inputs(incidence, 5, 7)
    gradient = normal(len(incidence.forward), 5, 7, seed=9).to(inputs[0])
    offsets, indices = incidence.forward.offsets, incidence.forward.indices
    for function in (
        lambda: forward(inputs, incidence),
        lambda: backward(gradient, inputs, incidence),
        lambda: (kernels_gpu.attention_peak(inputs[1], inputs[2], offsets, indices, 0.2),),
    ):
        for first, second in zip(function(), function(), strict=True):
            assert torch.equal(first, second)


@needs_kernels
def test_programs_of_several_rows_cover_each_row(monkeypatch):
    monkeypatch.setattr(kernels_gpu, "_MANY_ROWS", 1)
    for shape in ("uniform", "ragged", "empty segments"):
        incidence = make_incidence(shape)
        check_attention(incidence, make_inputs(incidence, 4, 8))


@needs_kernels
@pytest.mark.skipif(DEVICE != "cuda", reason="there is no GPU")
def test_a_graph_replays_all_kernels():
    incidence = make_incidence("ragged")
    inputs = make_inputs(incidence, 4, 8)
    gradient = normal(len(incidence.forward), 4, 8, seed=9).to(inputs[0])
    offsets, indices = incidence.forward.offsets, incidence.forward.indices

    def step():
        return (
            *forward(inputs, incidence),
            *backward(gradient, inputs, incidence),
            kernels_gpu.attention_peak(inputs[1], inputs[2], offsets, indices, 0.2),
        )

    step()  # compiles
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = step()
    inputs[0].mul_(-0.5)
    graph.replay()
    for replayed, expected in zip(results, step(), strict=True):
        assert torch.equal(replayed, expected)


@needs_kernels
@pytest.mark.skipif(DEVICE != "cuda", reason="there is no GPU")
def test_rows_beyond_two_to_the_31():
    heads, units, n = 40, 64, 1_000_000
    values = torch.zeros(n, heads, units, device=DEVICE)
    values[-1] = 3.0
    shares = torch.zeros(n, heads, device=DEVICE)
    offsets, indices = torch.arange(n + 1, device=DEVICE), torch.arange(n, device=DEVICE)
    output, _ = kernels_gpu.attention_forward(
        values, shares, shares, None, offsets, indices, slope=0.2, activation=True
    )
    assert (output[-1] == 3).all()
    assert not output[:-1].any()


@pytest.mark.parametrize(
    ("device", "dtype"), [("cpu", torch.float16), ("meta", torch.float32), ("cpu", torch.int64)]
)
def test_supports_no_other_device_or_precision(device, dtype):
    assert not kernels_gpu.supports(torch.empty(0, device=device, dtype=dtype))


def test_the_import_does_without_triton():
    code = "import sys; sys.modules['triton'] = None\n"
    code += "import torch; from dahgnn import kernels_gpu; print(kernels_gpu.supports(torch.empty(0)))"
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.strip() == "False"
