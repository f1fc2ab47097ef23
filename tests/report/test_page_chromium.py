"""The report in a real browser, where one is installed: it stays silent, stays at home, and is all there."""

import re
import shutil
import subprocess

import numpy as np
import pytest
from PIL import Image

from tests.helpers.report_reader import read_report

BROWSER = next((found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))), None)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--enable-logging=stderr",
]
NOWHERE = "--host-resolver-rules=MAP * ~NOTFOUND"

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium is installed")


def browse(page, profile, *flags):
    """What the browser says: its standard output, and the lines its console got."""
    command = [BROWSER, *FLAGS, NOWHERE, f"--user-data-dir={profile}", *flags, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def test_no_console_error_and_everything_is_there(report, tmp_path):
    seen, console = browse(report, tmp_path / "profile", "--dump-dom")
    assert console == []
    (tmp_path / "seen.html").write_text(seen, encoding="utf-8")
    shown, written = read_report(tmp_path / "seen.html"), read_report(report)
    assert shown.tables == written.tables
    assert shown.figures == written.figures
    assert len(re.findall("<svg", seen)) == len(written.figures)


def test_this_test_would_notice_a_request(report, tmp_path):
    page = tmp_path / "leaky.html"
    page.write_text(report.read_text().replace("<main>", '<main><img src="http://example.invalid/x.png">'))
    _, console = browse(page, tmp_path / "profile", "--dump-dom")
    assert console


def test_nothing_but_tables_and_figures_scrolls_on_a_phone(report, tmp_path):
    page = tmp_path / "measured.html"
    script = "<script>document.title = document.documentElement.scrollWidth + ' of ' + innerWidth</script>"
    text = report.read_text().replace("</body>", f"{script}</body>")
    page.write_text(re.sub(r"<meta http-equiv[^>]*>", "", text))
    seen, _ = browse(page, tmp_path / "profile", "--dump-dom", "--window-size=390,844")
    width, window = map(int, re.search(r"<title>(\d+) of (\d+)</title>", seen).groups())
    assert width <= window


@pytest.mark.parametrize(
    ("name", "size", "flags"),
    [
        ("light", "1100,1400", ()),
        ("dark", "1100,1400", ("--blink-settings=preferredColorScheme=0",)),
        ("phone", "390,844", ()),
    ],
)
def test_screenshots_in_light_dark_and_phone_width(report, tmp_path, name, size, flags):
    target = tmp_path / f"{name}.png"
    browse(report, tmp_path / "profile", f"--screenshot={target}", f"--window-size={size}", *flags)
    pixels = np.asarray(Image.open(target).convert("L"))
    assert pixels.shape[1] == int(size.split(",")[0])
    background = np.median(pixels)
    assert background < 60 if name == "dark" else background > 240
    assert pixels.std() > 5  # something is drawn on it
