"""CLIP's weights as plain modules under transformers' own names, for checkpoints that need nothing more.

Importing transformers' models takes longer than answering for an image, and of its `CLIPModel` only the
weights are used: the blocks are run in `blocks.py`. A test holds names, order and values of the weights, and
every feature, to those of `CLIPModel`. A checkpoint that says anything unusual is left to transformers.
"""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

ACTIVATIONS = {"quick_gelu": None, "gelu": nn.GELU}  # the quick GELU is part of `blocks.py`
WEIGHTS = "model.safetensors"
IGNORED = tuple(f"{tower}_model.embeddings.position_ids" for tower in ("text", "vision"))  # always 0, 1, 2...
# What transformers takes for a field that config.json does not name.
DEFAULTS: dict[str, dict[str, Any]] = {
    "text_config": {
        "vocab_size": 49408,
        "hidden_size": 512,
        "intermediate_size": 2048,
        "num_hidden_layers": 12,
        "num_attention_heads": 8,
        "max_position_embeddings": 77,
        "hidden_act": "quick_gelu",
        "layer_norm_eps": 1e-5,
        "pad_token_id": 1,
        "bos_token_id": 49406,
        "eos_token_id": 49407,
    },
    "vision_config": {
        "hidden_size": 768,
        "intermediate_size": 3072,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "num_channels": 3,
        "image_size": 224,
        "patch_size": 32,
        "hidden_act": "quick_gelu",
        "layer_norm_eps": 1e-5,
    },
}


def plain_config(folder: Path) -> SimpleNamespace | None:
    """The configuration of a checkpoint that is read here, or None for one that needs transformers."""
    content = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if content.get("model_type") != "clip" or not (folder / WEIGHTS).is_file():
        return None
    if any(content.get(name) for name in ("text_config_dict", "vision_config_dict", "quantization_config")):
        return None
    towers = {}
    for name, defaults in DEFAULTS.items():
        given = content.get(name) or {}
        if not isinstance(given, dict):
            return None
        fields = {key: given.get(key, value) for key, value in defaults.items()}
        if str(fields["hidden_act"]) not in ACTIVATIONS or not _sensible(fields):
            return None
        towers[name] = SimpleNamespace(**fields)
    width = content.get("projection_dim", 512)
    if type(width) is not int or width < 1:
        return None
    return SimpleNamespace(model_type="clip", projection_dim=width, **towers)


def _sensible(fields: dict[str, Any]) -> bool:
    """Whether sizes are whole numbers that fit each other; what is not is refused in transformers' words."""
    numbers = {key: one for key, one in fields.items() if key not in ("hidden_act", "layer_norm_eps")}
    return (
        all(type(one) is int for one in numbers.values())
        and all(one > 0 for key, one in numbers.items() if not key.endswith("_token_id"))
        and isinstance(fields["layer_norm_eps"], float)
        and fields["hidden_size"] % fields["num_attention_heads"] == 0
    )


class PlainCLIP(nn.Module):
    """Both towers, their projections and the temperature; it has no forward pass of its own."""

    def __init__(self, config: SimpleNamespace) -> None:
        """Make room for the weights of a configuration."""
        super().__init__()
        self.config = config
        self.logit_scale = nn.Parameter(torch.empty(()))
        self.text_model = _TextModel(config.text_config)
        self.vision_model = _VisionModel(config.vision_config)
        self.visual_projection = nn.Linear(
            config.vision_config.hidden_size, config.projection_dim, bias=False
        )
        self.text_projection = nn.Linear(config.text_config.hidden_size, config.projection_dim, bias=False)


class _TextModel(nn.Module):
    """The text tower's parts."""

    def __init__(self, config: SimpleNamespace) -> None:
        super().__init__()
        self.config, self.eos_token_id = config, config.eos_token_id
        self.embeddings = nn.Module()
        self.embeddings.token_embedding = _embedding(config.vocab_size, config.hidden_size)
        self.embeddings.position_embedding = _embedding(config.max_position_embeddings, config.hidden_size)
        self.encoder = _Encoder(config)
        self.final_layer_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)


class _VisionModel(nn.Module):
    """The image tower's parts; the second name is misspelt in every checkpoint."""

    def __init__(self, config: SimpleNamespace) -> None:
        super().__init__()
        self.config = config
        self.embeddings = _VisionEmbeddings(config)
        self.pre_layrnorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.encoder = _Encoder(config)
        self.post_layernorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)


class _VisionEmbeddings(nn.Module):
    """Patches and CLS with their positions."""

    def __init__(self, config: SimpleNamespace) -> None:
        super().__init__()
        self.num_positions = (config.image_size // config.patch_size) ** 2 + 1
        self.class_embedding = nn.Parameter(torch.empty(config.hidden_size))
        kernel = config.patch_size
        self.patch_embedding = nn.Conv2d(config.num_channels, config.hidden_size, kernel, kernel, bias=False)
        self.position_embedding = _embedding(self.num_positions, config.hidden_size)

    def forward(self, pixels: Tensor) -> Tensor:
        """Tokens `(B, N, D)` of normalised pixels `(B, 3, H, W)`."""
        patches = self.patch_embedding(pixels).flatten(2).transpose(1, 2)
        classes = self.class_embedding.expand(pixels.shape[0], 1, -1)
        return torch.cat([classes, patches], dim=1) + self.position_embedding.weight


class _Encoder(nn.Module):
    """The blocks of a tower."""

    def __init__(self, config: SimpleNamespace) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_Block(config) for _ in range(config.num_hidden_layers))


class _Block(nn.Module):
    """The weights of one block."""

    def __init__(self, config: SimpleNamespace) -> None:
        super().__init__()
        width = config.hidden_size
        self.self_attn = _Attention(width, config.num_attention_heads)
        self.layer_norm1 = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.mlp = _MLP(config)
        self.layer_norm2 = nn.LayerNorm(width, eps=config.layer_norm_eps)


class _Attention(nn.Module):
    """The four maps of attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.num_heads = heads
        self.k_proj, self.v_proj = nn.Linear(width, width), nn.Linear(width, width)
        self.q_proj, self.out_proj = nn.Linear(width, width), nn.Linear(width, width)


class _MLP(nn.Module):
    """The two maps of the MLP and what stands between them."""

    def __init__(self, config: SimpleNamespace) -> None:
        super().__init__()
        self.config = config
        activation = ACTIVATIONS[config.hidden_act]
        self.activation_fn = nn.Identity() if activation is None else activation()
        self.fc1 = nn.Linear(config.hidden_size, config.intermediate_size)
        self.fc2 = nn.Linear(config.intermediate_size, config.hidden_size)


def _embedding(rows: int, width: int) -> nn.Embedding:
    """An embedding without first values: drawing them on the meta device imports half of torch's compiler."""
    return nn.Embedding(rows, width, _weight=torch.empty(rows, width))


def load_weights(folder: Path, config: SimpleNamespace) -> PlainCLIP | None:
    """The weights of a checkpoint; None where its file is not exactly what the configuration asks for."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    with torch.device("meta"):
        clip = PlainCLIP(config)
    try:
        stored = load_file(folder / WEIGHTS)
    except (SafetensorError, OSError, ValueError):
        return None
    for name in IGNORED:
        stored.pop(name, None)
    shapes = {name: room.shape for name, room in clip.state_dict().items()}
    if {name: tensor.shape for name, tensor in stored.items()} != shapes:
        return None
    if not all(tensor.is_floating_point() for tensor in stored.values()):
        return None
    clip.load_state_dict(stored, assign=True)
    return clip
