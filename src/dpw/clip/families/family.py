"""What one family of CLIP is: its names, and how its two towers are entered and left."""

from dataclasses import dataclass

from dpw.clip.families.images import ImageSide
from dpw.clip.families.texts import TextSide


@dataclass(frozen=True)
class Family:
    """One family of CLIP; the blocks between the two ends of a tower are run alike for all of them.

    Attributes:
        name: transformers' `model_type`, by which files name the family.
        title: how people call it.
        model: the name of its class in transformers.
        images: how the image tower is entered and left.
        texts: how the text tower is entered and left.
        sigmoid: whether it was trained by a sigmoid for each pair, with a bias on its logits, instead of a
            softmax over all.

    Example:
        >>> from dpw.clip import FAMILIES
        >>> FAMILIES["siglip"].title, FAMILIES["siglip"].sigmoid, FAMILIES["siglip"].images.class_tokens
        ('SigLIP', True, 0)
    """

    name: str
    title: str
    model: str
    images: ImageSide
    texts: TextSide
    sigmoid: bool = False
