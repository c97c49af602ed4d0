"""Where `ddpquiz` and `python -m ddpquiz` start. `--version` is answered before the command line parser is loaded."""

import gc
import sys

from ddpquiz import __version__


def main() -> None:
    """Run the command that the command line asks for."""
    if sys.platform == "win32":
        sys.exit("ddpquiz runs on Linux and macOS; on Windows, run it inside WSL.")
    if sys.argv[1:] == ["--version"]:
        print(__version__)
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
