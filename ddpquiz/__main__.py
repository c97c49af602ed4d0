"""The entry point of `ddpquiz` and `python -m ddpquiz`. `--version` does not need the command line parser."""

import atexit
import gc
import os
import sys

from ddpquiz import __version__


def main() -> None:
    """Run the command that the command line asks for."""
    if sys.platform == "win32":
        sys.exit("ddpquiz runs on Linux and macOS; on Windows, run it inside WSL.")
    if sys.argv[1:] == ["--version"]:
        try:
            print(__version__, flush=True)
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # otherwise Python prints another error when it exits
            sys.exit(f"Standard output cannot be written: {error.strerror}.")
        return
    gc.set_threshold(200_000)  # loading makes many objects and hardly any garbage; the default costs 10% of the time
    atexit.register(gc.freeze)  # otherwise the interpreter visits all objects again while it ends, for another 10%
    try:
        from ddpquiz.cli import early_start

        early_start.begin(sys.argv[1:])
        from ddpquiz.cli import app

        app.main()
    except KeyboardInterrupt:  # also during the imports
        sys.exit(130)


if __name__ == "__main__":
    main()
