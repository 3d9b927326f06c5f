"""One-line errors for people: commands raise InputError, `run` prints it and exits 1."""

import sys
from collections.abc import Callable

OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "not enough memory")  # in PyTorch's RuntimeErrors, GPU and CPU


class InputError(Exception):
    """Missing or invalid input. The message says what failed, why, and what to try."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether Python, NumPy or PyTorch could not get the memory it asked for."""
    message = str(error).lower()
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and any(words in message for words in OUT_OF_MEMORY))


def run(main: Callable[[], None]) -> None:
    """Runs a command. InputError, a failing file and too little memory become one line on stderr and exit code 1; Ctrl-C exits 130."""
    try:
        main()
    except InputError as error:
        stop(str(error))
    except OSError as error:
        stop(f"{error}; look at the path's rights and the disk's free space")
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        stop("out of memory; try a smaller --batch or --context, a smaller checkpoint, or --device cpu where there is a GPU")
    except KeyboardInterrupt:
        print("interrupted; run the same command again to go on from the last checkpoint", file=sys.stderr)
        sys.exit(130)


def stop(message: str) -> None:
    """Ends the command with one line."""
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(1)
