"""Let ``python -m dahgnn`` and ``dahgnn`` be the command line."""

import signal
import sys


def run() -> int:
    """Run a command; Ctrl-C is one line, too, while the command line itself is being imported."""
    try:
        from dahgnn.cli.commands import main
    except KeyboardInterrupt:
        print("dahgnn: interrupted.", file=sys.stderr)
        return 130
    status = main()
    # All is done, and said. A signal while the interpreter ends would only have libraries complain.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    return status


if __name__ == "__main__":
    sys.exit(run())
