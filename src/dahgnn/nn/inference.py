"""What a network says of all nodes, layer by layer and block by block, with nothing sampled.

It is what the network's own forward pass gives. But no more than a block of rows is in memory at a time: what
passes from one layer to the next is in arrays that may be file-backed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from dahgnn.files.scratch import Scratch
from dahgnn.graph.density_neighbours import Neighbourhoods
from dahgnn.graph.hypergraph import Hypergraph
from dahgnn.graph.reach import Numbers
from dahgnn.kernels.gpu.programs import varying_sizes
from dahgnn.kernels.incidence import Incidence, Segments
from dahgnn.nn.density import rounding
from dahgnn.nn.layers import AttentionWeights, DensityAwareAttention
from dahgnn.nn.model import DAHGNN
from dahgnn.nn.propagation import to_hyperedges
from dahgnn.ops.blocks import BLOCK, Block, blocks_of, row_blocks, sum_blocks
from dahgnn.ops.fused import Factor, attend_rows, similarity_to
from dahgnn.ops.sparse import highest_score, scale_between
from dahgnn.threads import FEW_ROWS, make_ahead, one_thread, threads_beside, threads_for

Given = TypeVar("Given")
Made = TypeVar("Made")

Receive = Callable[[slice, Tensor], None]


@torch.no_grad()
def infer(
    network: DAHGNN,
    features: Tensor,
    hypergraph: Hypergraph,
    scratch: Scratch | None = None,
    *,
    block: int = BLOCK,
) -> Tensor:
    """Return the logits of all nodes, as ``network.eval()(features, hypergraph)`` does.

    Parameters
    ----------
    network : DAHGNN
        The network, on any device; blocks are computed there.
    features : Tensor, (n, in_features)
        The features, on the CPU; they may be file-backed.
    hypergraph : Hypergraph
        The hypergraph of the same nodes, on the CPU; its tensors may be file-backed.
    scratch : Scratch, optional
        Where large arrays get room; by default in memory. What is not returned is removed again.
    block : int
        Incidences of a block, and its rows at the most; a node in more hyperedges is a block of its own.

    Returns
    -------
    Tensor, (n, n_classes), on the CPU

    Examples
    --------
    >>> features = torch.rand(50, 7)
    >>> hypergraph = Hypergraph.from_features(features, k=5)
    >>> network = DAHGNN(in_features=7, n_classes=3)
    >>> torch.allclose(infer(network, features, hypergraph), network(features, hypergraph), atol=1e-5)
    True
    """
    network.convolution.check(features, hypergraph)
    with _room(scratch) as room, varying_sizes(), threads_for(FEW_ROWS):
        walk = _Walk(network, hypergraph, room, block)
        first, second = network.attention_weights()
        rows, logits = walk.embed(features, first)
        rows = walk.attend_first(rows, first, second)
        walk.attend(network.attention2, second, rows, None, partial(_add, logits))
        return logits


@torch.no_grad()
def infer_density(
    network: DAHGNN,
    features: Tensor,
    hypergraph: Hypergraph,
    scratch: Scratch | None = None,
    *,
    block: int = BLOCK,
) -> Tensor:
    """Return the density of all nodes in the first attention layer, (n,), the mean of its heads.

    The parameters are those of `infer`.
    """
    with _room(scratch) as room, varying_sizes(), threads_for(FEW_ROWS):
        walk = _Walk(network, hypergraph, room, block)
        rows, _ = walk.embed(features, network.attention_weights()[0])
        return walk.measure_density(network.attention1, rows.wx).mean(1)


@contextmanager
def _room(scratch: Scratch | None) -> Iterator[Scratch]:
    """Give room of its own for the block, in the same place. What is still held then stays readable."""
    given = Scratch() if scratch is None else scratch
    with Scratch(given.folder, large=given.large) as room:
        yield room


def _add(sums: Tensor, rows: slice, some: Tensor) -> None:
    sums[rows] += some.flatten(1).to(sums.device)


class _Rows(NamedTuple):
    """What an attention layer takes, its projections being done.

    Attributes
    ----------
    wx : Tensor, (n, heads, units)
        WX.
    e_term : Tensor, (m, heads)
        Products of We with the second half of α_X.
    """

    wx: Tensor
    e_term: Tensor


class _Walk:
    """One way through a network, block by block."""

    def __init__(self, network: DAHGNN, hypergraph: Hypergraph, room: Scratch, block: int) -> None:
        self.network, self.hypergraph, self.room, self.block = network, hypergraph, room, block
        weight = network.convolution.weight
        self.device, self.dtype = weight.device, weight.dtype
        # Wide rows, such as those of features, come in smaller blocks.
        self.few = max(block // 16, 1)
        self._spare: dict[int, list[Numbers]] = {}

    def embed(self, features: Tensor, weights: AttentionWeights) -> tuple[_Rows, Tensor]:
        """Return what the first attention layer takes, and the logits so far: those of the shortcut."""
        network, hypergraph = self.network, self.hypergraph
        projected = self._empty(len(features), network.config.hidden)
        for rows in row_blocks(len(features), self.few):
            projected[rows] = features[rows].to(self.device) @ network.convolution.weight
        between = to_hyperedges(projected, hypergraph, self.room)
        result, logits = self._rows_for(network.attention1), self._empty(len(features), network.n_classes)
        of_nodes, of_hyperedges = (Factor(each) for each in weights.projections())
        factors: tuple[Factor, ...] = (of_nodes,)
        if network.shortcut is None:
            logits.zero_()
        else:
            factors = (of_nodes, Factor(network.shortcut.unsqueeze(0)))
        to_node = partial(self._project, factors, (result.wx, logits), 0)
        to_hyperedge = partial(self._project, (of_hyperedges,), (result.e_term,), 1)
        # The paper prints the two with their names exchanged.
        printed = network.config.convolution == "printed"
        of_first, of_second = (to_node, to_hyperedge) if printed else (to_hyperedge, to_node)
        for rows in row_blocks(len(between), self.few):
            of_first(rows, between[rows])
        node, _, hyperedge = hypergraph.degree_scales(self.dtype)
        weights_to_nodes = hypergraph.weights_to_nodes
        sum_blocks(between, hypergraph.by_node, hyperedge, node, weights_to_nodes, of_second, self.block)
        return result, logits

    def attend_first(self, rows: _Rows, first: AttentionWeights, second: AttentionWeights) -> _Rows:
        """Pass the messages of the first attention layer; return what the second one takes."""
        result = self._rows_for(self.network.attention2)
        of_nodes, of_hyperedges = (Factor(each) for each in second.projections())
        to_hyperedge = partial(self._project, (of_hyperedges,), (result.e_term,), 3)
        to_node = partial(self._project, (of_nodes,), (result.wx,), 2)
        self.attend(self.network.attention1, first, rows, to_hyperedge, to_node)
        return result

    def attend(
        self,
        layer: DensityAwareAttention,
        weights: AttentionWeights,
        rows: _Rows,
        to_hyperedge: Receive | None,
        to_node: Receive,
    ) -> None:
        """Pass the messages of a layer to hyperedges and on to nodes, and hand both on block by block."""
        hypergraph, vectors, (wx, e_term) = self.hypergraph, weights.vectors(), rows
        by_hyperedge, by_node = hypergraph.by_hyperedge, hypergraph.by_node
        hyperedges = self._empty(hypergraph.n_hyperedges, *wx.shape[1:])

        def receive(some: slice, sums: Tensor) -> None:
            hyperedges[some] = sums
            if to_hyperedge is not None:
                to_hyperedge(some, sums)

        density = self.measure_density(layer, wx) if layer.config.density else None
        bias = self._scale(density, wx, vectors.from_node, e_term, by_hyperedge)
        self._sum(wx, vectors.from_node, e_term, bias, by_hyperedge, True, receive)
        target = self._terms(wx, vectors.to_node)
        bias = self._scale(self._crowd(density), hyperedges, vectors.from_hyperedge, target, by_node)
        activation = layer.config.final_activation
        self._sum(hyperedges, vectors.from_hyperedge, target, bias, by_node, activation, to_node)

    def measure_density(self, layer: DensityAwareAttention, wx: Tensor) -> Tensor:
        """Return the density of all nodes, (3): (n, heads)."""
        near = Neighbourhoods(self.hypergraph, layer.config.neighbourhood)
        density = self._empty(*wx.shape[:2])

        def prepare(nodes: Tensor) -> tuple[Tensor, Tensor, Segments]:
            neighbours = near.of(nodes)
            with self._numbers(len(wx)) as numbers:
                numbers.add(nodes)
                numbers.add(neighbours.indices)
                some, places = wx[numbers.all()], numbers.of(neighbours.indices)
            return nodes, self._pinned(some), self._lined_up(Segments(neighbours.offsets, places))

        for nodes, some, segments in self._ahead(prepare, near.blocks(self.block)):
            sums = similarity_to(self._here(some), layer.config.delta, segments.map(self._here))
            density[nodes] = sums.cpu()
        return density

    def _crowd(self, density: Tensor | None) -> Tensor | None:
        """Return the densities of hyperedges, (9)."""
        if density is None:
            return None
        crowd = self._empty(self.hypergraph.n_hyperedges, density.shape[1])
        sum_blocks(density, self.hypergraph.by_hyperedge, None, None, None, crowd.__setitem__, self.block)
        return crowd

    def _scale(
        self, density: Tensor | None, values: Tensor, vector: Tensor, target: Tensor, segments: Segments
    ) -> Tensor | None:
        """Return what the density of senders adds to their scores, ρ̃ of (5), of all of them."""
        if density is None:
            return None
        source, bias = self._terms(values, vector), self._empty(*density.shape)
        peak = torch.full(density.shape[1:], -torch.inf, dtype=density.dtype)
        for block in blocks_of(segments, self.block):
            if len(block.segments.indices):
                incidence = Incidence.forward_only(block.segments, block.segments.owners())
                peak = torch.maximum(peak, highest_score(source, target[block.rows], incidence)[0])
        ends = torch.stack([density.amin(0), density.amax(0)])
        for rows in row_blocks(len(density), self.block):
            bias[rows] = scale_between(density[rows], peak, rounding(density.dtype), ends)
        return bias

    def _sum(
        self,
        values: Tensor,
        vector: Tensor,
        target: Tensor,
        bias: Tensor | None,
        segments: Segments,
        activation: bool,
        receive: Receive,
    ) -> None:
        """Sum the senders of each receiver by attention, (4) to (8), and hand the sums on block by block."""

        def prepare(block: Block) -> tuple[slice, Segments, Tensor, Tensor, Tensor | None]:
            indices = block.segments.indices
            with self._numbers(len(values)) as numbers:
                numbers.add(indices)
                sources, places = numbers.all(), numbers.of(indices)
            local = self._lined_up(Segments(block.segments.offsets, places))
            some, terms = self._pinned(values[sources]), self._pinned(target[block.rows])
            return block.rows, local, some, terms, None if bias is None else self._pinned(bias[sources])

        for rows, given, some, terms, added in self._ahead(prepare, blocks_of(segments, self.block)):
            local = given.map(self._here)
            sums = attend_rows(
                self._here(some),
                vector,
                self._here(terms),
                None if added is None else self._here(added),
                Incidence.forward_only(local, local.owners()),
                activation=activation,
            )
            receive(rows, sums)

    def _ahead(self, prepare: Callable[[Given], Made], blocks: Iterable[Given]) -> Iterator[Made]:
        """Yield what is prepared of each block, in order: for a GPU in several threads, while it computes."""
        workers = threads_beside(self.device)
        if workers == 1:
            return map(prepare, blocks)

        def prepare_apart(block: Given) -> Made:
            with one_thread():
                return prepare(block)

        return make_ahead(prepare_apart, blocks, 2 * workers, workers)

    @contextmanager
    def _numbers(self, count: int) -> Iterator[Numbers]:
        """Yield something that gives numbers, which no other thread uses meanwhile."""
        spare = self._spare.setdefault(count, [])
        try:
            numbers = spare.pop()
        except IndexError:
            numbers = Numbers(count)
        with numbers:
            yield numbers
        spare.append(numbers)

    def _pinned(self, tensor: Tensor) -> Tensor:
        """Return the same in memory that a GPU reads by itself, if there is one."""
        return tensor.pin_memory() if self.device.type == "cuda" else tensor

    def _lined_up(self, segments: Segments) -> Segments:
        """Return the same likewise, with the length that its kernels ask for."""
        if self.device.type == "cuda":
            _ = segments.longest
        return segments.map(self._pinned)

    def _here(self, tensor: Tensor) -> Tensor:
        """Return the same on the device; what is pinned the host does not wait for."""
        return tensor.to(self.device, non_blocking=True)

    def _project(
        self, factors: tuple[Factor, ...], results: tuple[Tensor, ...], site: int, rows: slice, some: Tensor
    ) -> None:
        """Write the products of some rows; what has no factor keeps what it has."""
        products = self.network.project(some.to(self.device).flatten(1).unsqueeze(1), factors, None, site)
        for result, product in zip(results, products, strict=False):
            result[rows] = product.view(-1, *result.shape[1:])

    def _terms(self, values: Tensor, vector: Tensor) -> Tensor:
        """Return the terms of rows in the attention scores: (s, heads, units) → (s, heads)."""
        terms, vector = self._empty(*values.shape[:2]), vector.cpu()
        for rows in row_blocks(len(values), self.few):
            terms[rows] = (values[rows] * vector).sum(-1)
        return terms

    def _rows_for(self, layer: DensityAwareAttention) -> _Rows:
        n, m = self.hypergraph.n_nodes, self.hypergraph.n_hyperedges
        return _Rows(self._empty(n, layer.heads, layer.out_features), self._empty(m, layer.heads))

    def _empty(self, *shape: int) -> Tensor:
        return self.room.empty(shape, self.dtype)
