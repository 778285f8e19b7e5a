"""Which search finds the neighbours of so many rows: an estimate of what each costs."""

from __future__ import annotations

import importlib.util
import logging
import math

import torch

from dahgnn.checks import check_choice
from dahgnn.config import SEARCH_NAMES

logger = logging.getLogger(__name__)

# Seconds for each product of two numbers in an exact search, n² d in all. For 70,000 × 784 an H200 takes
# 0.23 s (docs/notes/speed.md), and two cores that multiply numbers of bfloat16 10.4 s. These take 27.7 s for
# 300,000 × 64: to choose the nearest takes as long as so many columns more.
_EXACT, _EXACT_ON_GPU, _CHOSEN = 2.6e-12, 5.6e-14, 60
# Seconds for each number of the lists that FAISS goes through. Rows are searched in the order of the lists,
# which are in the caches then. With what it takes to build them, two cores took 9 s for 300,000 × 64, and
# 393 s for 5,000,000 × 64 (docs/notes/scale.md).
_LISTED = 1.1e-10
# Cores on which these were measured.
_CORES = 2
# Probes that lists are expected to need; clustered rows need fewer, and rows of random numbers far more.
_PROBES = 16
# Lists of an index, as a multiple of √n.
LISTS = 4
# Links of a row in an HNSW graph, rows that are looked at when it gets them, and rows that a walk is expected
# to keep in view.
LINKS, CARE, _WIDTH = 16, 60, 64
# Seconds for a number of a row that a walk comes to, and for the row: memory is read at random. They follow
# from two graphs that were built and walked on two cores: 70,000 × 784 with 32 rows in view took 30 s (recall
# 0.993), and 300,000 × 64 with 64 rows in view 29 s (recall 0.967).
_WALKED, _VISITED = 4e-10, 4e-8
# How many times as long as lists, which miss some neighbours, an exact search may take.
_WORTH = 2
# Rows from which on a user is told that the exact search takes long.
_MANY = 500_000
# Bytes that a row needs on a GPU besides its features, which are there twice: a list of the nearest.
_BYTES_A_ROW = 1500
# Bytes that a GPU is taken to have, and the share of its free memory that is counted on.
_SMALL, _FREE_SHARE = 1 << 28, 0.8


def exact_seconds(n: int, d: int, device: torch.device | str = "cpu") -> float:
    """Estimate how long an exact search among n rows of d numbers takes."""
    on_gpu = torch.device(device).type == "cuda"
    return n**2 * (d + _CHOSEN) * (_EXACT_ON_GPU if on_gpu else _EXACT * _CORES / torch.get_num_threads())


def ivf_seconds(n: int, d: int, probes: int = _PROBES) -> float:
    """Estimate how long FAISS takes on the CPU to build √n · 4 lists and to search them for all rows."""
    lists = max(1.0, LISTS * math.sqrt(n))
    products = _EXACT * (2 * n * lists + 10 * 48 * lists**2) * 2 * (d + _CHOSEN)
    scanned = _LISTED * n * min(probes * n / lists, n) * d
    return (products + scanned) * _CORES / torch.get_num_threads()


def hnsw_seconds(n: int, d: int, width: int = _WIDTH) -> float:
    """Estimate how long FAISS takes on the CPU to link n rows, in one thread, and to walk for all of them."""
    linked, walked = n * CARE * LINKS, n * width * LINKS / torch.get_num_threads()
    return (linked + walked) * (_WALKED * d + _VISITED)


def choose_search(n: int, d: int, device: torch.device | str = "cpu", wanted: str = "auto") -> str:
    """Return the search to take: an exact one, unless it is expected to take far longer than lists.

    Parameters
    ----------
    n, d : int
        Rows and columns.
    device : torch.device or str
        Where an exact search would run. FAISS runs on the CPU.
    wanted : {"auto", "exact", "ivf", "hnsw"}
        What the user asks for; all but "auto" is returned as it is.

    Returns
    -------
    {"exact", "ivf", "hnsw"}
        "auto" is never "hnsw": whether lists need too many probes is only known once they are there, see
        `dahgnn.graph.approximate`.

    Examples
    --------
    >>> choose_search(10_000, 64), choose_search(5_000_000, 64, wanted="exact")
    ('exact', 'exact')
    """
    check_choice("wanted", wanted, SEARCH_NAMES, "choose_search")
    if wanted != "auto":
        return wanted
    fits = has_room(n * (8 * (d + 3) + _BYTES_A_ROW), torch.device(device))
    if fits and exact_seconds(n, d, device) <= _WORTH * ivf_seconds(n, d):
        return "exact"
    if importlib.util.find_spec("faiss") is None:
        if n >= _MANY:
            logger.warning(
                "All %d rows are compared with all others, which may take %.0f minutes. An approximate "
                "search needs FAISS: pip install 'dahgnn[large]'.",
                n,
                exact_seconds(n, d, device) / 60,
            )
        return "exact"
    return "ivf"


def has_room(size: int, device: torch.device) -> bool:
    """Tell whether a GPU has room for so many bytes; the CPU's memory is not looked at."""
    if device.type != "cuda" or size < _SMALL:  # a GPU that need not be asked may still be starting
        return True
    free, _ = torch.cuda.mem_get_info(device)
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return size < _FREE_SHARE * (free + kept)
