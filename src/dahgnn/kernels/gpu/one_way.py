"""Launch the GPU kernels for one direction of a layer, which is what batches need.

The kernels are those of whole layers. They scale densities on the way; with ends of zero and one, what is
given stays as it is and is added to the scores.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from dahgnn.kernels.gpu.backward import node_kernel, prepare_targets
from dahgnn.kernels.gpu.density import density_kernel
from dahgnn.kernels.gpu.forward import Density
from dahgnn.kernels.gpu.forward import attend as attend_scaled
from dahgnn.kernels.gpu.programs import divide, launch
from dahgnn.kernels.gpu.tiles import COPIES, column_sums, spacing_of, unit_stride
from dahgnn.kernels.incidence import Incidence, Segments
from dahgnn.kernels.protocol import MessageSettings


def attend(
    values: Tensor,
    vector: Tensor,
    target: Tensor,
    bias: Tensor | None,
    incidence: Incidence,
    slope: float,
    *,
    activation: bool = True,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Sum the sources of each target by attention; see `Kernels.attend`."""
    values, target, vector = values.contiguous(), target.contiguous(), unit_stride(vector)
    density = None if bias is None else _unscaled(bias.contiguous())
    sums, *kept = attend_scaled(
        values, incidence.forward, target, (vector, vector, None), density,
        tolerance=0.0, slope=slope, activation=activation,
    )  # fmt: skip
    return sums, (*kept, *(density or ())[:3:2])


def _unscaled(bias: Tensor) -> Density:
    """Return what makes kernels add the bias as it is: densities from zero to one stay so up to one."""
    heads = bias.shape[1]
    ends = bias.new_ones(COPIES, spacing_of(heads))
    ends[:, :heads] = 0  # the least density, negated; the greatest one and the greatest score follow
    return Density(bias, ends, bias.new_empty(2, heads), None, None)


def attend_backward(
    gradient: Tensor,
    values: Tensor,
    vector: Tensor,
    target: Tensor,  # noqa: ARG001 (the kernels of the CPU use it)
    kept: Sequence[Tensor],
    incidence: Incidence,
    slope: float,
    *,
    activation: bool = True,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of the values, the vector and the target; see `Kernels.attend_backward`."""
    values, vector = values.contiguous(), unit_stride(vector)
    (sources, heads, units), (by_source, _) = values.shape, incidence.backward_order()
    of_targets, rest = tuple(kept[:3]), kept[3:]
    density, scale = rest or (None, None)
    blocks = divide(values, by_source)
    settings = MessageSettings(slope=slope, delta=None, tolerance=0.0, activation=activation)
    before, means, target_gradient = prepare_targets(gradient.contiguous(), of_targets, blocks, settings)
    # The kernel is for nodes, which are targets as well: here none of them is one.
    no_target = values.new_zeros(sources, heads)
    programs, of_values = blocks.grid[0], values.new_empty(values.shape)
    partial = values.new_empty(2 * programs, heads * units)
    launch(
        node_kernel, blocks.grid, by_source.offsets, by_source.indices, values, density, scale,
        before, of_targets[2], means, no_target, of_values, partial,
        vector, vector, vector.stride(0), vector.stride(0), sources, blocks.blocks,
        slope=slope, **blocks.sizes, warps=blocks.warps,
    )  # fmt: skip
    of_vector = values.new_empty(1, heads * units)
    column_sums(partial, of_vector, programs)
    return of_values, of_vector.view(heads, units), target_gradient


def similarity_sum(directions: Tensor, delta: float, neighbours: Segments) -> Tensor:
    """Sum the cosines over ``delta`` of rows with their neighbours; see `Kernels.similarity_sum`."""
    directions = directions.contiguous()
    rows, heads = len(neighbours), directions.shape[1]
    density, ends = directions.new_empty(rows, heads), directions.new_empty(COPIES, spacing_of(heads))
    blocks = divide(directions, neighbours)
    near = neighbours.offsets, neighbours.indices
    # All programs compute densities and none scores, so that it does not matter what stands in their place.
    launch(
        density_kernel, blocks.grid, *near, *near, directions, directions, directions, density, ends,
        rows, blocks.grid[0], heads, delta=float(delta), slope=0.0, copies=COPIES,
        spacing=spacing_of(heads), peak_rows=1, **blocks.sizes, warps=blocks.warps,
    )  # fmt: skip
    return density
