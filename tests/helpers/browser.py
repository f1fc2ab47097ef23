"""A real browser for tests of pages: Debian's chromium by playwright, which may reach this machine alone."""

import shutil
from contextlib import contextmanager
from importlib.util import find_spec

BROWSER = next((found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))), None)
MISSING = (
    "no chromium is installed (make browser)"
    if BROWSER is None
    else "playwright is not installed (make browser)"
    if find_spec("playwright") is None
    else ""
)


@contextmanager
def browsing():
    """A started chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=BROWSER,
            args=["--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"],
        )
        try:
            yield browser
        finally:
            browser.close()


class Visit:
    """One person's page, with every request and every console error noted."""

    def __init__(self, browser, address, **options):
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(60_000)
        self.requests, self.errors = [], []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda m: self.errors.append(m.text) if m.type == "error" else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto(address)

    def outside(self):
        """Addresses of other machines that were asked for."""
        ours = ("http://127.0.0.1", "data:", "blob:", "ws://127.0.0.1")
        return [url for url in self.requests if not url.startswith(ours)]

    def close(self):
        self.context.close()
