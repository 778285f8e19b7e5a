"""All kinds of cases, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hostile.call_cases import odd_call
from hostile.experiment_cases import broken_features, broken_images, edited_runs, edited_spec
from hostile.fault_cases import faulty_disk, killed, signalled_start
from hostile.file_cases import absurd_shape, broken_file, other_clothes
from hostile.folder_cases import odd_folder
from hostile.hyperedge_cases import odd_hyperedges
from hostile.model_cases import swapped_files, tampered_model
from hostile.option_cases import odd_options
from hostile.picture_cases import odd_pictures
from hostile.table_cases import odd_table
from hostile.trial import Trial


@dataclass(frozen=True)
class Kind:
    """How a case of a kind runs, how many there are beside others, and whether it injects faults."""

    run: Callable[[Trial], None]
    weight: int
    needs_faults: bool = False


KINDS: dict[str, Kind] = {
    "files": Kind(broken_file, 16),
    "clothes": Kind(other_clothes, 6),
    "shapes": Kind(absurd_shape, 2),
    "tables": Kind(odd_table, 18),
    "pictures": Kind(odd_pictures, 4),
    "hyperedges": Kind(odd_hyperedges, 4),
    "options": Kind(odd_options, 12),
    "models": Kind(tampered_model, 12),
    "swaps": Kind(swapped_files, 2),
    "folders": Kind(odd_folder, 10),
    "calls": Kind(odd_call, 14),
    "specs": Kind(edited_spec, 5),
    "runs": Kind(edited_runs, 7),
    "features": Kind(broken_features, 2),
    "images": Kind(broken_images, 1),
    "faults": Kind(faulty_disk, 16, needs_faults=True),
    "kills": Kind(killed, 3),
    "starts": Kind(signalled_start, 1),
}
