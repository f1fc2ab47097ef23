"""Every table of the paper names runs that can be carried out, and the rows it prints."""

import pytest

from dpw.benchmarks import list_benchmarks
from dpw.methods import METHODS, configure
from dpw.runs.paper_tables import TABLES, lines_of
from tests.helpers.checks import nonempty

BENCHMARKS = {benchmark.name for benchmark in list_benchmarks()}


@pytest.mark.parametrize("name", sorted(TABLES))
def test_rows_are_methods_presets_settings_and_benchmarks_that_exist(name):
    for line in nonempty(TABLES[name].lines):
        assert line.method in METHODS
        assert line.benchmark in BENCHMARKS
        configure(line.method, line.preset, line.settings)
        if line.printed is not None:
            assert (line.printed.method, line.printed.protocol) == (line.method, line.protocol)


def test_the_tables_of_the_paper_are_all_there():
    wanted = "mtil mtil-order2 odcl-cil mtil-fs ablations scores condact cutoff prefix-length adapter-weight "
    wanted += "adapter heads throughput figures"
    assert set(TABLES) == set(wanted.split())


def test_printed_rows_stand_under_their_own_rule_and_protocol():
    rows = {line.method: line for line in TABLES["odcl-cil"].lines}
    assert (rows["dpw"].benchmark, rows["dpw"].protocol) == ("odcl-cil", "coop")
    assert (rows["zscl"].benchmark, rows["zscl"].protocol) == ("odcl-cil-merged", "zscl")


def test_rows_with_the_same_settings_share_their_run():
    """Softmax is RePA alone, attention scores are the method without any module; both are printed twice."""
    scores, none = TABLES["scores"].lines[0], TABLES["ablations"].lines[0]
    assert (scores.label, none.label) == ("dpw scores-attention", "dpw none")
    assert scores.preset == none.preset == "ablation/none"
    assert (scores.printed.last, none.printed.last) == (85.2, 85.9)


def test_a_variant_that_is_the_method_itself_shares_its_run():
    labels = [line.label for line in TABLES["condact"].lines]
    assert labels == ["dpw softmax", "dpw sigmoid", "dpw conditional-norm", "dpw"]
    assert TABLES["condact"].lines[-1].printed.last == 88.3
    assert TABLES["condact"].lines[0].preset == "ablation/repa"
    everything = lines_of("all")
    assert len({(x.method, x.preset, str(x.settings), x.benchmark, x.protocol) for x in everything}) == len(
        everything
    )
    assert len(everything) < sum(len(table.lines) for table in TABLES.values())


def test_figures_have_the_runs_that_the_papers_figures_compare():
    """Scores of DIKI, and an adapter that was learned with a uniform weight."""
    runs = [(line.method, line.preset) for line in TABLES["figures"].lines]
    assert runs == [("dpw", "default"), ("diki", "default"), ("dpw", "ablation/weight-uniform")]
