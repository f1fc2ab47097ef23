"""Tables of compared runs."""

from dpw.report.comparison import count


def test_counts_are_readable():
    assert [count(n) for n in (None, 0, 512, 1_500, 30_800_000)] == ["-", "0", "512", "1.5 k", "30.8 M"]
