"""`dpw` and `python -m dpw`, which is also how `accelerate launch -m dpw` starts several processes."""

import os
import signal
import sys


def _fill_streams() -> None:
    """Let no file that is opened later take the place of a standard stream that came closed."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)


def main() -> None:
    """Bring the command line up; a signal that comes before it is up ends quietly with the customary code."""
    _fill_streams()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: os._exit(128 + number))
    from dpw.cli import main as command_line

    command_line()


if __name__ == "__main__":
    main()
    sys.exit(0)
