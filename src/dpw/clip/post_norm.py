"""Blocks whose norms stand behind attention and MLP (BERT), under the names of CLIP's own blocks."""

from typing import Any

from torch import Tensor


class PostNormBlock:
    """A BERT layer as `run_block` and the methods see a block: `self_attn`, `mlp`, and norms that do nothing.

    u = after_attention(h + attention(h)) and then after_mlp(u + MLP(u)).
    """

    def __init__(self, layer: Any) -> None:
        """Refer to the layer's own modules; nothing is copied."""
        attention = layer.attention
        self.self_attn = _Attention(attention.self, attention.output.dense)
        self.mlp = _MLP(layer.intermediate, layer.output.dense, attention.self.config)
        self.after_attention, self.after_mlp = attention.output.LayerNorm, layer.output.LayerNorm

    def layer_norm1(self, h: Tensor) -> Tensor:
        """The stream is normed already."""
        return h

    def layer_norm2(self, u: Tensor) -> Tensor:
        """The stream is normed already."""
        return u


class _Attention:
    """BERT's projections under CLIP's names."""

    def __init__(self, own: Any, out: Any) -> None:
        """Refer to the modules."""
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = own.query, own.key, own.value, out
        self.num_heads = own.num_attention_heads


class _MLP:
    """BERT's MLP under CLIP's names."""

    def __init__(self, intermediate: Any, out: Any, config: Any) -> None:
        """Refer to the modules."""
        self.fc1, self.fc2, self.config = intermediate.dense, out, config
        self.activation_fn = intermediate.intermediate_act_fn
