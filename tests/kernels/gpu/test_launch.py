"""The fused layer as a whole, on a GPU or in Triton's interpreter, against the reference."""

import os
import subprocess
import sys

import pytest
import torch
from message_cases import CASES, DEVICE, check, make_case, needs_gpu, needs_kernels

from dahgnn.kernels.gpu import launch as gpu_kernels
from dahgnn.kernels.gpu import programs
from dahgnn.kernels.incidence import Incidence, Segments
from dahgnn.kernels.protocol import MessageSettings, Vectors


@needs_kernels
@pytest.mark.parametrize(("shape", "heads", "units"), CASES)
def test_the_layer_is_that_of_the_reference(shape, heads, units):
    check(make_case(shape, heads, units))


@needs_kernels
@pytest.mark.parametrize("activation", [True, False])
@pytest.mark.parametrize("delta", [None, -0.3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_layer_with_and_without_density_and_activation(activation, delta, dtype):
    check(make_case("empty segments", 3, 5, dtype, delta=delta, activation=activation))


@needs_kernels
@pytest.mark.parametrize("shape", ["short and long", "many members on average"])
def test_the_same_bits_twice(shape):
    case = make_case(shape, 5, 8)
    for function in (lambda: case.forward()[:2], case.backward):
        for first, second in zip(function(), function(), strict=True):
            assert torch.equal(first, second)


@needs_kernels
def test_programs_that_take_several_blocks_cover_each_row(monkeypatch):
    monkeypatch.setattr("dahgnn.kernels.gpu.programs._multiprocessors", lambda _: 0)
    for shape in ("uniform", "short and long"):
        check(make_case(shape, 4, 8))


def test_work_of_a_kind_is_compiled_ahead_once():
    done = []
    kind = object()
    for _ in range(3):
        programs.compile_ahead(lambda: done.append(programs._pending.get()), kind)
    programs.compile_ahead(lambda: done.append(None), object())
    assert len(done) == 2
    with pytest.raises(ZeroDivisionError):
        programs.compile_ahead(lambda: 1 / 0, "fails")
    programs.compile_ahead(lambda: done.append(None), "fails")
    assert len(done) == 3  # what failed is not taken for compiled


@needs_gpu
def test_a_graph_replays_all_kernels():
    case = make_case("ragged", 4, 8)

    def step():
        return [*case.forward()[:2], *case.backward()]

    step()  # compiles
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = step()
    case.inputs[0].mul_(-0.5)
    for _ in range(3):
        graph.replay()
    for replayed, expected in zip(results, step(), strict=True):
        assert torch.equal(replayed, expected)


@needs_gpu
def test_rows_beyond_two_to_the_31():
    heads, units, n = 40, 64, 1_000_000
    wx = torch.zeros(n, heads, units, device=DEVICE)
    wx[-1] = 3.0
    zeros = torch.zeros(n, heads, device=DEVICE)
    vectors = Vectors(*torch.zeros(3, heads, units, device=DEVICE))
    places = torch.arange(n + 1, device=DEVICE)
    alone = Segments(places, places[:-1])
    path = Incidence(alone, alone, places[:-1], places[:-1])
    settings = MessageSettings(slope=0.2, delta=None, tolerance=1e-6, activation=True)
    nodes, hyperedges, kept = gpu_kernels.messages_forward(wx, zeros, vectors, path, path, None, settings)
    assert (nodes[-1] == 3).all()
    assert not nodes[:-1].any()
    wx_gradient, _, _ = gpu_kernels.messages_backward(
        wx, None, wx, zeros, vectors, nodes, hyperedges, kept, path, path, settings
    )
    assert (wx_gradient[-1] == 3).all()
    assert not wx_gradient[:-1].any()


@pytest.mark.parametrize(
    ("device", "dtype"), [("cpu", torch.float16), ("meta", torch.float32), ("cpu", torch.int64)]
)
def test_supports_no_other_device_or_precision(device, dtype):
    assert not gpu_kernels.supports(torch.empty(0, device=device, dtype=dtype))


def test_the_import_does_without_triton():
    code = "import sys; sys.modules['triton'] = None\n"
    code += "import torch; from dahgnn.kernels.gpu import launch; print(launch.supports(torch.empty(0)))"
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.strip() == "False"
