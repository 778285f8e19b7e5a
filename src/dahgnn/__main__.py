"""Let ``python -m dahgnn`` and ``dahgnn`` be the command line."""

import sys


def run() -> int:
    """Run a command; Ctrl-C is one line, too, while the command line itself is being imported."""
    try:
        from dahgnn.cli.commands import main
    except KeyboardInterrupt:
        print("dahgnn: interrupted.", file=sys.stderr)
        return 130
    return main()


if __name__ == "__main__":
    sys.exit(run())
