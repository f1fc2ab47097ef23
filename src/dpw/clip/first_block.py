"""The beginning of both towers, kept while a task is trained because nothing learned reaches it.

What goes into the first block, its queries and its attention value are plain CLIP's where an adaptation acts
on the value or later (DPW, DIKI), so they are the same in every epoch.
"""

import hashlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from dpw.clip.adaptation import Adaptation
from dpw.clip.blocks import Begun, begin_block
from dpw.clip.sequences import AllTokens, PackedPrompts

ROOM = 2**30  # bytes for images


class KeptFirstBlock:
    """What the first blocks of both towers have begun with, by image and for the latest prompts.

    Every image is computed by itself, so that its digits do not depend on the batch it was first seen in,
    and a training that is resumed ends in the same bytes.
    """

    def __init__(self, images: int, size: int) -> None:
        """Nothing is kept yet; images of so many numbers will be if all that come again have room."""
        self.most = images if images * size * len(Begun._fields) * 4 <= ROOM else 0
        self._images: dict[bytes, Begun] = {}
        self._prompts: tuple[PackedPrompts, Begun] | None = None

    @property
    def keeps_images(self) -> bool:
        """Whether images are worth asking for."""
        return self.most > 0

    def images(self, pixels: Tensor, block: Any, embed: Callable[[Tensor], Tensor]) -> Begun:
        """Of uint8 pixels `(B, 3, H, W)` in main memory; `embed` gives what goes into the first block."""
        keys = [hashlib.blake2b(one.numpy().data, digest_size=16).digest() for one in pixels.contiguous()]
        begun = [
            self._images.get(key) or self._begin(key, one, block, embed)
            for key, one in zip(keys, pixels, strict=True)
        ]
        streams, queries, values = zip(*begun, strict=True)
        return Begun(torch.cat(streams), torch.cat(queries), torch.cat(values))

    def _begin(self, key: bytes, one: Tensor, block: Any, embed: Callable[[Tensor], Tensor]) -> Begun:
        """One image that is not kept yet, and will be as long as there is room."""
        with torch.inference_mode(mode=False), torch.no_grad():  # what is kept may be used in any pass
            h = embed(one[None])
            begun = begin_block(block, h, AllTokens(h.shape[1]))
        if len(self._images) < self.most:
            self._images[key] = begun
        return begun

    def prompts(self, prompts: PackedPrompts, block: Any, embed: Callable[[], Tensor]) -> Begun:
        """Of a class list; the latest is kept, since a training asks for one alone."""
        kept = self._prompts
        if kept is None or kept[0] is not prompts:
            with torch.inference_mode(mode=False), torch.no_grad():
                kept = self._prompts = prompts, begin_block(block, embed(), prompts)
        return kept[1]


def starts_as_plain(adaptation: Adaptation | None) -> bool:
    """Whether a tower with this adaptation is plain CLIP until the value of its first block."""
    earlier = ("tokens", "mask", "linear", "keys_values")
    return all(getattr(type(adaptation), place, None) is getattr(Adaptation, place) for place in earlier)
