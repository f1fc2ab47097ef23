"""A sweep says how far it is as a grid of runs does, so that one display shows both."""

from types import SimpleNamespace

from dpw.cli.cluster import cluster_lines
from dpw.cluster.sweep_progress import SweepProgress
from dpw.runs.status import cluster_status


class Point:
    """A point whose scores are given."""

    def __init__(self, number: int, scores: list[float]) -> None:
        self.number, self.held = number, scores

    def __str__(self) -> str:
        return f"{self.number:04d} dpw"

    def scores(self) -> list[float]:
        return self.held


def trial(number, status, **said):
    return SimpleNamespace(config={"point": number}, status=status, last_result=said)


def test_every_point_is_shown_with_who_learns_it_and_the_time_left(tmp_path):
    points, seen = [Point(0, [50.0]), Point(1, []), Point(2, [])], []
    progress = SweepProgress(points, tmp_path, 2, 2, seen.append)
    assert progress.snapshot([])["left"] is None, "what earlier commands have learned says nothing"
    points[0].held = [50.0, 60.0]
    progress.began -= 10
    trials = [trial(0, "TERMINATED"), trial(1, "RUNNING", pid=7, hostname="n1"), trial(2, "PENDING")]
    progress.tell(trials)
    progress.tell(trials)
    assert len(seen) == 1, "not more than once a second"
    assert 40 <= seen[0]["left"] < 41, "ten seconds for one task, four are left"
    lines = cluster_lines(seen[0])
    assert lines[0].startswith("1 of 3 runs ended, 2 workers, about 40 s left")
    assert "0001 dpw" in lines[2] and "learning 0/2" in lines[2] and "n1 (7): learn task 1" in lines[-1]
    assert cluster_status(tmp_path)["runs"] == seen[0]["runs"]
    progress.end()
    assert cluster_status(tmp_path) is None
