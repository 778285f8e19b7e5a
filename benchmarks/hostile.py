"""Try to break dahgnn by seeded cases: broken files, odd tables, tampered folders, faults at every write.

``python benchmarks/hostile.py --cases 300 --seed 0`` prints what came of each kind of case, and for each
failure how to see it again; the exit status is then 1. The cases are in ``benchmarks/hostile/``, and what
they have found is in ``docs/notes/reliability.md``.
"""

from __future__ import annotations

import os
import sys

# One thread for every library; they read this when they are imported.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

from hostile.campaign import main  # noqa: E402, after the lines above

if __name__ == "__main__":
    sys.exit(main())
