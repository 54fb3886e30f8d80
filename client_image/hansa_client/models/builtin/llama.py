"""The builtin model's network: a plain Llama that needs torch and nothing else.

Importing transformers takes a cold Job many times as long as a small model's round. This network
has the same names of weights and computes the same operations in the same order, so that a round
gives the same bytes either way. Other models use transformers.
"""

import json
from dataclasses import dataclass, fields
from pathlib import Path
from types import SimpleNamespace

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
    """The settings in config.json that this network uses, by the names that they have there.

    Biases, grouped-query attention and RoPE scaling are not supported.
    """

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    head_dim: int
    rms_norm_eps: float
    max_position_embeddings: int
    rope_theta: float
    """From `rope_parameters`."""

    def get_text_config(self) -> "LlamaConfig":
        """Itself, as a text model of transformers answers."""
        return self

    @classmethod
    def read(cls, folder: Path) -> "LlamaConfig":
        """The settings of the model in a folder."""
        config = json.loads((folder / "config.json").read_text())
        config |= config["rope_parameters"]
        return cls(**{field.name: config[field.name] for field in fields(cls)})


class Llama(nn.Module):
    """A causal language model with the methods that the client calls on any model."""

    reads_kv_slots = True
    """`forward` takes KV slots itself; other models need a hook into their attention."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.config = config
        self.model = _Body(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.lm_head.weight = self.model.embed_tokens.weight

    def forward(
        self,
        input_ids: torch.Tensor,
        position_ids: torch.Tensor | None = None,
        slots: KVSlots | None = None,
        use_cache: bool = False,
        logits_to_keep: int | torch.Tensor = 0,
    ) -> SimpleNamespace:
        """`logits` of the last columns, or of those with these indexes; slots are the KV cache."""
        states = self.model(input_ids, position_ids, slots)
        kept = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        return SimpleNamespace(logits=self.lm_head(states[:, kept, :]))

    def get_output_embeddings(self) -> nn.Module:
        """The layer that computes the logits."""
        return self.lm_head


def load(folder: Path, dtype: torch.dtype) -> Llama:
    """The model in a folder; its output layer is its embedding."""
    model = Llama(LlamaConfig.read(folder))
    weights = {name: tensor.to(dtype) for name, tensor in load_file(folder / _WEIGHTS).items()}
    model.load_state_dict({**weights, _HEAD: weights[_EMBEDDING]}, assign=True)
    model.lm_head.weight = model.model.embed_tokens.weight
    return model


class _Body(nn.Module):
    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(
            _Layer(config, index) for index in range(config.num_hidden_layers)
        )
        self.norm = _Norm(config)
        steps = torch.arange(0, config.head_dim, 2, dtype=torch.float) / config.head_dim
        self.frequencies = nn.Buffer(1.0 / (config.rope_theta**steps), persistent=False)

    def forward(
        self, tokens: torch.Tensor, positions: torch.Tensor | None, slots: KVSlots | None
    ) -> torch.Tensor:
        states: torch.Tensor = self.embed_tokens(tokens)
        if positions is None:
            positions = torch.arange(tokens.shape[1], device=tokens.device)[None]
        rotation = self._compute_rotation(positions, states.dtype)
        for layer in self.layers:
            states = layer(states, rotation, slots)
        normed: torch.Tensor = self.norm(states)
        return normed

    @torch.no_grad()
    def _compute_rotation(self, positions: torch.Tensor, dtype: torch.dtype) -> Rotation:
        frequencies = self.frequencies[None, :, None].expand(positions.shape[0], -1, 1)
        angles = (frequencies.float() @ positions[:, None, :].float()).transpose(1, 2)
        both = torch.cat((angles, angles), dim=-1)
        return both.cos().to(dtype)[:, None], both.sin().to(dtype)[:, None]


class _Layer(nn.Module):
    def __init__(self, config: LlamaConfig, index: int) -> None:
        super().__init__()
        self.self_attn = _Attention(config, index)
        self.mlp = _FeedForward(config)
        self.input_layernorm = _Norm(config)
        self.post_attention_layernorm = _Norm(config)

    def forward(
        self, states: torch.Tensor, rotation: Rotation, slots: KVSlots | None
    ) -> torch.Tensor:
        states = states + self.self_attn(self.input_layernorm(states), rotation, slots)
        added: torch.Tensor = states + self.mlp(self.post_attention_layernorm(states))
        return added


class _Attention(nn.Module):
    def __init__(self, config: LlamaConfig, index: int) -> None:
        super().__init__()
        self._index = index
        self._width = config.head_dim
        size = config.num_attention_heads * config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, size, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, size, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, size, bias=False)
        self.o_proj = nn.Linear(size, config.hidden_size, bias=False)

    def forward(
        self, states: torch.Tensor, rotation: Rotation, slots: KVSlots | None
    ) -> torch.Tensor:
        query = _rotate(self._split_heads(self.q_proj(states)), rotation)
        keys = _rotate(self._split_heads(self.k_proj(states)), rotation)
        values = self._split_heads(self.v_proj(states))
        if slots is not None:
            own = slots.attend(self._index, query, keys, values, self._width**-0.5)
            looked: torch.Tensor = self.o_proj(own.flatten(1))[None]
            return looked
        attended = functional.scaled_dot_product_attention(
            query, keys, values, scale=self._width**-0.5, is_causal=states.shape[1] > 1
        )
        joined: torch.Tensor = self.o_proj(attended.transpose(1, 2).contiguous().flatten(2))
        return joined

    def _split_heads(self, states: torch.Tensor) -> torch.Tensor:
        return states.view(*states.shape[:-1], -1, self._width).transpose(1, 2)


def _rotate(states: torch.Tensor, rotation: Rotation) -> torch.Tensor:
    cosine, sine = rotation
    left, right = states.chunk(2, dim=-1)
    return (states * cosine) + (torch.cat((-right, left), dim=-1) * sine)


class _FeedForward(nn.Module):
    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        inner = functional.silu(self.gate_proj(states)) * self.up_proj(states)
        outer: torch.Tensor = self.down_proj(inner)
        return outer


class _Norm(nn.Module):
    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(config.hidden_size))
        self._epsilon = config.rms_norm_eps

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        wide = states.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self._epsilon)
        normed: torch.Tensor = self.weight * wide.to(states.dtype)
        return normed
