"""Where `ddpquiz` and `python -m ddpquiz` start. `--version` is answered before the command line parser is loaded."""

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
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # else Python complains once more at its end
            sys.exit(f"Standard output cannot be written: {error.strerror}.")
        return
    gc.set_threshold(50_000)  # modules and content make many objects and hardly any garbage; the default costs 10 %
    try:
        from ddpquiz.cli import early_start

        early_start.begin(sys.argv[1:])
        from ddpquiz.cli import app

        app.main()
    except KeyboardInterrupt:  # also while the rest is being loaded
        sys.exit(130)


if __name__ == "__main__":
    main()
