"""The paper's equations as dense matrices and plain loops, and the small hypergraphs to try them on.

Written from the paper and not from the package, of which only the list of each hyperedge's members, its
centre, its weight and those of its members are used. Everything is float64 and differentiable.
"""

import itertools
import math
import random

import torch
from hypothesis import strategies as st

from dahgnn import Hypergraph

LEAKY_SLOPE = 0.2


def leaky_relu(value):
    return torch.where(value > 0, value, LEAKY_SLOPE * value)


def elu(value):
    return torch.where(value > 0, value, torch.expm1(value.clamp(max=0)))


def members(hypergraph):
    return [hypergraph.members(k).tolist() for k in range(hypergraph.n_hyperedges)]


def lists_of(segments, names):
    """The lists of segments in order, with the numbers that things have in the whole."""
    bounds = segments.offsets.tolist()
    return [sorted(names[segments.indices[a:b]].tolist()) for a, b in itertools.pairwise(bounds)]


def incidence_matrix(hypergraph):
    """H, with the weights of the incidences, which stand hyperedge by hyperedge, in place of its ones."""
    matrix = torch.zeros(hypergraph.n_nodes, hypergraph.n_hyperedges, dtype=torch.float64)
    weights = hypergraph.incidence_weights
    remaining = iter([1.0] * hypergraph.n_incidences if weights is None else weights.tolist())
    for hyperedge, nodes in enumerate(members(hypergraph)):
        for node in nodes:
            matrix[node, hyperedge] = next(remaining)
    return matrix


def hyperedge_weights(hypergraph):
    if hypergraph.weights is None:
        return torch.ones(hypergraph.n_hyperedges, dtype=torch.float64)
    return hypergraph.weights.double()


def inverse_root(degrees):
    """D^(-1/2) as a matrix; a degree of zero gives zero."""
    roots = [degree**-0.5 if degree > 0 else 0.0 for degree in degrees.tolist()]
    return torch.diag(torch.tensor(roots, dtype=torch.float64))


def convolution(features, theta, hypergraph, kind="typed"):
    """(1) and (2): the embeddings of nodes and of hyperedges; degrees are sums of weights."""
    h = incidence_matrix(hypergraph)
    w = torch.diag(hyperedge_weights(hypergraph))
    node_root = inverse_root((h @ w).sum(1))
    hyperedge_root = inverse_root(h.sum(0))
    first = hyperedge_root @ h.T @ node_root @ features @ theta
    second = node_root @ h @ w @ hyperedge_root @ first
    return (second, first) if kind == "typed" else (first, second)


def pyg_convolution(x, theta, pairs, weights):
    """D^(-1) H W B^(-1) Hᵀ X Θ of Bai et al. (2021), pair by pair; a node that is in none gets zeros."""
    wx = x @ theta
    rows = []
    for node in range(len(x)):
        total, degree = torch.zeros_like(wx[0]), 0
        for k in [k for i, k in pairs if i == node]:
            members = [i for i, hyperedge in pairs if hyperedge == k]
            total = total + weights[k] * sum(wx[i] for i in members) / len(members)
            degree = degree + weights[k]
        rows.append(total / degree if isinstance(degree, torch.Tensor) else total)
    return torch.stack(rows)


def neighbours(hypergraph, kind):
    """N(i) of each node, as sets."""
    found = [set() for _ in range(hypergraph.n_nodes)]
    for hyperedge, nodes in enumerate(members(hypergraph)):
        if kind == "centre" and hypergraph.centres is not None:
            found[int(hypergraph.centres[hyperedge])].update(nodes)
        else:
            for node in nodes:
                found[node].update(nodes)
    return [others - {node} for node, others in enumerate(found)]


def cosine(first, second):
    if bool((first == 0).all()) or bool((second == 0).all()):
        return first.new_zeros(())
    return (first @ second) / (first.norm() * second.norm())


def node_density(projected, hypergraph, delta, kind):
    """(3) for one head: (n, units) -> (n,)."""
    density = []
    for node, others in enumerate(neighbours(hypergraph, kind)):
        similarities = [cosine(projected[node], projected[other]) for other in others]
        density.append(sum([s for s in similarities if s > delta], projected.new_zeros(())))
    return torch.stack(density)


def hyperedge_density(density, hypergraph):
    """(9) for one head: (n,) -> (m,)."""
    return torch.stack([sum(density[node] for node in nodes) for nodes in members(hypergraph)])


def scaled_density(density, attention):
    """ρ̃ of (5) for one head: scaled to [0, max(attention)], zero where all densities are equal."""
    low, high = density.min(), density.max()
    if math.isclose(low.item(), high.item(), rel_tol=1e-12):
        return torch.zeros_like(density)
    highest = attention.max() if attention.max() > 0 else 0.0
    return (density - low) / (high - low) * highest


def softmax_sum(scores, rows):
    """Σ softmax(scores) · rows."""
    exponentials = [torch.exp(score) for score in scores]
    total = sum(exponentials)
    return sum(exponential / total * row for exponential, row in zip(exponentials, rows, strict=True))


def attend(source, target, alpha, groups, density, density_gradient):
    """Σ over each target's sources, by attention plus scaled density; without sources, zeros."""
    attention = {
        (i, k): leaky_relu(alpha @ torch.cat([source[i], target[k]]))
        for k, group in enumerate(groups)
        for i in group
    }
    scaled = source.new_zeros(len(source))
    if density is not None:
        scaled = scaled_density(density, torch.stack(list(attention.values())))
        scaled = scaled if density_gradient else scaled.detach()
    return torch.stack(
        [
            softmax_sum([attention[i, k] + scaled[i] for i in group], [source[i] for i in group])
            if group
            else torch.zeros_like(source[0])
            for k, group in enumerate(groups)
        ]
    )


def attention_head(
    x,
    e,
    weight,
    alpha_node,
    alpha_hyperedge,
    hypergraph,
    *,
    delta=0.4,
    density=True,
    neighbourhood="centre",
    density_gradient=False,
    final_activation=True,
):
    """(3) to (11) and Algorithm 1 for one head: X̃ and Ẽ."""
    wx, we = x @ weight, e @ weight
    nodes_of = members(hypergraph)
    hyperedges_of = [[k for k, group in enumerate(nodes_of) if i in group] for i in range(len(x))]
    of_nodes = node_density(wx, hypergraph, delta, neighbourhood) if density else None
    of_hyperedges = hyperedge_density(of_nodes, hypergraph) if density else None
    hyperedges = elu(attend(wx, we, alpha_node, nodes_of, of_nodes, density_gradient))
    nodes = attend(hyperedges, wx, alpha_hyperedge, hyperedges_of, of_hyperedges, density_gradient)
    return elu(nodes) if final_activation else nodes, hyperedges


def attention_layer(x, e, layer, hypergraph, **switches):
    """All heads with the parameters of a layer, concatenated."""
    parameters = zip(layer.weight, layer.attention_node, layer.attention_hyperedge, strict=True)
    heads = [attention_head(x, e, *head, hypergraph, **switches) for head in parameters]
    nodes, hyperedges = zip(*heads, strict=True)
    return torch.cat(nodes, 1), torch.cat(hyperedges, 1)


def network(features, model, hypergraph, *, kind="typed", final_activation=True, **switches):
    """The logits with the parameters of a model."""
    x, e = convolution(features, model.convolution.weight, hypergraph, kind)
    x, e = attention_layer(x, e, model.attention1, hypergraph, **switches)
    return attention_layer(x, e, model.attention2, hypergraph, final_activation=final_activation, **switches)[
        0
    ]


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def random_hyperedges(n_nodes, count, seed):
    chooser = random.Random(seed)
    return [chooser.sample(range(n_nodes), chooser.randint(1, 5)) for _ in range(count)]


def list_weights(hyperedges, seed):
    """A weight for each node of each hyperedge."""
    return [(normal(len(each), seed=seed + j).abs() + 0.2).tolist() for j, each in enumerate(hyperedges)]


def random_weights(count):
    return normal(count, seed=count).abs() + 0.3


# Nodes 3, 7 and 10 of eleven are in none of these.
SPARSE = [[0, 1, 2], [2, 4], [4, 5, 6, 8], [8, 9], [9]]
RAGGED = random_hyperedges(9, 6, seed=3)

HYPERGRAPHS = {
    "uniform": lambda: Hypergraph.from_features(normal(12, 3), k=3),
    "uniform, weighted": lambda: Hypergraph.from_features(normal(10, 2), k=4, weights=random_weights(10)),
    "ragged": lambda: Hypergraph.from_hyperedges(random_hyperedges(9, 7, seed=1), n_nodes=9),
    "more hyperedges than nodes": lambda: Hypergraph.from_hyperedges(
        random_hyperedges(8, 13, seed=2), n_nodes=8, weights=random_weights(13), cover_isolated=False
    ),
    "centred": lambda: Hypergraph.from_hyperedges(
        [[0, 1, 2, 5], [0, 2, 3], [4, 0, 6], [7, 1], [6, 3, 5, 7]], n_nodes=8, centres=[0, 0, 4, 1, 6]
    ),
    "incidence pairs": lambda: Hypergraph.from_incidence(
        [0, 5, 5, 2, 7, 1, 3, 3, 0, 6, 4, 2, 5], [2, 2, 2, 0, 0, 1, 1, 3, 3, 3, 4, 4, 0],
        n_nodes=8, n_hyperedges=5,
    ),
    "isolated, covered": lambda: Hypergraph.from_hyperedges(SPARSE, n_nodes=11, weights=random_weights(5)),
    "isolated": lambda: Hypergraph.from_hyperedges(
        SPARSE, n_nodes=11, weights=random_weights(5), cover_isolated=False
    ),
    "single nodes": lambda: Hypergraph.from_hyperedges([[0], [3], [1, 2, 3], [4], [4]], n_nodes=5),
    "only single nodes": lambda: Hypergraph.from_hyperedges([[2], [0], [2]], n_nodes=4),
    "all nodes": lambda: Hypergraph.from_hyperedges([range(8), [0, 1], [3], [2, 5, 6]], n_nodes=8),
    "weighted incidences": lambda: Hypergraph.from_hyperedges(
        RAGGED, n_nodes=9, weights=random_weights(6), incidence_weights=list_weights(RAGGED, seed=4)
    ),
    "weighted incidences, isolated": lambda: Hypergraph.from_hyperedges(
        SPARSE, n_nodes=11, incidence_weights=list_weights(SPARSE, seed=5), cover_isolated=False
    ),
    "one hyperedge": lambda: Hypergraph.from_hyperedges([[0, 1, 2, 4]], n_nodes=6, cover_isolated=False),
}  # fmt: skip
SQUARE = ("uniform", "uniform, weighted")

FEATURES = ("random", "equal rows", "zero rows")


def make_rows(kind, count, width, seed=0):
    """Embeddings of a kind, as leaves of the gradient."""
    rows = normal(count, width, seed=seed)
    if kind == "equal rows":
        rows[: (count + 1) // 2] = rows[0]
    elif kind == "zero rows":
        rows[::3] = 0
    return rows.requires_grad_()


def gradients(outputs, leaves):
    """Gradients of a fixed random combination of the outputs."""
    total = sum((output * normal(*output.shape, seed=17)).sum() for output in outputs)
    # An output may be constant, such as a density that nothing counts towards.
    total = total + sum((0 * leaf).sum() for leaf in leaves)
    return torch.autograd.grad(total, leaves, materialize_grads=True)


def assert_close(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-10)


def assert_same_gradients(actual, expected, leaves):
    """Compare outputs, then their gradients with respect to the leaves."""
    assert_close(actual, expected)
    assert_close(gradients(actual, leaves), gradients(expected, leaves))


@st.composite
def hypergraph_parts(draw):
    """Arguments of from_hyperedges: nodes, hyperedges, and either or both of centres and weights."""
    n_nodes = draw(st.integers(2, 9))
    groups = st.sets(st.integers(0, n_nodes - 1), min_size=1).map(sorted)
    hyperedges = draw(st.lists(groups, min_size=1, max_size=6))
    parts = {"n_nodes": n_nodes, "hyperedges": hyperedges}
    if draw(st.booleans()):
        parts["centres"] = [draw(st.sampled_from(group)) for group in hyperedges]
    if draw(st.booleans()):
        parts["weights"] = draw(
            st.lists(st.floats(0.5, 2), min_size=len(hyperedges), max_size=len(hyperedges))
        )
    return parts


@st.composite
def renumbered_parts(draw):
    """Parts; the old number of each new node and of each new hyperedge; the same parts renumbered."""
    parts = draw(hypergraph_parts())
    nodes = draw(st.permutations(range(parts["n_nodes"])))
    order = draw(st.permutations(range(len(parts["hyperedges"]))))
    renumbered = {
        "n_nodes": parts["n_nodes"],
        "hyperedges": [[nodes.index(i) for i in parts["hyperedges"][k]] for k in order],
    }
    if "centres" in parts:
        renumbered["centres"] = [nodes.index(parts["centres"][k]) for k in order]
    if "weights" in parts:
        renumbered["weights"] = [parts["weights"][k] for k in order]
    return parts, nodes, order, renumbered
