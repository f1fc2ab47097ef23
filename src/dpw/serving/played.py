"""Keeping the page of `dpw play` open until a signal comes."""

from dpw.serving.desk import Desk
from dpw.serving.play import build, open_page
from dpw.serving.server import Say, asked_to_end, listen


def run(desk: Desk, host: str, port: int, browser: bool, say: Say) -> None:
    """Show the page of a desk and wait.

    Raises:
        InputError: the address cannot be used.
    """
    listen(host, port).close()  # a taken port is refused in one sentence
    page = build(desk)
    with asked_to_end() as ended:
        address = open_page(page, host=host, port=port, browser=browser)
        kind = "shown" if desk.read_only else "ready to be asked and taught"
        say(f"{desk.source} is {kind} at {address} (Ctrl-C ends it)")
        ended.wait()
        desk.end()
        page.close()
