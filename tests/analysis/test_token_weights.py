"""Weights of tokens by block."""

from dpw import analysis
from tests.helpers.checks import nonempty


def test_weights_by_block_tell_learned_from_unseen(subject):
    data = analysis.weight_distribution(subject, learned=2)
    assert data.learned == [True, True, False]
    for total, share in nonempty(zip(data.total, data.prefix_share, strict=True)):
        assert all(value >= 0 for value in total)
        assert all(0 <= value <= 1 for value in share)
    assert any(value > 0 for row in data.adapter for value in row)


def test_cosines_of_prefix_and_adapter_are_cosines(subject):
    data = analysis.output_cosines(subject)
    assert data.tasks == subject.method.task_names
    assert all(-1 <= value <= 1 for row in nonempty([*data.weighted, *data.uniform]) for value in row)
