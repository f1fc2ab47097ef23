"""DPW as one would first write it down from the authors' procedure: the way all ratios are measured against.

77 tokens for every prompt, a second CLIP whose image tower runs in every step, `MultivariateNormal` built
anew for every task and batch, texts encoded for every batch and, in the class-incremental setting, for every
image and task. The towers run tokens first, `(N, B, D)`, as OpenAI's CLIP and the authors' golden cases do,
and every head of the module multiplies X by its own W^G. `lean=True` is a harder rival that nobody published:
images first, and the heads in one einsum. Attention is PyTorch's fused one, and frozen weights need no
gradient. Numbers are those of `dpw` with preset `official`; parameters are read from a `dpw` method.

Its linear maps are torch's; within `LinearMapsByOneDNN` they are computed as ours are on processors.
"""

import copy
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from dpw.clip.products import linear

CONTEXT = 77
GATE = 0.825


class LinearMapsByOneDNN(TorchFunctionMode):
    """Inside a `with` block of this, all linear maps are computed as those of our towers."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Only the library changes."""
        return (linear if func is F.linear else func)(*args, **(kwargs or {}))


class Straightforward:
    """Training steps and predictions without any saving."""

    def __init__(self, method: Any, lean: bool = False) -> None:
        """Share the parameters of a `dpw` method; the frozen CLIP is a copy."""
        self.method = method
        self.backbone = method.backbone
        self.frozen = copy.deepcopy(self.backbone.clip)
        self.lean = lean
        self.covariances = [
            module["router"]["cholesky"] @ module["router"]["cholesky"].T for module in method.bank
        ]

    # ---------------------------------------------------------------------------------------- two towers

    def images(self, clip: Any, pixels: Tensor, task: int | None, weight: Tensor | None) -> Tensor:
        """Normalised image features, by one task or frozen."""
        vision = clip.vision_model
        h = vision.pre_layrnorm(vision.embeddings(self.backbone.normalized(pixels)))
        h = self.tower(vision, h, "image", task, weight, causal=False)
        return F.normalize(clip.visual_projection(vision.post_layernorm(h[:, 0])), dim=-1)

    def texts(self, tokens: Tensor, task: int, weight: Tensor | None) -> Tensor:
        """Normalised text features of all prompts."""
        clip = self.backbone.clip
        text = clip.text_model
        h = text.embeddings.token_embedding(tokens) + text.embeddings.position_embedding.weight
        h = self.tower(text, h, "text", task, weight, causal=True)
        ends = self.backbone.end_of_text(tokens)
        pooled = text.final_layer_norm(h)[torch.arange(len(h)), ends]
        return F.normalize(clip.text_projection(pooled), dim=-1)

    def tower(
        self, tower: Any, h: Tensor, name: str, task: int | None, weight: Tensor | None, causal: bool
    ) -> Tensor:
        """All blocks, in the layout of this way; images or prompts come first outside."""
        h = h if self.lean else h.transpose(0, 1).contiguous()
        for index, block in enumerate(tower.encoder.layers):
            h = self.block(block, index, h, name, task, weight, causal)
        return h if self.lean else h.transpose(0, 1)

    def block(
        self,
        block: Any,
        index: int,
        h: Tensor,
        tower: str,
        task: int | None,
        weight: Tensor | None,
        causal: bool,
    ) -> Tensor:
        """One block."""
        x = block.layer_norm1(h)
        value = self.attention(block.self_attn, x, causal)
        if task is not None:
            value = value + self.module(index, x, tower, task, weight)
        h = h + block.self_attn.out_proj(value)
        return h + block.mlp(block.layer_norm2(h))  # type: ignore[no-any-return]

    def attention(self, attention: Any, x: Tensor, causal: bool) -> Tensor:
        """Frozen attention."""
        by_head, back = ((0, 2, 1, 3),) * 2 if self.lean else ((1, 2, 0, 3), (2, 0, 1, 3))
        split = (*x.shape[:2], attention.num_heads, -1)
        layers = (attention.q_proj, attention.k_proj, attention.v_proj)
        q, k, v = (layer(x).view(split).permute(by_head) for layer in layers)
        value = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return value.permute(back).reshape(x.shape)

    def module(self, index: int, x: Tensor, tower: str, task: int, weight: Tensor | None) -> Tensor:
        """O_R, step by step."""
        if self.lean:
            return self.residual(index, x, tower, task, weight)
        return self.residual(index, x.transpose(0, 1), tower, task, weight).transpose(0, 1)

    def residual(self, index: int, x: Tensor, tower: str, task: int, weight: Tensor | None) -> Tensor:
        """O_R of images or prompts `(B, N, D)`."""
        part, config = self.method.bank[task][tower], self.method.config
        down = self.method.down_image if tower == "image" else self.method.down_text
        heads, tokens = part.heads, x.shape[1]
        slices = x.reshape(*x.shape[:2], heads, -1).transpose(1, 2) if config.own_slice else x.unsqueeze(1)
        if self.lean and not config.own_slice:
            scores = torch.einsum("bnd,hdl->bhnl", x, part.weight[index])
        else:
            scores = self.by_head(x, slices, part.weight[index])
        scores = scores + part.bias[index][:, :tokens]
        gates = torch.sigmoid(scores)
        total = gates.sum(dim=-1, keepdim=True)
        g = gates / total.clamp(min=1)
        if weight is not None and weight.mean() < GATE:
            g = g * (g > self.cutoff(part, index, scores, tower, weight))
        values = part.values[index].view(-1, heads, x.shape[-1] // heads)
        prefix = torch.einsum("bhnl,lhd->bnhd", g, values)
        hidden = x @ down[index]
        if part.training:
            hidden = F.dropout(hidden, config.adapter_dropout)
        adapted = (hidden @ part.up[index] + part.up_bias[index]) * config.adapter_scale
        delta = (total - 1).clamp(min=0).transpose(1, 2)
        out = prefix + delta * adapted.view_as(prefix)
        if weight is not None:
            out = out * weight.view(-1, 1, 1, 1)
        return out.reshape(x.shape)

    def by_head(self, x: Tensor, slices: Tensor, weight: Tensor) -> Tensor:
        """Every head multiplies X, or its own slice of it, by its own W^G; X as it lies is kept once."""
        if slices.shape[1] == len(weight):
            return slices @ weight
        tokens_first = x.transpose(0, 1)
        return torch.stack([tokens_first @ one for one in weight]).permute(2, 0, 1, 3)

    def cutoff(self, part: Any, index: int, scores: Tensor, tower: str, weight: Tensor) -> Tensor:
        """Below which weight a prefix is left out."""
        if tower == "text":
            return (1 - weight).view(-1, 1, 1, 1)
        normal = torch.distributions.Normal(part.cls_mean[index], part.cls_var[index].clamp(min=1e-6).sqrt())
        return (1 - torch.sigmoid(normal.log_prob(scores[:, :, 0]))).unsqueeze(2)

    # ------------------------------------------------------------------------------------------ training

    def padded(self, tokens: Tensor) -> Tensor:
        """All prompts with 77 tokens."""
        return F.pad(tokens, (0, CONTEXT - tokens.shape[1]), value=int(tokens[0, -1]))

    def task_logits(self, pixels: Tensor) -> Tensor:
        """Logits of the newest task; the frozen tower runs and nobody reads it."""
        task = len(self.method.tasks) - 1
        with torch.no_grad():
            self.images(self.frozen, pixels, None, None)
        images = self.images(self.backbone.clip, pixels, task, None)
        texts = self.texts(self.padded(self.method.training_tokens()), task, None)
        return self.backbone.logit_scale * images @ texts.T

    def loss(self, pixels: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy over the newest task's classes."""
        return F.cross_entropy(self.task_logits(pixels), labels)

    def step(self, pixels: Tensor, labels: Tensor, at_once: int) -> None:
        """Loss and gradients; beyond `at_once` classes the work of a step by parts of the class list.

        The activations of 400 prompts of 77 tokens do not fit a usual machine. The parts do the same work,
        but their gradient starts from the features' sum instead of from the loss.
        """
        tokens = self.method.training_tokens()
        if len(tokens) <= at_once:
            self.loss(pixels, labels).backward()
            return
        task = len(self.method.tasks) - 1
        with torch.no_grad():
            self.images(self.frozen, pixels, None, None)
        self.images(self.backbone.clip, pixels, task, None).sum().backward()
        for part in self.padded(tokens).split(at_once):
            self.texts(part, task, None).sum().backward()

    # ---------------------------------------------------------------------------------------- predicting

    def confidences(self, pixels: Tensor) -> Tensor:
        """Calibrated likelihoods `(B, T)` under every learned task."""
        features = self.images(self.frozen, pixels, None, None).double()
        means = [module["router"]["mean"] for module in self.method.bank]
        pairs = zip(means, self.covariances, strict=True)
        normals = [torch.distributions.MultivariateNormal(mean, covariance) for mean, covariance in pairs]
        likelihood = torch.stack([normal.log_prob(features) for normal in normals], dim=1)
        return torch.sigmoid(likelihood / self.backbone.feature_width - 1)

    def task_incremental(self, pixels: Tensor, tokens: Tensor) -> Tensor:
        """A majority of the batch decides the task; texts are encoded for this batch."""
        best, task = self.confidences(pixels).max(dim=1)
        voted = int(torch.bincount(task).argmax())
        weight = best.float()
        images = self.images(self.backbone.clip, pixels, voted, weight)
        texts = self.texts(self.padded(tokens), voted, weight.mean().view(1))
        return self.backbone.logit_scale * images @ texts.T

    def class_incremental(self, pixels: Tensor, tokens: list[Tensor]) -> Tensor:
        """Image by image: texts are encoded for every learned task with its own confidence."""
        return torch.cat([self.one_image(one[None], tokens) for one in pixels])

    def one_image(self, pixels: Tensor, tokens: list[Tensor]) -> Tensor:
        """Logits of one image over the classes of all tasks."""
        confidence = self.confidences(pixels).float()
        best, task = confidence.max(dim=1)
        image = self.images(self.backbone.clip, pixels, int(task), best)
        parts = []
        for index, prompts in enumerate(tokens):
            texts = self.texts(self.padded(prompts), index, confidence[:, index])
            parts.append(self.backbone.logit_scale * image @ texts.T * confidence[:, index])
        return torch.cat(parts, dim=1)
