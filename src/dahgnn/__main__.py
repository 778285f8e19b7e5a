"""Let ``python -m dahgnn`` be the command line."""

import sys

from dahgnn.cli.commands import main

if __name__ == "__main__":
    sys.exit(main())
