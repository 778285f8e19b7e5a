"""Measure what a fit costs against the number of rows and of processes, and extrapolate.

    python benchmarks/scale.py --parts graph fit --sizes 100000 1000000 --out scale.jsonl
    python benchmarks/scale.py --parts mnist --mnist FOLDER --out scale.jsonl
    python benchmarks/scale.py --parts train --sizes 10000000 --device cuda --out scale.jsonl
    python benchmarks/scale.py --parts extrapolation --out scale.jsonl

Each measurement is made in a process of its own and becomes one JSON line of ``--out``, to which later runs
add. Tables of all lines come at the end. Rows are drawn once and kept in the folder ``--work``. The modules
of ``benchmarks/scale/`` say what the parts measure, and ``docs/notes/scale.md`` has what they gave.
"""

from __future__ import annotations

import sys

from scale.command import main

if __name__ == "__main__":
    sys.exit(main())
