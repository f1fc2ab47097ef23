"""A batch of images whose pixels are fetched only if a method really needs them."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

PixelLoader = Callable[[Sequence[int]], Tensor]


class Images:
    """Images by position: pixels on demand, and keys by which their features can be remembered."""

    def __init__(self, load: PixelLoader, size: int, keys: Sequence[str] | None = None) -> None:
        """`load(rows)` gives pixels `(len(rows), 3, H, W)`; keys are unique and stable, or absent."""
        self._load = load
        self._size = size
        self.keys = keys
        self._found: dict[str, Tensor] = {}
        self._taken: tuple[Images, list[int]] | None = None  # the batch these are some rows of

    @classmethod
    def of(cls, pixels: Tensor, keys: Sequence[str] | None = None) -> "Images":
        """Wrap pixels that are already there."""
        return cls(lambda rows: pixels[torch.as_tensor(rows, device=pixels.device)], len(pixels), keys)

    def __len__(self) -> int:
        """How many images there are."""
        return self._size

    def pixels(self, rows: Sequence[int] | None = None) -> Tensor:
        """Fetch the pixels of some rows, or of all."""
        return self._load(range(self._size) if rows is None else rows)

    def take(self, rows: Sequence[int]) -> "Images":
        """Some of the images, in the given order."""
        keys = None if self.keys is None else [self.keys[row] for row in rows]
        some = Images(lambda chosen: self._load([rows[index] for index in chosen]), len(rows), keys)
        some._taken = self, list(rows)
        return some

    def once(self, name: str, compute: Callable[["Images"], Tensor]) -> Tensor:
        """What is computed once under a name for the whole batch, of which these images may be some rows."""
        if self._taken is not None:
            batch, rows = self._taken
            return batch.once(name, compute)[rows]
        if name not in self._found:
            self._found[name] = compute(self)
        return self._found[name]
