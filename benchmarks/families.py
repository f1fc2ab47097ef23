"""The towers of every family of CLIP against transformers' own, on models with random weights."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import transformers
from benchmarks.measure import Figure, figure, in_turn
from benchmarks.models import SHAPES, TEMPLATE, WordTokenizer, class_group, photographs

from dpw.clip.backbone import Backbone
from dpw.clip.preprocessing import Preprocessing

# By family: the class of its configuration, the context of its prompts, and what only its text tower has.
FAMILIES: dict[str, tuple[str, int, dict[str, int]]] = {
    "clip": ("CLIPConfig", 77, {}),
    "metaclip_2": ("MetaClip2Config", 77, {}),
    "siglip": ("SiglipConfig", 64, {}),
    "chinese_clip": ("ChineseCLIPConfig", 52, {"pad_token_id": 0}),
    "altclip": ("AltCLIPConfig", 79, {"pad_token_id": 1}),
}


class FamilyTokenizer(WordTokenizer):
    """One token for every word, whose padding is what the family's tower takes for padding."""

    def __init__(self, vocabulary: int, padding: int) -> None:
        """`padding` is never the id of a word."""
        super().__init__(vocabulary)
        self.pad_token_id = padding

    def __call__(self, prompts: Sequence[str], **_: Any) -> dict[str, list[list[int]]]:
        """Token ids of every prompt, small ids left to special tokens."""
        rows = super().__call__(prompts)["input_ids"]
        return {"input_ids": [[max(token, 4) for token in row] for row in rows]}


def family_backbone(family: str, name: str) -> Backbone:
    """A model of a family in the sizes of a named shape; vocabularies are CLIP's, which costs no time."""
    shape, (config, context, own) = SHAPES[name], FAMILIES[family]
    torch.manual_seed(0)
    common = {"num_hidden_layers": shape.blocks}
    wide = family == "siglip"  # its text tower is as wide as its image tower, of which features are read
    text_width, text_heads = (
        (shape.image_width, shape.image_heads) if wide else (shape.text_width, shape.text_heads)
    )
    text = {
        "vocab_size": shape.vocabulary,
        "hidden_size": text_width,
        "intermediate_size": 4 * text_width,
        "num_attention_heads": text_heads,
        "max_position_embeddings": context,
        "bos_token_id": shape.vocabulary - 2,
        "eos_token_id": shape.vocabulary - 1,
        "project_dim": shape.image_width,
        "projection_size": shape.image_width,
    }
    image = {
        "hidden_size": shape.image_width,
        "intermediate_size": 4 * shape.image_width,
        "num_attention_heads": shape.image_heads,
        "image_size": shape.image_size,
        "patch_size": shape.patch,
    }
    more = {} if wide else {"projection_dim": shape.features}
    made = getattr(transformers, config)(
        text_config=text | common | own, vision_config=image | common, **more
    )
    clip = getattr(transformers, config.replace("Config", "Model"))(made).eval()
    preprocessing = Preprocessing(size=shape.image_size, crop=(shape.image_size, shape.image_size))
    tokenizer = FamilyTokenizer(shape.vocabulary, own.get("pad_token_id", 1))
    return Backbone(clip, preprocessing, tokenizer, f"{family} {name}")


def ways(backbone: Backbone, pixels: torch.Tensor, tokens: torch.Tensor) -> dict[str, Callable[[], Any]]:
    """Both towers by transformers and by us."""
    clip, normalised = backbone.clip, backbone.normalized(pixels)
    seen = backbone.family.texts.mask(clip, tokens)
    mask = {} if seen is None else {"attention_mask": seen.long()}
    return {
        "images": lambda: backbone.encode_images(normalised),
        "texts": lambda: backbone.encode_texts(tokens),
        "their images": lambda: clip.get_image_features(pixel_values=normalised).pooler_output,
        "their texts": lambda: clip.get_text_features(input_ids=tokens, **mask).pooler_output,
    }


def ratios(name: str, images: int, prompts: int, repeats: int) -> Iterator[Figure]:
    """transformers' CPU time over ours for the towers of each family, which give the same features."""
    group = class_group(0, prompts)
    pixels = photographs(name, images)
    for family in FAMILIES:
        backbone = family_backbone(family, name)
        both = ways(backbone, pixels, backbone.tokenize([TEMPLATE.format(one) for one in group.classes]))
        with torch.inference_mode():
            for tower in ("images", "texts"):
                assert torch.allclose(both[tower](), both[f"their {tower}"](), atol=1e-3, rtol=1e-3), family
            found = in_turn(both, repeats)
        for tower, count in (("images", images), ("texts", prompts)):
            what = f"{family}, {count} {tower}: transformers / ours"
            yield figure(name, what, found[f"their {tower}"], found[tower])
