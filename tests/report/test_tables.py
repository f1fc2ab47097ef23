"""The tables of a report."""

import pytest

from dpw.report.tables import command_line


@pytest.mark.parametrize(
    ("recorded", "shown"),
    [
        ("/home/me/env/bin/dpw run mini", "dpw run mini"),
        ("'/home/my env/bin/dpw' run mini", "dpw run mini"),
        ("/x/dpw/__main__.py run mini --output /y/dpw", "dpw run mini --output /y/dpw"),
        ("script.py --from /x/dpw y", "script.py --from /x/dpw y"),
    ],
)
def test_a_command_is_shown_as_it_is_typed(recorded, shown):
    assert command_line(recorded) == shown
