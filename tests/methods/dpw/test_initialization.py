"""Initial values are those of the authors' code."""

import pytest
import torch

from dpw.methods.dpw import initialization
from tests.helpers.checks import nonempty
from tests.helpers.golden_cases import align, assert_close, load, names


@pytest.mark.parametrize("name", names("i_init", "e_i_init"))
def test_initialisation(name):
    case, meta = load(name)
    width, prefixes = meta["embed_dim"], meta["prefix_len"]
    query, key, value = case["in_proj_weight"].chunk(3)
    for task, heads in nonempty(enumerate(meta["prefix_heads"])):
        expected = case[f"out_repa_weight_task{task}"]
        if meta["variant"] == "reduced":
            generator = torch.Generator().manual_seed(meta["torch_seed_before_each_init_attn"][task])
            ours = initialization.orthogonal_heads(heads, width // heads, prefixes, generator)
            assert_close(ours, expected, "W^G of the reduced variant")
        else:
            columns = initialization.singular_vectors(query @ key.T)[0][:, : heads * prefixes]
            theirs = expected.transpose(0, 1).reshape(width, heads * prefixes)
            assert_close(align(columns, theirs), theirs, "W^G")
        bias = -2.0 if meta["text"] else -4.0
        assert_close(
            torch.full_like(case[f"out_repa_bias_task{task}"], bias), case[f"out_repa_bias_task{task}"]
        )
    left, right = initialization.singular_vectors(value)
    vectors = left[:, :prefixes] * value.norm(dim=0).mean()
    assert_close(align(vectors, case["out_prefix_pool"][0].T), case["out_prefix_pool"][0].T, "P_V")
    down = case["adapter_down_if_from_loaded_weights"]
    assert_close(align(right[:, : meta["rank"]], down), down, "D by the paper")
    unloaded = case["in_proj_weight_at_construction"].chunk(3)[2]
    down = case["out_adapter_down"]
    frame = initialization.singular_vectors(unloaded)[1][:, : meta["rank"]]
    # Singular vectors of close singular values: the last digits belong to the linear algebra library.
    assert_close(align(frame, down), down, "D by the released code, before the weights are loaded", 2e-5)
