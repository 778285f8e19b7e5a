"""The least time of an epoch, computed once more by hand."""

import torch

from dahgnn import Hypergraph
from dahgnn.bench.lower_bound import Floor, Machine, Size, floor
from dahgnn.config import PRESETS, ModelConfig


def test_floor_by_hand():
    # 3 hyperedges of 5 used columns; the large product has 32 columns.
    # Operations: forward 2·3·5·32 = 960, backward as many. Words read: 15 each way.
    # Layer 1, rows of 32 and 4 terms, 2 nodes + 3 hyperedges, 6 incidences; each direction:
    #   forward   reads and writes 5 rows, reads 5 terms, writes 6 coefficients, reads 6 indices:
    #             160 + 20 + 24 + 6 = 210
    #   backward  twice the rows (read 5 and their gradients, of which one side is written), twice the
    #             terms (read, and gradients written), coefficients, indices: 320 + 40 + 24 + 6 = 390
    # Layer 2, rows of 10 and 1 term: 50 + 5 + 6 + 6 = 67 and 100 + 10 + 6 + 6 = 122.
    size = Size(nodes=2, hyperedges=3, incidences=6, columns=5)
    words = 2 * (210 + 390) + 2 * (67 + 122)
    slow_product = floor(size, Machine(bandwidth=4.0, rate=10.0))
    assert slow_product == Floor(products=192.0, incidences=float(words))
    slow_memory = floor(size, Machine(bandwidth=4.0, rate=1e9))
    assert slow_memory.products == 30.0
    assert slow_memory.seconds == 30.0 + words


def test_floor_of_the_default_network_by_hand():
    # An ELU stands behind the convolution, so that the large product has 64 columns and is followed by others.
    # Operations of the large product: forward 2·3·5·64 = 1920, backward as many.
    # Behind it, 2 nodes times 64 · 32, 3 hyperedges times 64 · 4 (one column a head), and for the shortcut
    # 2 nodes times 64 · 10: 4096 + 768 + 1280 = 6144 pairs of numbers, two operations each, forward once and
    # backward twice.
    # Words behind it: the 3 · 64 rows of hyperedges are read twice, and their gradient is written.
    size = Size(nodes=2, hyperedges=3, incidences=6, columns=5)
    slow_product, slow_memory = Machine(bandwidth=4.0, rate=10.0), Machine(bandwidth=4.0, rate=1e9)
    paper = floor(size, slow_product)
    default = floor(size, slow_product, PRESETS["default"].model)
    assert default == Floor(products=384.0, incidences=paper.incidences, projections=2 * 3 * 6144 / 10)
    assert default.seconds == 384.0 + paper.incidences + 3686.4
    assert floor(size, slow_memory, PRESETS["default"].model).projections == 3 * 3 * 64


def test_floor_takes_the_sizes_of_the_network():
    size, machine = Size(nodes=2, hyperedges=3, incidences=6, columns=5), Machine(bandwidth=4.0, rate=10.0)
    # Eight heads of four units: 32 columns as before, and twice the terms and coefficients of layer 1.
    paper, wide = floor(size, machine), floor(size, machine, ModelConfig(heads=8, units=4))
    assert wide.products == paper.products
    assert wide.incidences - paper.incidences == 6 * 5 * 4 + 4 * 6 * 4
    # The hidden units are folded away, but for what stands behind them.
    assert floor(size, machine, ModelConfig(hidden=7)) == paper
    dropping = floor(size, machine, ModelConfig(hidden=7, dropout=0.5))
    assert dropping.products == 4 * 3 * 5 * 7 / 10
    assert dropping.projections == 6 * 7 * (2 * 32 + 3 * 4) / 10  # there is no shortcut


def test_floor_of_ten_runs_shares_features_and_indices():
    size = Size(nodes=2, hyperedges=3, incidences=6, columns=5)
    one, ten = (floor(size, Machine(bandwidth=4.0, rate=10.0), runs=runs) for runs in (1, 10))
    assert ten.products == 10 * one.products
    indices = 2 * 4 * 6
    assert ten.incidences == 10 * (one.incidences - indices) + indices
    one, ten = (floor(size, Machine(bandwidth=4.0, rate=1e9), runs=runs) for runs in (1, 10))
    assert ten.products == one.products


def test_size_counts_what_must_be_computed():
    features = torch.rand(6, 4, generator=torch.Generator().manual_seed(0))
    features[:, 3] = 0
    hypergraph = Hypergraph.from_hyperedges([[0, 1, 2], [2, 3, 4, 5]], n_nodes=6)
    assert Size.of(features, hypergraph) == Size(nodes=6, hyperedges=2, incidences=7, columns=3)


def test_a_machine_has_speeds():
    machine = Machine.measure(torch.device("cpu"))
    assert machine.bandwidth > 0
    assert machine.rate > 0
