"""A report of finished runs: the numbers of results.json, in one page that needs nothing else."""

import csv
import itertools
import json
import shutil
import statistics
import sys

import pytest

from dpw.engine.metrics import summarize
from dpw.errors import InputError
from dpw.report import figures, tables, write_report
from dpw.report.page import SCRIPT
from dpw.runs.gathering import read_runs, sections
from dpw.runs.published import figures_of
from dpw.storage import files
from tests.helpers.checks import nonempty
from tests.helpers.report_reader import read_report
from tests.helpers.toy_runs import run as toy_run


@pytest.fixture(scope="module")
def page(report):
    return read_report(report)


def found(folder):
    return json.loads((folder / "results.json").read_text())


def rows_of(page, name):
    """A table's rows by their first cell."""
    return {row[0][0]: row[1:] for row in page.tables[name][1:]}


def test_the_summary_says_what_results_json_says(page, runs):
    rows = rows_of(page, "summary")
    metrics = ("transfer", "avg", "last", "mean", "forgetting", "zero_shot_loss")
    for method in ("diki", "finetune", "zero-shot"):
        content = found(runs / f"{method}-seed0")
        assert [value for _, value in rows[method]][:6] == [content["metrics"][name] for name in metrics]
        assert rows[method][6][1] == content["parameters"]


def test_seeds_are_averaged_and_their_deviation_is_shown(page, runs):
    last = [found(runs / f"dpw-seed{seed}")["metrics"]["last"] for seed in (0, 1)]
    text, value = rows_of(page, "summary")["dpw"][2]
    assert value == statistics.fmean(last)
    assert text == f"{statistics.fmean(last):.1f} ± {statistics.stdev(last):.1f}"


def written(report, name):
    """A table beside the page: names of rows, and numbers as they were written."""
    with (report.with_name("report_files") / f"{name}.csv").open() as file:
        return {row[0]: [float(cell) for cell in row[1:]] for row in list(csv.reader(file))[1:]}


def test_accuracy_matrices_are_those_of_the_runs(page, report, runs):
    content = found(runs / "diki-seed0")
    rows = written(report, "accuracy-diki")
    assert rows.pop("plain CLIP") == content["zero_shot"]
    assert rows == dict(zip(content["tasks"], content["accuracy"], strict=True))
    assert "accuracy-diki" in page.figures
    assert "accuracy-diki" not in page.tables  # one of the two is enough to read


def test_tasks_identified_add_up_to_all_images(page, report, runs):
    confusion = found(runs / "diki-seed0")["task_identification"]["confusion"]
    for row, expected in nonempty(zip(written(report, "tasks-diki").values(), confusion, strict=True)):
        assert row == [100 * count / sum(expected) for count in expected]
    assert "tasks-finetune" not in page.figures  # it never asks for a task


def test_every_figure_is_also_png_and_svg_and_every_table_csv(page, report):
    files = report.with_name("report_files")
    assert {path.stem for path in files.glob("*.png")} == set(page.figures)
    assert {path.stem for path in files.glob("*.svg")} == set(page.figures)
    assert set(page.tables) <= {path.stem for path in files.glob("*.csv")}
    wanted = {"accuracy-dpw", "over-time", "losses", "tasks-dpw", "parameters", "times"}
    assert wanted <= set(page.figures)
    assert {"summary", "per-task", "times", "configuration", "provenance"} <= set(page.tables)


def test_csv_tables_keep_all_digits(report, runs):
    with (report.with_name("report_files") / "accuracy-diki.csv").open() as file:
        rows = list(csv.reader(file))
    content = found(runs / "diki-seed0")
    assert rows[0] == ["After learning", *content["tasks"]]
    assert [[float(cell) for cell in row[1:]] for row in rows[2:]] == content["accuracy"]


def test_nothing_is_fetched_from_elsewhere(page, report):
    text = report.read_text()
    assert all(one.startswith(("#", "data:", "report_files/")) for one in nonempty(page.references))
    assert text.count("<script") == text.count(f"<script>{SCRIPT}</script>") == 1
    assert "@import" not in text
    for one in page.references:
        if one.startswith("report_files/"):
            assert (report.parent / one).is_file()
        if one.startswith("#"):
            assert f'id="{one[1:]}"' in text


def test_the_same_run_gives_the_same_page(runs, tmp_path):
    first, again = (write_report([runs / "zero-shot-seed0"], tmp_path / n / "report.html") for n in "ab")
    assert again.read_bytes() == first.read_bytes()


def changed_run(source, target, **changes):
    """A copy of a run that claims other things."""
    shutil.copytree(source, target)
    content = {**found(source), **changes}
    files.write_json(target / "results.json", content)
    return target


def test_runs_that_must_not_be_compared_get_chapters_of_their_own(runs, tmp_path):
    own = runs / "zero-shot-seed0"
    other = changed_run(own, tmp_path / "other", protocol="zscl")
    page = read_report(write_report([own, other], tmp_path / "two.html"))
    assert {"1-summary", "2-summary"} <= set(page.tables)
    assert sum("protocol zscl" in heading for heading in page.headings) == 1


def test_what_a_method_cannot_answer_is_a_dash_and_not_a_number(runs, tmp_path):
    content = found(runs / "zero-shot-seed0")
    matrix = [[v if j <= i else None for j, v in enumerate(row)] for i, row in enumerate(content["accuracy"])]
    metrics = summarize(matrix, content["zero_shot"])
    other = changed_run(runs / "zero-shot-seed0", tmp_path / "other", accuracy=matrix, metrics=metrics)
    page = read_report(write_report([other], tmp_path / "page.html"))
    assert rows_of(page, "summary")["zero-shot"][0] == ("–", None)
    with (tmp_path / "page_files" / "accuracy-zero-shot.csv").open() as file:
        assert list(csv.reader(file))[2][2:] == ["", ""]


def test_names_are_text_and_never_markup(runs, tmp_path):
    tasks = ["<script>alert(1)</script>", 'a"b', "ü & co"]
    other = changed_run(runs / "zero-shot-seed0", tmp_path / "other", tasks=tasks, model="<img src=x>")
    text = write_report([other], tmp_path / "names.html").read_text()
    assert text.count("<script") == 1  # the page's own
    assert "<img" not in text
    assert "&lt;script&gt;" in text


def test_equal_methods_are_told_apart_by_their_settings(runs, tmp_path):
    settings = {**found(runs / "dpw-seed0")["settings"], "settings": {"prefix_length": 4}}
    config = {**found(runs / "dpw-seed0")["method_config"], "prefix_length": 4}
    other = changed_run(runs / "dpw-seed0", tmp_path / "longer", settings=settings, method_config=config)
    (section,) = sections(read_runs([runs / "dpw-seed0", runs / "dpw-seed1", other]))
    assert [len(group.runs) for group in section.groups] == [2, 1]
    assert "prefix_length=4" in section.groups[1].label


def as_mtil(runs, target):
    """A run that claims to be MTIL, the benchmark of the published tables."""
    from dpw.benchmarks import get_benchmark

    tasks = [source.name for source in get_benchmark("mtil").tasks]
    size = len(tasks)
    matrix = [[50.0 + i + j for j in range(size)] for i in range(size)]
    metrics = summarize(matrix, matrix[0])
    confusion = [[int(i == j) for j in range(size)] for i in range(size)]
    return changed_run(
        runs / "dpw-seed0",
        target,
        benchmark="mtil",
        setting="task-incremental",
        tasks=tasks,
        shots=None,
        accuracy=matrix,
        zero_shot=matrix[0],
        metrics=metrics,
        parameters=30_800_000,
        task_identification={"accuracy": [100.0] * size, "confusion": confusion},
    )


def test_published_figures_stand_below_and_are_marked(runs, tmp_path):
    (section,) = sections(read_runs([as_mtil(runs, tmp_path / "mtil")]))
    rows = {row[0]: row[1:] for row in tables.summary(section).rows}
    for printed in nonempty(figures_of("mtil")):
        if printed.preset == "default":
            row = rows[f"{printed.method} (published)"]
            assert list(row[:3]) == [printed.transfer, printed.avg, printed.last]
            assert f"protocol {printed.protocol}" in row[-1]


def test_names_of_published_points_do_not_overlap(runs, tmp_path):
    (section,) = sections(read_runs([as_mtil(runs, tmp_path / "mtil")]))
    figure = figures.parameters_against_accuracy(section)
    figure.canvas.draw()
    boxes = [text.get_window_extent() for text in figure.axes[0].texts]
    assert len(boxes) > 5
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda folder: (folder / "results.json").unlink(), "is not finished: continue it with 'dpw resume"),
        (lambda folder: (folder / "results.json").write_bytes(b'{"format": 1, "met'), "is damaged"),
        (lambda folder: (folder / "results.json").write_text('{"hello": 1}'), "was not written by dpw"),
        (lambda folder: shutil.rmtree(folder), "there is no folder"),
    ],
)
def test_a_truncated_or_foreign_run_is_one_clear_sentence(runs, tmp_path, damage, sentence):
    folder = tmp_path / "run"
    shutil.copytree(runs / "zero-shot-seed0", folder)
    damage(folder)
    with pytest.raises(InputError, match=sentence) as error:
        write_report([folder], tmp_path / "report.html")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "report.html").exists()


def test_an_empty_folder_is_no_run(tmp_path):
    with pytest.raises(InputError, match="holds no finished run"):
        write_report([tmp_path], tmp_path / "report.html")


def test_the_page_must_be_called_html(runs, tmp_path):
    with pytest.raises(InputError, match=r"does not end in \.html"):
        write_report([runs], tmp_path / "report.pdf")


def test_without_matplotlib_the_way_to_get_it_is_named(runs, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r"pip install 'dpw\[report\]'"):
        write_report([runs], tmp_path / "report.html")


def test_a_folder_of_others_beside_the_page_is_refused_and_an_own_one_is_used_again(runs, tmp_path):
    theirs = tmp_path / "thesis_files" / "summary.csv"
    theirs.parent.mkdir()
    theirs.write_text("precious")
    with pytest.raises(InputError, match="dpw did not make it"):
        write_report([runs / "zero-shot-seed0"], tmp_path / "thesis.html")
    assert theirs.read_text() == "precious"
    for _ in range(2):
        write_report([runs / "zero-shot-seed0"], tmp_path / "report.html")


def test_a_single_task_has_no_plot_of_losses(toy, tmp_path):
    toy_run(toy, tmp_path / "one", method="zero-shot", settings={}, order=("birds",))
    text = write_report([tmp_path / "one"], tmp_path / "one.html").read_text()
    assert "1 finished run, written by" in text
    assert ", 1 task</h2>" in text
    assert "Accuracy of the task" in text
    assert "figure-losses" not in text
