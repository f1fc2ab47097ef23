"""Batches of images: what is computed for them is computed once."""

import torch

from dpw.data.images import Images


def test_some_rows_share_what_is_computed_once_for_their_batch():
    pixels = torch.arange(5.0).view(5, 1, 1, 1)
    images, asked = Images.of(pixels, keys=list("abcde")), []

    def doubled(batch: Images) -> torch.Tensor:
        asked.append(len(batch))
        return 2 * batch.pixels().flatten()

    some = images.take([3, 0, 4])
    fewer = some.take([2, 0])
    assert fewer.keys == ["e", "d"]
    assert fewer.pixels().flatten().tolist() == [4, 3]
    assert fewer.once("doubled", doubled).tolist() == [8, 6]
    assert some.once("doubled", doubled).tolist() == [6, 0, 8]
    assert images.once("doubled", doubled).tolist() == [0, 2, 4, 6, 8]
    assert asked == [5]
