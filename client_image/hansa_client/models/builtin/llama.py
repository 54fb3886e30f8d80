"""The builtin model's network: a plain Llama that needs torch and nothing else.

Importing transformers costs a cold Job many times what a small model's round takes. This is the
same function with the same names of weights: operation by operation what transformers computes, so
that a round gives the same bytes either way. Other models keep to the library.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional

from hansa_client.models.kv_slots import KVSlots

_WEIGHTS = "model.safetensors"
_HEAD = "lm_head.weight"
_EMBEDDING = "model.embed_tokens.weight"

Rotation = tuple[torch.Tensor, torch.Tensor]
"""Cosine and sine of each position's angles."""


@dataclass(frozen=True, kw_only=True)
class LlamaConfig:
    """What config.json says; biases, grouped heads and stretched positions are not known here."""

    vocabulary: int
    """Tokens."""
    width: int
    """Size of a token's state."""
    inner: int
    """Size within the feed-forward part."""
    layers: int
    """Layers."""
    heads: int
    """Heads of attention."""
    head_width: int
    """Size of one head."""
    theta: float
    """Base of the rotary frequencies."""
    epsilon: float
    """What keeps a norm from dividing by zero."""
    max_position_embeddings: int
    """Positions it was trained on."""

    def get_text_config(self) -> LlamaConfig:
        """Itself, as the library's models answer."""
        return self

    @property
    def head_dim(self) -> int:
        """Size of one head, by the library's name."""
        return self.head_width

    @property
    def num_attention_heads(self) -> int:
        """Heads, by the library's name."""
        return self.heads

    @property
    def num_hidden_layers(self) -> int:
        """Layers, by the library's name."""
        return self.layers

    @classmethod
    def read(cls, folder: Path) -> LlamaConfig:
        """The shape of the model in a folder."""
        config = json.loads((folder / "config.json").read_text())
        return cls(
            vocabulary=config["vocab_size"],
            width=config["hidden_size"],
            inner=config["intermediate_size"],
            layers=config["num_hidden_layers"],
            heads=config["num_attention_heads"],
            head_width=config["head_dim"],
            theta=config["rope_parameters"]["rope_theta"],
            epsilon=config["rms_norm_eps"],
            max_position_embeddings=config["max_position_embeddings"],
        )


@dataclass(frozen=True)
class Output:
    """What the model answers."""

    logits: torch.Tensor
    """Rows, columns, tokens."""


class Llama(nn.Module):
    """A causal language model with the calls that the client makes of any model."""

    reads_kv_slots = True
    """Keys and values can be kept in slots without the library's hooks."""

    def __init__(self, shape: LlamaConfig) -> None:
        super().__init__()
        self.config = shape
        self.model = _Body(shape)
        self.lm_head = nn.Linear(shape.width, shape.vocabulary, bias=False)
        self.lm_head.weight = self.model.embed_tokens.weight

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        slots: KVSlots | None = None,
        use_cache: bool = False,
        logits_to_keep: int | torch.Tensor = 0,
    ) -> Output:
        """Logits of the last columns, or of those whose numbers are given; slots are its cache."""
        states = self.model(input_ids, attention_mask, position_ids, slots)
        kept = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        return Output(self.lm_head(states[:, kept, :]))

    def get_output_embeddings(self) -> nn.Module:
        """The layer that makes the logits."""
        return self.lm_head


def load(folder: Path, dtype: torch.dtype) -> Llama:
    """The model in a folder; its output layer is its embedding."""
    model = Llama(LlamaConfig.read(folder))
    weights = {name: tensor.to(dtype) for name, tensor in load_file(folder / _WEIGHTS).items()}
    model.load_state_dict({**weights, _HEAD: weights[_EMBEDDING]}, assign=True)
    model.lm_head.weight = model.model.embed_tokens.weight
    return model


class _Body(nn.Module):
    def __init__(self, shape: LlamaConfig) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.layers = nn.ModuleList(_Layer(shape, index) for index in range(shape.layers))
        self.norm = _Norm(shape)
        steps = torch.arange(0, shape.head_width, 2, dtype=torch.float) / shape.head_width
        self.frequencies = nn.Buffer(1.0 / (shape.theta**steps), persistent=False)

    def forward(
        self,
        tokens: torch.Tensor,
        padding: torch.Tensor | None,
        positions: torch.Tensor | None,
        slots: KVSlots | None,
    ) -> torch.Tensor:
        states: torch.Tensor = self.embed_tokens(tokens)
        if positions is None:
            positions = torch.arange(tokens.shape[1], device=tokens.device)[None]
        rotation = self._rotation(positions, states.dtype)
        mask = _mask(padding)
        for layer in self.layers:
            states = layer(states, rotation, mask, slots)
        normed: torch.Tensor = self.norm(states)
        return normed

    @torch.no_grad()
    def _rotation(self, positions: torch.Tensor, dtype: torch.dtype) -> Rotation:
        frequencies = self.frequencies[None, :, None].expand(positions.shape[0], -1, 1)
        angles = (frequencies.float() @ positions[:, None, :].float()).transpose(1, 2)
        both = torch.cat((angles, angles), dim=-1)
        return both.cos().to(dtype)[:, None], both.sin().to(dtype)[:, None]


def _mask(padding: torch.Tensor | None) -> torch.Tensor | None:
    """Which keys a query sees; none where torch's own causal attention says the same, faster."""
    if padding is None or bool(padding.all()):
        return None
    keys = torch.arange(padding.shape[-1], device=padding.device)
    causal = keys[None, :] <= keys[:, None]
    return causal[None, None] & padding.bool()[:, None, None, :]


class _Layer(nn.Module):
    def __init__(self, shape: LlamaConfig, index: int) -> None:
        super().__init__()
        self.self_attn = _Attention(shape, index)
        self.mlp = _FeedForward(shape)
        self.input_layernorm = _Norm(shape)
        self.post_attention_layernorm = _Norm(shape)

    def forward(
        self,
        states: torch.Tensor,
        rotation: Rotation,
        mask: torch.Tensor | None,
        slots: KVSlots | None,
    ) -> torch.Tensor:
        states = states + self.self_attn(self.input_layernorm(states), rotation, mask, slots)
        added: torch.Tensor = states + self.mlp(self.post_attention_layernorm(states))
        return added


class _Attention(nn.Module):
    def __init__(self, shape: LlamaConfig, index: int) -> None:
        super().__init__()
        self._index = index
        self._width = shape.head_width
        size = shape.heads * shape.head_width
        self.q_proj = nn.Linear(shape.width, size, bias=False)
        self.k_proj = nn.Linear(shape.width, size, bias=False)
        self.v_proj = nn.Linear(shape.width, size, bias=False)
        self.o_proj = nn.Linear(size, shape.width, bias=False)

    def forward(
        self,
        states: torch.Tensor,
        rotation: Rotation,
        mask: torch.Tensor | None,
        slots: KVSlots | None,
    ) -> torch.Tensor:
        query = _rotated(self._split(self.q_proj(states)), rotation)
        keys = _rotated(self._split(self.k_proj(states)), rotation)
        values = self._split(self.v_proj(states))
        if slots is not None:
            own = slots.attend(self._index, query, keys, values, self._width**-0.5)
            looked: torch.Tensor = self.o_proj(own.flatten(1))[None]
            return looked
        attended = functional.scaled_dot_product_attention(
            query,
            keys,
            values,
            attn_mask=mask,
            scale=self._width**-0.5,
            is_causal=mask is None and states.shape[1] > 1,
        )
        joined: torch.Tensor = self.o_proj(attended.transpose(1, 2).contiguous().flatten(2))
        return joined

    def _split(self, states: torch.Tensor) -> torch.Tensor:
        return states.view(*states.shape[:-1], -1, self._width).transpose(1, 2)


def _rotated(states: torch.Tensor, rotation: Rotation) -> torch.Tensor:
    cosine, sine = rotation
    left, right = states.chunk(2, dim=-1)
    return (states * cosine) + (torch.cat((-right, left), dim=-1) * sine)


class _FeedForward(nn.Module):
    def __init__(self, shape: LlamaConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.width, shape.inner, bias=False)
        self.up_proj = nn.Linear(shape.width, shape.inner, bias=False)
        self.down_proj = nn.Linear(shape.inner, shape.width, bias=False)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        inner = functional.silu(self.gate_proj(states)) * self.up_proj(states)
        outer: torch.Tensor = self.down_proj(inner)
        return outer


class _Norm(nn.Module):
    def __init__(self, shape: LlamaConfig) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(shape.width))
        self._epsilon = shape.epsilon

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        wide = states.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self._epsilon)
        normed: torch.Tensor = self.weight * wide.to(states.dtype)
        return normed
