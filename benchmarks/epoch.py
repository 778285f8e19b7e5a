"""Time epochs and fits of ours and of peers, in one run, beside the least time there can be.

    python benchmarks/epoch.py [--device cpu|cuda] [--nodes 10000 100000] [--mnist FOLDER] [--fits]

This is ``dahgnn bench`` for a machine on which dahgnn is not installed but lies in ``src``; see ``--help``.
"""

import sys

from dahgnn.cli.commands import main

if __name__ == "__main__":
    sys.exit(main(["bench", *sys.argv[1:]]))
