"""A Llama in plain PyTorch. Module names give the weights their Hugging Face names (model.layers.0.self_attn…)."""

from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

SPLIT = 1  # m of HAT: the device's layers


@dataclass(frozen=True)
class LlmConfig:
    """Sizes of the model; the field names are those of a Hugging Face config.json."""

    vocab_size: int = 4096
    hidden_size: int = 128
    num_hidden_layers: int = 12
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 32
    intermediate_size: int = 384
    max_position_embeddings: int = 512
    rope_theta: float = 10000.0
    rms_norm_eps: float = 1e-5

    def to_dict(self) -> dict:
        return asdict(self)


# Of the models that train_llm.py trains: the LLM, and small models of at most an eighth of its weights.
SHAPES = {
    "llm": LlmConfig(),  # 2.9 million weights
    "slm-wide": LlmConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, head_dim=16, intermediate_size=128),
    "slm-deep": LlmConfig(
        hidden_size=48, num_hidden_layers=6, num_attention_heads=3, num_key_value_heads=1, head_dim=16, intermediate_size=128
    ),
}


def rope_tables(positions: int, head_dim: int, theta: float) -> tuple[Tensor, Tensor]:
    """(cos, sin), each fp32 [positions, head_dim]; halves repeated, as in Hugging Face Llama (Su et al., arXiv:2104.09864)."""
    frequencies = theta ** (-torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
    angles = torch.outer(torch.arange(positions, dtype=torch.float32), frequencies)
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding of x [batch, heads, time, head_dim] by cos, sin [time, head_dim]."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class RmsNorm(nn.Module):
    """x / rms(x) · weight over the last axis, in fp32 (Zhang & Sennrich, arXiv:1910.07467)."""

    def __init__(self, size: int, eps: float):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        x = x.float()
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight


class LayerCache:
    """Keys and values of one layer for `batch` sequences of equal length, filled from the left."""

    def __init__(self, batch: int, kv_heads: int, capacity: int, head_dim: int):
        self.keys = torch.zeros(batch, kv_heads, capacity, head_dim)
        self.values = torch.zeros(batch, kv_heads, capacity, head_dim)
        self.length = 0

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Adds k, v [batch, kv_heads, time, head_dim]; returns all keys and values so far."""
        end = self.length + k.shape[2]
        self.keys[:, :, self.length : end], self.values[:, :, self.length : end] = k, v
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]


class Attention(nn.Module):
    """Causal self-attention with grouped key/value heads and RoPE; no bias."""

    def __init__(self, hidden: int, heads: int, kv_heads: int, head_dim: int):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, head_dim
        self.q_proj = nn.Linear(hidden, heads * head_dim, bias=False)
        self.k_proj = nn.Linear(hidden, kv_heads * head_dim, bias=False)
        self.v_proj = nn.Linear(hidden, kv_heads * head_dim, bias=False)
        self.o_proj = nn.Linear(heads * head_dim, hidden, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, cache: LayerCache | None = None) -> Tensor:
        """x [batch, time, hidden] (normed), cos/sin [time, head_dim] → [batch, time, hidden].

        With a cache: a first call with the whole prompt, then calls with time = 1.
        """
        batch, time, _ = x.shape
        q = self.q_proj(x).view(batch, time, self.heads, self.head_dim).transpose(1, 2)
        k = self.k_proj(x).view(batch, time, self.kv_heads, self.head_dim).transpose(1, 2)
        v = self.v_proj(x).view(batch, time, self.kv_heads, self.head_dim).transpose(1, 2)
        q, k = rotate(q, cos, sin).to(v.dtype), rotate(k, cos, sin).to(v.dtype)
        if cache is not None:
            k, v = cache.append(k, v)
        groups = self.heads // self.kv_heads
        if groups > 1:
            k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=time > 1)
        return self.o_proj(mixed.transpose(1, 2).reshape(batch, time, self.heads * self.head_dim))

    def start_silent(self, seed: int) -> None:
        """Normal(0, 1/√d) for q, k, v; zero for o, so that what is added to the residual stream is zero at first."""
        generator = torch.Generator().manual_seed(seed)
        for projection in (self.q_proj, self.k_proj, self.v_proj):
            nn.init.normal_(projection.weight, 0.0, projection.in_features**-0.5, generator=generator)
        nn.init.zeros_(self.o_proj.weight)


class Mlp(nn.Module):
    """SwiGLU: down(silu(gate(x)) · up(x)) (Shazeer, arXiv:2002.05202)."""

    def __init__(self, hidden: int, intermediate: int):
        super().__init__()
        self.gate_proj = nn.Linear(hidden, intermediate, bias=False)
        self.up_proj = nn.Linear(hidden, intermediate, bias=False)
        self.down_proj = nn.Linear(intermediate, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class DecoderLayer(nn.Module):
    """One Llama layer: x + attention(norm(x)), then + mlp(norm(·))."""

    def __init__(self, config: LlmConfig):
        super().__init__()
        c = config
        self.self_attn = Attention(c.hidden_size, c.num_attention_heads, c.num_key_value_heads, c.head_dim)
        self.mlp = Mlp(c.hidden_size, c.intermediate_size)
        self.input_layernorm = RmsNorm(c.hidden_size, c.rms_norm_eps)
        self.post_attention_layernorm = RmsNorm(c.hidden_size, c.rms_norm_eps)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, cache: LayerCache | None = None) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, cache)
        return x + self.mlp(self.post_attention_layernorm(x))


class LlamaBody(nn.Module):
    """Embedding, layers and final norm: the part that Hugging Face calls `model`."""

    def __init__(self, config: LlmConfig):
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.num_hidden_layers))
        self.norm = RmsNorm(config.hidden_size, config.rms_norm_eps)


class Llama(nn.Module):
    """The LLM, with tied embeddings, and the three submodels of the U-shaped split (HAT, model split)."""

    def __init__(self, config: LlmConfig):
        super().__init__()
        self.config = config
        self.model = LlamaBody(config)
        cos, sin = rope_tables(config.max_position_embeddings, config.head_dim, config.rope_theta)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def initialise(self, seed: int) -> None:
        """Normal(0, 0.02) everywhere; projections back into the residual stream scaled by 1/√(2·layers)."""
        generator = torch.Generator().manual_seed(seed)
        for name, weight in self.named_parameters():
            if weight.dim() < 2:
                continue
            back = name.endswith(("o_proj.weight", "down_proj.weight"))
            std = 0.02 / (2 * self.config.num_hidden_layers) ** 0.5 if back else 0.02
            nn.init.normal_(weight, 0.0, std, generator=generator)

    def run_layers(self, x: Tensor, first: int, last: int, caches: list[LayerCache] | None = None) -> Tensor:
        """Residual stream [batch, time, hidden] after layers first … last−1."""
        start = caches[first].length if caches else 0
        cos, sin = self.cos[start : start + x.shape[1]], self.sin[start : start + x.shape[1]]
        for index in range(first, last):
            x = self.model.layers[index](x, cos, sin, caches[index] if caches else None)
        return x

    def shallow(self, ids: Tensor, split: int, caches: list[LayerCache] | None = None) -> Tensor:
        """Input submodel: ids [batch, time] → residual stream after the first `split` layers [batch, time, hidden]."""
        return self.run_layers(self.model.embed_tokens(ids), 0, split, caches)

    def deep(self, shallow: Tensor, split: int, caches: list[LayerCache] | None = None) -> Tensor:
        """Middle submodel: shallow states → last residual stream, before the final norm [batch, time, hidden]."""
        return self.run_layers(shallow, split, self.config.num_hidden_layers, caches)

    def head(self, deep: Tensor) -> Tensor:
        """Output submodel: final norm and tied head → logits [batch, time, vocab]."""
        return F.linear(self.model.norm(deep), self.model.embed_tokens.weight)

    def forward(self, ids: Tensor) -> Tensor:
        """ids [batch, time] → logits [batch, time, vocab]."""
        return self.head(self.deep(self.shallow(ids, 0), 0))


def make_caches(config: LlmConfig, batch: int, capacity: int) -> list[LayerCache]:
    """One empty cache per layer."""
    c = config
    return [LayerCache(batch, c.num_key_value_heads, capacity, c.head_dim) for _ in range(c.num_hidden_layers)]


class Adapter(nn.Module):
    """Λ of HAT: f_S = s + Attention(RMSNorm(s)), one causal self-attention with 4·d² weights and no FFN.

    f_S stands in for the LLM's last residual stream, so the draft model's logits are head(f_S).
    """

    def __init__(self, config: LlmConfig):
        super().__init__()
        heads = config.num_attention_heads
        self.norm = RmsNorm(config.hidden_size, config.rms_norm_eps)
        self.attention = Attention(config.hidden_size, heads, heads, config.head_dim)
        cos, sin = rope_tables(config.max_position_embeddings, config.head_dim, config.rope_theta)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def initialise(self, seed: int) -> None:
        """Normal(0, 1/√d) for q, k, v; zero for o, so that training starts from f_S = s."""
        self.attention.start_silent(seed)

    def forward(self, shallow: Tensor) -> Tensor:
        """s [batch, time, hidden] → f_S [batch, time, hidden]; the first row is position 0."""
        time = shallow.shape[1]
        return shallow + self.attention(self.norm(shallow), self.cos[:time], self.sin[:time])
