"""A real browser for the tests of pages; without one, they are skipped with a line that says how to install it."""

import shutil

import pytest
from playwright.sync_api import expect

NAMES = ("chromium", "chromium-browser", "google-chrome")
HOW = "no Chromium here; `apt-get install chromium` or your system's package manager installs one"
CHROMIUM = next((path for path in map(shutil.which, NAMES) if path), None)

expect.set_options(timeout=60_000)  # a busy machine may need more than the usual five seconds

needs_browser = [
    pytest.mark.skipif(CHROMIUM is None, reason=HOW),
    pytest.mark.xdist_group("browser"),  # one worker starts it
]


class Opened:
    """A page in the browser, and everything that it complained about or asked for."""

    def __init__(self, browser, **options):
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.complaints, self.requests = [], []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def goto(self, path, part=""):
        self.page.goto(path.as_uri() + part)
        self.page.wait_for_selector("html[data-ready]", state="attached")
        return self.page
