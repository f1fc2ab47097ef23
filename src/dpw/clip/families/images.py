"""How image towers are entered and left: by a [CLS] token, or by attention over all patches."""

from typing import Any, Protocol

from torch import Tensor

from dpw.clip.sequences import AllTokens, FirstToken, Sequences


class ImageSide(Protocol):
    """The two ends of an image tower; `clip` is the transformers model."""

    class_tokens: int  # how many tokens stand before the patches

    def enter(self, clip: Any, h: Tensor) -> Tensor:
        """Embedded tokens as the first block gets them."""
        ...

    def last_block(self, count: int, mask: Tensor | None) -> Sequences:
        """Those of `count` tokens that the last block has to compute."""
        ...

    def pool(self, clip: Any, h: Tensor) -> Tensor:
        """Features `(B, E)` from the image's own tokens after the last block, or the first of them."""
        ...

    def project(self, clip: Any, h: Tensor) -> Tensor:
        """Features `(..., E)` of single tokens `(..., D)`, each as if it alone were the image."""
        ...

    def linear_part(self, clip: Any) -> tuple[Tensor, Tensor]:
        """The weight `(E, D)` of the linear map from token to feature, and the scale `(D,)` before it."""
        ...

    def width(self, clip: Any) -> int:
        """Width of a feature."""
        ...


class ClassToken:
    """The feature is read at [CLS], normed and projected (CLIP, MetaCLIP 2, Chinese-CLIP, AltCLIP)."""

    class_tokens = 1

    def enter(self, clip: Any, h: Tensor) -> Tensor:
        """A layer norm stands before the first block."""
        normed: Tensor = clip.vision_model.pre_layrnorm(h)
        return normed

    def last_block(self, count: int, mask: Tensor | None) -> Sequences:  # noqa: ARG002
        """Only [CLS] is read."""
        return FirstToken(mask)

    def pool(self, clip: Any, h: Tensor) -> Tensor:
        """The projected [CLS]."""
        return self.project(clip, h[:, 0])

    def project(self, clip: Any, h: Tensor) -> Tensor:
        """Last layer norm and projection."""
        features: Tensor = clip.visual_projection(clip.vision_model.post_layernorm(h))
        return features

    def linear_part(self, clip: Any) -> tuple[Tensor, Tensor]:
        """The visual projection."""
        return clip.visual_projection.weight, clip.vision_model.post_layernorm.weight

    def width(self, clip: Any) -> int:
        """Rows of the projection."""
        return int(clip.config.projection_dim)


class AttentionPooling:
    """All patches are normed and pooled by the attention of one learned query (SigLIP)."""

    class_tokens = 0

    def enter(self, clip: Any, h: Tensor) -> Tensor:  # noqa: ARG002
        """Nothing stands before the first block."""
        return h

    def last_block(self, count: int, mask: Tensor | None) -> Sequences:
        """All tokens are read."""
        return AllTokens(count, mask)

    def pool(self, clip: Any, h: Tensor) -> Tensor:
        """What the learned query finds; tokens that a method put behind the patches are not asked."""
        own = h[:, : clip.vision_model.embeddings.num_positions]
        features: Tensor = clip.vision_model.head(clip.vision_model.post_layernorm(own))
        return features

    def project(self, clip: Any, h: Tensor) -> Tensor:
        """The pooling of one token, of which the query takes all."""
        alone = h.reshape(-1, 1, h.shape[-1])
        features: Tensor = clip.vision_model.head(clip.vision_model.post_layernorm(alone))
        return features.view(*h.shape[:-1], -1)

    def linear_part(self, clip: Any) -> tuple[Tensor, Tensor]:
        """Value and output map of the pooling attention; the MLP behind them only adds to it."""
        attention, width = clip.vision_model.head.attention, self.width(clip)
        value = attention.in_proj_weight[2 * width :]
        return attention.out_proj.weight @ value, clip.vision_model.post_layernorm.weight

    def width(self, clip: Any) -> int:
        """That of the image tower."""
        return int(clip.config.vision_config.hidden_size)
