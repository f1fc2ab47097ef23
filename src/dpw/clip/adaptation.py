"""What a method may add to one forward pass through a tower, place by place.

A subclass overrides the places it needs; each default adds nothing, and `None` in place of an adaptation is
plain CLIP. An adaptation serves one call: no hooks, no global state.
"""

from typing import ClassVar, Literal

from torch import Tensor

from dpw.clip.sequences import Positions

LinearName = Literal["query", "key", "value", "out", "fc1", "fc2"]


class Adaptation:
    """Adds nothing anywhere; the base of everything that does."""

    # Whether what a token gets depends only on the token and its position, so that prompts may share tokens
    # and a last block need not compute those that are never read. Needed in the text tower only.
    token_by_token: ClassVar[bool] = False

    def tokens(self, h: Tensor) -> Tensor:
        """Change or extend the embedded sequence before the first block.

        Images come with positions and before the first layer norm; prompts before positions are added.
        Tokens may be appended to images (CLS stays first) and replaced in prompts.
        """
        return h

    def mask(self, h: Tensor) -> Tensor | None:  # noqa: ARG002
        """A boolean attention mask `(N, N)`, true where a token (row) may look at another (column)."""
        return None

    def linear(self, block: int, name: LinearName, x: Tensor) -> Tensor | None:  # noqa: ARG002
        """A delta of one linear map of the block, token by token, for the same input x (LoRA).

        For `fc1` and `fc2` x may hold only some of the images.
        """
        return None

    @property
    def changes_linear_maps(self) -> bool:
        """Whether `linear` is overridden; if not, a block may take shorter ways."""
        return type(self).linear is not Adaptation.linear

    def keys_values(self, block: int, x: Tensor) -> tuple[Tensor, Tensor] | None:  # noqa: ARG002
        """Extra keys and values `(B or 1, L, D)` inside the block's softmax (prefix tuning)."""
        return None

    def value(self, block: int, x: Tensor, q: Tensor, positions: Positions) -> Tensor | None:  # noqa: ARG002
        """A residual `(B, N, D)` on the attention value, before the output projection (DPW, DIKI).

        x `(B, N, D)` is what attention sees, after the first layer norm; q `(B, h, N, D/h)` its query.
        These may be only some tokens of the sequence: `positions` says where they stand, an image's first
        token always being the first.
        """
        return None

    def mlp(self, block: int, u: Tensor) -> Tensor | None:  # noqa: ARG002
        """A residual `(B, N, D)` beside the MLP; u is the stream before the second layer norm."""
        return None
