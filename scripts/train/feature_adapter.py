"""The adapter with features: HAT's Λ that also reads the last deep state, as EAGLE does, within 4·d² weights.

Row i belongs to token i. It reads s_i (the shallow state, which contains the token's embedding) and f_{i−1} (the LLM's deep state
of the position before, as on the wire): x_i = RMSNorm(s_i) + W_f·RMSNorm(f_{i−1}), f_S(i) = s_i + Attention(x).
W_f uses the d² weights saved by halving the key and value heads.

A device knows s of all positions, but f only of the last prompt position and of generated positions, because the bridge does
not return the deep states of the rest of the prompt. An unknown f is zero. The f of a draft token is not known before
verification, so the row after it reads the adapter's own f_S instead. After verification these rows are recomputed with the true
f. `roll_out` computes this for every position at once.
"""

import torch
from torch import Tensor, nn

from model import Adapter, Attention, LlmConfig, RmsNorm, rope_tables, rotate


class FeatureAdapter(nn.Module):
    """Λ with features: 4·d² weights and two norms."""

    def __init__(self, config: LlmConfig):
        super().__init__()
        heads = config.num_attention_heads
        self.norm = RmsNorm(config.hidden_size, config.rms_norm_eps)
        self.feature_norm = RmsNorm(config.hidden_size, config.rms_norm_eps)
        self.feature_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.attention = Attention(config.hidden_size, heads, feature_kv_heads(config), config.head_dim)
        cos, sin = rope_tables(config.max_position_embeddings, config.head_dim, config.rope_theta)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def initialise(self, seed: int) -> None:
        """As the plain adapter, and zero for W_f: training starts from f_S = s."""
        self.attention.start_silent(seed)
        nn.init.zeros_(self.feature_proj.weight)

    @torch.no_grad()
    def start_from(self, adapter: Adapter) -> None:
        """Takes over a plain adapter: what it does is unchanged but for key and value heads, whose groups are averaged."""
        own, plain = self.attention, adapter.attention
        groups = plain.kv_heads // own.kv_heads
        for mine, theirs in ((own.k_proj, plain.k_proj), (own.v_proj, plain.v_proj)):
            heads = theirs.weight.view(own.kv_heads, groups, own.head_dim, -1)
            mine.weight.copy_(heads.mean(1).flatten(0, 1))
        own.q_proj.weight.copy_(plain.q_proj.weight)
        own.o_proj.weight.copy_(plain.o_proj.weight)
        self.norm.weight.copy_(adapter.norm.weight)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """q, k (with RoPE) and v, each [batch, heads, time, head_dim], of x [batch, time, hidden]; row 0 is position 0."""
        a, (batch, time, _) = self.attention, x.shape
        q = a.q_proj(x).view(batch, time, a.heads, a.head_dim).transpose(1, 2)
        k, v = (p(x).view(batch, time, a.kv_heads, a.head_dim).transpose(1, 2) for p in (a.k_proj, a.v_proj))
        cos, sin = self.cos[:time], self.sin[:time]
        groups = a.heads // a.kv_heads
        return rotate(q, cos, sin), rotate(k, cos, sin).repeat_interleave(groups, dim=1), v.float().repeat_interleave(groups, dim=1)

    def roll_out(self, shallow: Tensor, features: Tensor, steps: int) -> list[Tensor]:
        """f_S of every row for each place in a draft: `steps` tensors [batch, time, hidden].

        shallow s_i and features f_{i−1} (zero where unknown): [batch, time, hidden]. Result j is row i as the
        (j + 1)-th row of a draft: the rows up to i − j have their features, the j after them read the f_S of the row
        before. Row i of result j means something only for i ≥ j.
        """
        known = self.norm(shallow)
        time, scale = shallow.shape[1], self.attention.head_dim**-0.5
        positions = torch.arange(time, device=shallow.device)
        results: list[Tensor] = []
        keys: list[Tensor] = []
        values: list[Tensor] = []
        for step in range(steps):
            q, k, v = self.project(known + self.feature_proj(self.feature_norm(features)))
            keys.append(k)
            values.append(v)
            seen = positions[None, :] <= positions[:, None] - step  # rows with true features
            scores = (q @ keys[0].mT * scale).masked_fill(~seen, -torch.inf)  # [batch, heads, time, time]
            drafted = [(q * shift(keys[at], step - at)).sum(-1, keepdim=True) * scale for at in range(1, step + 1)]
            weights = torch.cat((scores, *drafted), dim=-1).softmax(-1)
            mixed = weights[..., :time] @ values[0]
            for at in range(1, step + 1):
                mixed = mixed + weights[..., time + at - 1, None] * shift(values[at], step - at)
            result = shallow + self.attention.o_proj(mixed.transpose(1, 2).flatten(2))
            results.append(result)
            features = shift(result, 1)
        return results


def feature_kv_heads(config: LlmConfig) -> int:
    """Half as many key and value heads as heads."""
    return max(1, config.num_attention_heads // 2)


def shift(x: Tensor, rows: int) -> Tensor:
    """x [..., time, size] moved `rows` later in time, zeros in front; same shape."""
    return torch.cat((torch.zeros_like(x[..., :rows, :]), x[..., : x.shape[-2] - rows, :]), dim=-2) if rows else x


def visible_features(deep: Tensor, generated: Tensor) -> Tensor:
    """f_{i−1} for each row i, zero if the device does not know it.

    deep [batch, time, hidden]: the LLM's last residual stream. `generated` bool [batch, time]: the tokens of the
    answer; the state before the first of them, of the last prompt position, is the first that is known.
    """
    return shift(deep, 1) * generated[..., None]
