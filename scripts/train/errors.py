"""One-line errors for people: commands raise InputError, `run` prints it and exits 1."""

import sys
from collections.abc import Callable


class InputError(Exception):
    """Something the caller gave is missing or broken; the message says what, why and what to try."""


def run(main: Callable[[], None]) -> None:
    """Runs a command. InputError becomes one line on stderr and exit code 1; Ctrl-C exits 130."""
    try:
        main()
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("interrupted; run the same command again to go on from the last checkpoint", file=sys.stderr)
        sys.exit(130)
