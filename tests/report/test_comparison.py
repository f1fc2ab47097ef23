"""Tables of compared runs."""

from dpw.report.comparison import _within, count


def test_counts_are_readable():
    assert [count(n) for n in (None, 0, 512, 1_500, 30_800_000)] == ["-", "0", "512", "1.5 k", "30.8 M"]


def test_a_name_without_room_gets_a_line_of_its_own():
    table = [["method", "Avg"], ["dpw {training.iterations=20}", "59.9"], ["diki", "9.0"]]
    assert _within(table, 40) == [
        "method                         Avg",
        "dpw {training.iterations=20}  59.9",
        "diki                           9.0",
    ]
    assert _within(table, 16) == [
        "method   Avg",
        "dpw {training.iterations=20}",
        "        59.9",
        "diki     9.0",
    ]
