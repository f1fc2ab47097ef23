"""The beginning of both towers, kept while a task is trained because nothing learned reaches it.

What goes into the first block, its queries and its attention value are plain CLIP's where an adaptation acts
on the value or later (DPW, DIKI), so they are the same in every epoch.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from dpw.clip.adaptation import Adaptation
from dpw.clip.blocks import Begun, begin_block
from dpw.clip.sequences import AllTokens, PackedPrompts

ROOM = 2**30  # bytes for images


class KeptFirstBlock:
    """What the first blocks of both towers have begun with, by image and for the latest prompts.

    Images are computed in batches that are always the same, or by themselves, so that their digits do not
    depend on when they were first seen, and a training that is resumed ends in the same bytes.
    """

    def __init__(self, images: int, size: int, batches: Iterable[Tensor] = ()) -> None:
        """Nothing is kept yet; images of so many numbers will be if all that come again have room.

        `batches` gives their pixels in an order that never changes, and is asked when the first image is.
        """
        self.most = images if images * size * len(Begun._fields) * 4 <= ROOM else 0
        self._batches = batches
        self._images: dict[bytes, Begun] = {}
        self._prompts: tuple[PackedPrompts, Begun] | None = None

    @property
    def keeps_images(self) -> bool:
        """Whether images are worth asking for."""
        return self.most > 0

    def images(self, pixels: Tensor, block: Any, embed: Callable[[Tensor], Tensor]) -> Begun:
        """Of uint8 pixels `(B, 3, H, W)` in main memory; `embed` gives what goes into the first block."""
        batches, self._batches = self._batches, ()
        for batch in batches:
            self._begin(_keys(batch), batch, block, embed)
        keys = _keys(pixels)
        begun = [
            self._images.get(key) or self._begin([key], one[None], block, embed)[0]
            for key, one in zip(keys, pixels, strict=True)
        ]
        streams, queries, values = zip(*begun, strict=True)
        return Begun(torch.cat(streams), torch.cat(queries), torch.cat(values))

    def _begin(
        self, keys: Sequence[bytes], pixels: Tensor, block: Any, embed: Callable[[Tensor], Tensor]
    ) -> list[Begun]:
        """Images that are not kept yet, and will be as long as there is room."""
        with torch.inference_mode(mode=False), torch.no_grad():  # what is kept may be used in any pass
            h = embed(pixels)
            every = begin_block(block, h, AllTokens(h.shape[1]))
        begun = [Begun(*(part[row : row + 1] for part in every)) for row in range(len(pixels))]
        room = self.most - len(self._images)
        self._images.update(list(zip(keys, begun, strict=True))[:room])
        return begun

    def prompts(self, prompts: PackedPrompts, block: Any, embed: Callable[[], Tensor]) -> Begun:
        """Of a class list; the latest is kept, since a training asks for one alone."""
        kept = self._prompts
        if kept is None or kept[0] is not prompts:
            with torch.inference_mode(mode=False), torch.no_grad():
                kept = self._prompts = prompts, begin_block(block, embed(), prompts)
        return kept[1]


def _keys(pixels: Tensor) -> list[bytes]:
    """What tells images apart: a digest of their pixels."""
    return [hashlib.blake2b(one.numpy().data, digest_size=16).digest() for one in pixels.contiguous()]


def starts_as_plain(adaptation: Adaptation | None) -> bool:
    """Whether a tower with this adaptation is plain CLIP until the value of its first block."""
    earlier = ("tokens", "mask", "linear", "keys_values")
    return all(getattr(type(adaptation), place, None) is getattr(Adaptation, place) for place in earlier)
