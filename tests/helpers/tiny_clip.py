"""Tiny CLIPs with random weights: enough for blocks, heads and tokens, small enough for every test."""

import json
from pathlib import Path

import torch
from transformers import CLIPConfig, CLIPModel, CLIPTokenizer

from dpw.clip.backbone import Backbone
from dpw.clip.preprocessing import Preprocessing
from tests.helpers.golden_cases import load

ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789.,:\"'-!()"


def tiny_tokenizer() -> CLIPTokenizer:
    """A tokeniser that spells: one token for every character."""
    pieces = [*ALPHABET, *(f"{letter}</w>" for letter in ALPHABET), "<|startoftext|>", "<|endoftext|>"]
    return CLIPTokenizer(vocab={piece: index for index, piece in enumerate(pieces)}, merges=[])


def tiny_clip(seed: int = 0, **vision: object) -> CLIPModel:
    """A CLIPModel with two blocks a tower, 5 image tokens and 77 text positions."""
    size = len(tiny_tokenizer())
    text = {
        "vocab_size": size,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "bos_token_id": size - 2,
        "eos_token_id": size - 1,
        "pad_token_id": size - 1,
    }
    image = {
        "hidden_size": 48,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 6,
        "image_size": 16,
        "patch_size": 8,
    }
    torch.manual_seed(seed)
    # CLIP's own initialisation makes random features nearly equal; a larger one tells images apart.
    config = CLIPConfig(
        text_config=text | {"initializer_factor": 4.0},
        vision_config=image | {"initializer_factor": 4.0} | vision,
        projection_dim=16,
    )
    return CLIPModel(config).eval()


def tiny_backbone(seed: int = 0) -> Backbone:
    """The tiny CLIP ready for use."""
    return Backbone(tiny_clip(seed), Preprocessing(size=16, crop=(16, 16)), tiny_tokenizer(), "tiny")


def vit_b16() -> Backbone:
    """CLIP ViT-B/16 shapes without values."""
    config = CLIPConfig(vision_config={"patch_size": 16})
    with torch.device("meta"):
        clip = CLIPModel(config)
    return Backbone(clip, Preprocessing(), None)


def save_tiny(folder: Path, seed: int = 0) -> Path:
    """Write the tiny CLIP as a complete model folder."""
    tiny_clip(seed).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    config = Preprocessing(size=16, crop=(16, 16)).to_config()
    (folder / "preprocessor_config.json").write_text(json.dumps(config))
    return folder


def golden_backbone() -> tuple[Backbone, dict]:
    """The small random CLIP of the golden cases, from its OpenAI parameter names."""
    weights, meta = load("j_clip_small_weights")
    config = CLIPConfig(
        text_config={
            "vocab_size": meta["vocab"],
            "hidden_size": meta["text_width"],
            "intermediate_size": 4 * meta["text_width"],
            "num_hidden_layers": meta["layers"],
            "num_attention_heads": meta["text_heads"],
            "max_position_embeddings": meta["context"],
            "bos_token_id": meta["sot"],
            "eos_token_id": meta["eot"],
            "pad_token_id": 0,
        },
        vision_config={
            "hidden_size": meta["vision_width"],
            "intermediate_size": 4 * meta["vision_width"],
            "num_hidden_layers": meta["layers"],
            "num_attention_heads": meta["vision_heads"],
            "image_size": meta["resolution"],
            "patch_size": meta["patch"],
        },
        projection_dim=meta["feature_dim"],
    )
    clip = CLIPModel(config).eval()
    clip.load_state_dict(transformers_names(weights))
    side = meta["resolution"]
    preprocessing = Preprocessing(size=side, crop=(side, side), mean=(0.5,) * 3, std=(0.25,) * 3)
    return Backbone(clip, preprocessing, None, "golden"), meta


def transformers_names(openai: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Rename OpenAI's CLIP parameters to transformers' and split the joint input projection."""
    direct = {
        "logit_scale": "logit_scale",
        "positional_embedding": "text_model.embeddings.position_embedding.weight",
        "token_embedding.weight": "text_model.embeddings.token_embedding.weight",
        "ln_final.weight": "text_model.final_layer_norm.weight",
        "ln_final.bias": "text_model.final_layer_norm.bias",
        "visual.class_embedding": "vision_model.embeddings.class_embedding",
        "visual.conv1.weight": "vision_model.embeddings.patch_embedding.weight",
        "visual.positional_embedding": "vision_model.embeddings.position_embedding.weight",
        "visual.ln_pre.weight": "vision_model.pre_layrnorm.weight",
        "visual.ln_pre.bias": "vision_model.pre_layrnorm.bias",
        "visual.ln_post.weight": "vision_model.post_layernorm.weight",
        "visual.ln_post.bias": "vision_model.post_layernorm.bias",
    }
    parts = {"attn.out_proj": "self_attn.out_proj", "ln_1": "layer_norm1", "ln_2": "layer_norm2"}
    parts |= {"mlp.c_fc": "mlp.fc1", "mlp.c_proj": "mlp.fc2"}
    renamed = {}
    for name, tensor in openai.items():
        if name in direct:
            renamed[direct[name]] = tensor
        elif name in ("text_projection", "visual.proj"):
            tower = "text_projection" if name == "text_projection" else "visual_projection"
            renamed[f"{tower}.weight"] = tensor.T.contiguous()
        else:
            tower = "vision_model" if name.startswith("visual.") else "text_model"
            index, part = name.split("resblocks.")[1].split(".", 1)
            layer = f"{tower}.encoder.layers.{index}"
            if part.startswith("attn.in_proj_"):
                for letter, piece in zip("qkv", tensor.chunk(3), strict=True):
                    renamed[f"{layer}.self_attn.{letter}_proj.{part[len('attn.in_proj_') :]}"] = piece.clone()
            else:
                stem, kind = part.rsplit(".", 1)
                renamed[f"{layer}.{parts[stem]}.{kind}"] = tensor
    return renamed
