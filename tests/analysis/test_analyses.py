"""Each analysis gives the data that its name promises."""

import itertools
import json
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dpw import analysis
from dpw.analysis.cls_scores import gaussian_distance
from dpw.analysis.queries import border_contrast, principal_plane, separation, token_cosines, umap_plane
from dpw.analysis.score_maps import stretch
from dpw.analysis.subject import open_prefixes, spread_rows
from dpw.errors import InputError
from dpw.runs.gathering import read_runs
from dpw.storage.run_folder import RunFolder


@given(st.integers(1, 1000), st.integers(1, 1000))
def test_rows_are_spread_in_order_and_never_twice(size, count):
    rows = spread_rows(size, count)
    assert len(rows) == min(size, count)
    assert all(a < b for a, b in itertools.pairwise(rows))
    assert 0 <= rows[0] <= rows[-1] < size


def test_the_model_after_some_tasks_is_the_model_as_it_was(subject):
    early = subject.after(2)
    assert early.method.task_names == subject.method.task_names[:2]
    for name, tensor in early.method.task_state(1).items():
        assert torch.equal(tensor, subject.method.task_state(1)[name])


# ------------------------------------------------------------------------------------------- queries


def test_cosines_of_equal_and_opposite_tokens_are_known():
    tokens = torch.tensor([[[1.0, 0], [2, 0], [0, 1], [-1, 0]]])
    relevant = torch.tensor([[True, True, False, False]])
    irrelevant = torch.tensor([[False, False, True, True]])
    within, across = token_cosines(tokens, relevant, irrelevant)
    assert within == pytest.approx(1.0)
    assert across == pytest.approx(-0.5)


def test_the_object_in_the_middle_is_what_differs_from_the_border():
    pixels = torch.full((1, 3, 9, 9), 200, dtype=torch.uint8)
    pixels[..., 3:6, 3:6] = 20
    assert border_contrast(pixels, 3).argmax() == 4


def test_query_similarity_has_four_values_for_each_block(subject):
    data = analysis.query_similarity(subject, "birds")
    for values in (data.within_before, data.across_before, data.within_after, data.across_after):
        assert len(values) == 2
        assert all(-1.001 <= value <= 1.001 for value in values)
    assert not (data.relevant & data.irrelevant).any()


def test_relevance_can_be_given(subject):
    marked = torch.tensor([[0.0, 0, 0, 1]]).repeat(len(subject.pixels(subject.tasks[0])), 1)
    assert analysis.query_similarity(subject, "birds", marked).relevant.tolist() == [
        False,
        False,
        False,
        True,
    ]


@given(st.integers(3, 20), st.integers(2, 6), st.integers(0, 1000))
def test_the_first_axis_of_the_plane_has_the_largest_variance(points, width, seed):
    generator = torch.Generator().manual_seed(seed)
    cloud = torch.randn(points, width, generator=generator, dtype=torch.float64)
    plane = principal_plane(cloud)
    assert plane[:, 0].var() >= plane[:, 1].var() - 1e-12
    distances = torch.linalg.vector_norm(plane, dim=1)
    assert bool((distances <= torch.linalg.vector_norm(cloud - cloud.mean(dim=0), dim=1) + 1e-9).all())


def test_separation_is_one_for_two_points_apart_and_zero_for_mixed_clouds():
    labels = torch.tensor([0, 0, 1, 1])
    assert separation(torch.tensor([[1.0, 0], [1, 0], [-1, 0], [-1, 0]]), labels) == pytest.approx(1)
    assert separation(torch.tensor([[1.0, 0], [-1, 0], [1, 0], [-1, 0]]), labels) == pytest.approx(0)


def test_token_plane_shows_both_tasks_before_and_after(subject):
    data = analysis.token_plane(subject, ("birds", "signs"), block=1)
    assert data.before.shape == data.after.shape == (len(data.labels), 2)
    assert set(data.labels.tolist()) == {0, 1}
    with pytest.raises(InputError, match="block 7 does not exist"):
        analysis.token_plane(subject, ("birds", "signs"), block=7)
    with pytest.raises(InputError, match="no task called 'cars'"):
        analysis.token_plane(subject, ("birds", "cars"))


def test_umap_is_an_extra():
    try:
        import umap  # noqa: F401
    except ImportError:
        with pytest.raises(InputError, match=r"dpw\[umap\]"):
            umap_plane(torch.zeros(4, 2))


# ---------------------------------------------------------------------------------------- score maps


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=9))
def test_maps_are_stretched_to_their_own_range(values):
    row = stretch(torch.tensor([values], dtype=torch.float64))
    assert row.min() == 0
    assert 0 <= row.max() <= 1


def test_score_maps_set_attention_beside_repa(subject, diki_run):
    alone = analysis.score_maps(subject, tasks=["birds", "metals"])
    assert alone.repa.shape == alone.attention.shape == (2, 2, 2)
    keys = open_prefixes(diki_run, subject)
    beside = analysis.score_maps(subject, tasks=["birds", "metals"], keys=keys)
    assert beside.attention_from == "DIKI's prefixes"
    assert torch.equal(alone.repa, beside.repa)
    assert not torch.equal(alone.attention, beside.attention)


# ------------------------------------------------------------------------------------- token weights


def test_weights_by_block_tell_learned_from_unseen(subject):
    data = analysis.weight_distribution(subject, learned=2)
    assert data.learned == [True, True, False]
    for total, share in zip(data.total, data.prefix_share, strict=True):
        assert all(value >= 0 for value in total)
        assert all(0 <= value <= 1 for value in share)
    assert any(value > 0 for row in data.adapter for value in row)


def test_cosines_of_prefix_and_adapter_are_cosines(subject):
    data = analysis.output_cosines(subject)
    assert data.tasks == subject.method.task_names
    assert all(-1 <= value <= 1 for row in [*data.weighted, *data.uniform] for value in row)


# ------------------------------------------------------------------------------------------ cut-offs


def test_the_dynamic_cutoff_on_all_images_gives_the_numbers_of_the_run(dpw_run):
    metrics = RunFolder(dpw_run).read_results()["metrics"]
    data = analysis.cutoff_comparison(analysis.open_run(dpw_run, images=1000), cutoffs=(0.0, 0.9))
    assert data.dynamic_last == pytest.approx(metrics["last"])
    assert data.dynamic_transfer == pytest.approx(metrics["transfer"])
    assert len(data.transfer) == len(data.last) == 2


# ---------------------------------------------------------------------------------------- CLS scores


def test_the_distance_of_normal_scores_is_small_and_of_others_large():
    normal = torch.randn(4000, generator=torch.Generator().manual_seed(0))
    assert gaussian_distance(normal) < 0.03
    assert gaussian_distance(normal.abs()) > 0.4
    assert gaussian_distance(torch.zeros(5)) == pytest.approx(0.5)


def test_cls_scores_of_the_training_images_have_mean_zero_and_variance_one(dpw_run):
    data = analysis.cls_scores(analysis.open_run(dpw_run, images=1000), "metals")
    assert data.standardised[1].mean().item() == pytest.approx(0, abs=1e-3)
    assert data.standardised[1].var(correction=0).item() == pytest.approx(1, abs=0.1)


# --------------------------------------------------------------------------- runs side by side, times


def test_points_over_prefix_lengths_come_from_results(dpw_run, diki_run):
    data = analysis.accuracy_by_prefix_length(read_runs([dpw_run, diki_run]))
    content = RunFolder(dpw_run).read_results()
    (point,) = data["dpw"]
    assert (point.length, point.parameters, point.mean) == (
        2,
        content["parameters"],
        content["metrics"]["mean"],
    )
    assert set(data) == {"dpw", "diki"}


def test_times_are_positive_and_named(subject):
    data = analysis.component_times(subject, repeats=1)
    assert len(data.names) == len(data.milliseconds) == 6
    assert all(value > 0 and math.isfinite(value) for value in data.milliseconds)


# ------------------------------------------------------------------------------------- all as files


def test_all_figures_are_written_as_png_svg_and_json(dpw_run, diki_run, tmp_path):
    named = []
    pictures = analysis.make_figures(dpw_run, tmp_path, beside=[diki_run], images=4, on_message=named.append)
    names = [name for name in analysis.FIGURES if name != "token-plane-umap"]
    assert named == names == [picture.name for picture in pictures]
    for name in names:
        assert (tmp_path / f"{name}.png").stat().st_size > 1000
        assert "<svg" in (tmp_path / f"{name}.svg").read_text()
        assert json.loads((tmp_path / f"{name}.json").read_text())


def test_mistakes_are_named(dpw_run, diki_run, tmp_path):
    with pytest.raises(InputError, match="no figure is called 'hist'"):
        analysis.make_figures(dpw_run, tmp_path, only=["hist"])
    with pytest.raises(InputError, match="is a run of 'diki'"):
        analysis.make_figures(diki_run, tmp_path)
    with pytest.raises(InputError, match="task 'cars' is not learned"):
        analysis.make_figures(dpw_run, tmp_path, tasks=("birds", "cars"))
    with pytest.raises(InputError, match="is a run of 'dpw', but only 'diki'"):
        open_prefixes(dpw_run, analysis.open_run(dpw_run))
