"""A tiny model of every family of CLIP, with random weights and a tokeniser of its own kind."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import (
    AltCLIPConfig,
    AltCLIPModel,
    ChineseCLIPConfig,
    ChineseCLIPModel,
    MetaClip2Config,
    MetaClip2Model,
    PreTrainedTokenizerFast,
    SiglipConfig,
    SiglipModel,
)

from dpw.clip.backbone import Backbone
from dpw.clip.preprocessing import Preprocessing
from tests.helpers.tiny_clip import ALPHABET, tiny_clip, tiny_tokenizer

SIDE = 16  # pixels
CONTEXT = 40  # tokens of the text towers, but for CLIP's own
VISION = {
    "hidden_size": 48,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "image_size": SIDE,
    "patch_size": 8,
}
TEXT = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
# By family: what stands before the letters of the vocabulary, and around every prompt.
SPECIAL: dict[str, tuple[list[str], str]] = {
    "metaclip_2": (["<s>", "<pad>", "</s>", "<unk>"], "<s> $A </s>"),
    "siglip": (["<unk>", "</s>"], "$A </s>"),
    "siglip2": (["<pad>", "<eos>", "<bos>", "<unk>"], "$A <eos>"),
    "chinese_clip": (["[PAD]", "[UNK]", "[CLS]", "[SEP]"], "[CLS] $A [SEP]"),
    "altclip": (["<s>", "<pad>", "</s>", "<unk>"], "<s> $A </s>"),
}
ROLES: dict[str, dict[str, str]] = {
    "metaclip_2": {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"},
    "siglip": {"pad_token": "</s>", "eos_token": "</s>", "unk_token": "<unk>"},
    "siglip2": {"pad_token": "<pad>", "eos_token": "<eos>", "unk_token": "<unk>"},
    "chinese_clip": {
        "pad_token": "[PAD]",
        "unk_token": "[UNK]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
    },
    "altclip": {
        "bos_token": "<s>",
        "cls_token": "<s>",
        "pad_token": "<pad>",
        "eos_token": "</s>",
        "sep_token": "</s>",
        "unk_token": "<unk>",
    },
}
OTHERS = sorted(SPECIAL)
EVERY = ["clip", *OTHERS]


def spelling_tokenizer(family: str) -> PreTrainedTokenizerFast:
    """A tokeniser that spells, with the special tokens of a family in their places."""
    special, template = SPECIAL[family]
    vocabulary = {piece: index for index, piece in enumerate([*special, *ALPHABET])}
    unknown = ROLES[family]["unk_token"]
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token=unknown))
    backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split("", "isolated")]
    )
    backend.post_processor = processors.TemplateProcessing(
        single=template, special_tokens=[(piece, vocabulary[piece]) for piece in special if piece in template]
    )
    return PreTrainedTokenizerFast(tokenizer_object=backend, **ROLES[family])


def _size(family: str) -> int:
    """Size of a family's vocabulary."""
    return len(SPECIAL[family][0]) + len(ALPHABET)


def _metaclip_2(family: str) -> Any:
    text = TEXT | {"vocab_size": _size(family), "max_position_embeddings": CONTEXT}
    text |= {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "initializer_factor": 4.0}
    vision = VISION | {"initializer_factor": 4.0}
    return MetaClip2Model(MetaClip2Config(text_config=text, vision_config=vision, projection_dim=16))


def _siglip(family: str) -> Any:
    text = TEXT | {"vocab_size": _size(family), "max_position_embeddings": CONTEXT, "projection_size": 48}
    model = SiglipModel(SiglipConfig(text_config=text, vision_config=VISION))
    with torch.no_grad():
        model.logit_scale.fill_(2.0)
        model.logit_bias.fill_(-3.0)
    return model


def _chinese_clip(family: str) -> Any:
    text = TEXT | {"vocab_size": _size(family), "max_position_embeddings": CONTEXT, "pad_token_id": 0}
    text |= {"initializer_range": 0.3}
    vision = VISION | {"initializer_factor": 4.0}
    config = ChineseCLIPConfig(text_config=text, vision_config=vision, projection_dim=16)
    return ChineseCLIPModel(config)


def _altclip(family: str) -> Any:
    text = TEXT | {"vocab_size": _size(family), "max_position_embeddings": CONTEXT + 2, "pad_token_id": 1}
    text |= {"project_dim": 24, "initializer_range": 0.3, "bos_token_id": 0, "eos_token_id": 2}
    vision = VISION | {"initializer_factor": 4.0}
    return AltCLIPModel(AltCLIPConfig(text_config=text, vision_config=vision, projection_dim=16))


BUILDERS: dict[str, Callable[[str], Any]] = {
    "metaclip_2": _metaclip_2,
    "siglip": _siglip,
    "siglip2": _siglip,
    "chinese_clip": _chinese_clip,
    "altclip": _altclip,
}


def family_model(family: str, seed: int = 0) -> Any:
    """The tiny model of a family; biases and norms are random too, so that a forgotten one is noticed."""
    if family == "clip":
        return tiny_clip(seed)
    torch.manual_seed(seed)
    model = BUILDERS[family](family).eval()
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            if name.endswith("bias") and name != "logit_bias":
                tensor.normal_(std=0.1)
            elif "orm" in name or "LN" in name:
                tensor.normal_(mean=1.0, std=0.1)
    return model


def family_tokenizer(family: str) -> Any:
    """The tokeniser of a family."""
    return tiny_tokenizer() if family == "clip" else spelling_tokenizer(family)


def family_preprocessing(family: str) -> Preprocessing:
    """The preprocessing of a family."""
    if family.startswith("siglip"):
        return Preprocessing(size=(SIDE, SIDE), crop=None, mean=(0.5,) * 3, std=(0.5,) * 3)
    return Preprocessing(size=SIDE, crop=(SIDE, SIDE))


def family_backbone(family: str, seed: int = 0) -> Backbone:
    """The tiny model of a family, ready for use."""
    parts = family_model(family, seed), family_preprocessing(family), family_tokenizer(family)
    return Backbone(*parts, f"tiny {family}")


def save_family(folder: Path, family: str, seed: int = 0) -> Path:
    """Write the tiny model of a family as a complete model folder."""
    family_model(family, seed).save_pretrained(folder)
    family_tokenizer(family).save_pretrained(folder)
    config = family_preprocessing(family).to_config()
    if family.startswith("siglip"):
        fields = ("size", "resample", "image_mean", "image_std")
        config = {"image_processor_type": "SiglipImageProcessor"} | {name: config[name] for name in fields}
    (folder / "preprocessor_config.json").write_text(json.dumps(config))
    return folder


def reference_features(clip: Any, tokens: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    """transformers' own text features."""
    given = {} if mask is None else {"attention_mask": mask}
    return clip.get_text_features(input_ids=tokens, **given).pooler_output


def padded_by_hand(rows: Sequence[Sequence[int]], length: int, padding: int) -> torch.Tensor:
    """Prompts filled up on the right."""
    return torch.tensor([[*row, *[padding] * (length - len(row))] for row in rows])
