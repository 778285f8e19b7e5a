"""What all formats share: names, losses, and that no library is imported before its turn."""

import subprocess
import sys

import pytest
import torch
from interchange_cases import assert_same, build, named

from dahgnn import export_hypergraph, import_hypergraph
from dahgnn.graph.interchange.registry import INTERCHANGES, LOSSES


def test_an_unknown_name_is_refused_with_a_suggestion():
    words = "'kind' parameter of {} must be one of 'hif', .* Got 'hypernet'. Did you mean 'hypernetx'?"
    with pytest.raises(ValueError, match=words.format("import_hypergraph")):
        import_hypergraph(None, "hypernet")
    with pytest.raises(ValueError, match=words.format("export_hypergraph")):
        export_hypergraph(build(), "hypernet")
    with pytest.raises(TypeError, match="'hypergraph'.* a Hypergraph. Got list"):
        export_hypergraph([], "hif")
    with pytest.raises(TypeError, match="'lossy'.* True or False"):
        export_hypergraph(build(), "hif", lossy=1)


def test_hif_is_one_of_them():
    first = build(weights=True, incidence_weights=True, names=named(labels="rgbrgb", empty=["none"]))
    assert_same(import_hypergraph(export_hypergraph(first, "hif"), "hif", cover_isolated=False), first)


def test_each_loss_is_noticed():
    lost = {name for each in INTERCHANGES.values() for name in each.loses}
    assert lost == set(LOSSES)
    everything = build(weights=True, incidence_weights=True, names=named(empty=["none"])).to_pairs()
    nothing = build(equal=False, isolated=False).to_pairs()
    for name, has in LOSSES.items():
        assert has(everything), name
        assert not has(nothing), name


def test_hyperedges_that_cover_isolated_nodes_are_not_exported():
    first = build(names=named(), weights=True)
    covered = import_hypergraph(export_hypergraph(first, "hif"), "hif")
    assert covered.n_hyperedges == first.n_hyperedges + 2
    pairs = covered.to_pairs()
    assert pairs.n_hyperedges == first.n_hyperedges
    assert_same(import_hypergraph(covered.to_hif(), "hif", cover_isolated=False), first)


def test_a_hypergraph_comes_from_any_device():
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    first = build(weights=True, incidence_weights=True)
    assert_same(
        import_hypergraph(export_hypergraph(first.to("cuda"), "hif"), "hif", cover_isolated=False), first
    )


def test_no_library_is_imported_before_its_turn():
    theirs = [
        "dhg",
        "xgi",
        "hypernetx",
        "hypergraphx",
        "networkx",
        "pandas",
        "pyarrow",
        "torch_geometric",
        "scipy",
    ]
    code = (
        "import sys, torch; before = set(sys.modules)\n"
        "from dahgnn import Hypergraph, import_hypergraph, export_hypergraph\n"
        "import_hypergraph(export_hypergraph(Hypergraph.from_hyperedges([[0]], n_nodes=1), 'hif'), 'hif')\n"
        f"print([name for name in {theirs} if name in sys.modules and name not in before])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
