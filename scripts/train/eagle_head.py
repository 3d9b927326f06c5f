"""A draft head in the layout of EAGLE (Li et al. 2024, arXiv:2401.15077), for `brim model build --draft-head`.

Row i reads the embedding of token i and f_{i−1}, the LLM's state of the position before after its final norm:
x_i = W·[e_i; f_{i−1}] + b, then one decoder layer without the norm before its attention. What it gives is its guess of f_i, to which
the LLM's head is applied as it is, and which is the next row's feature in a draft. The names of its weights are those of published heads.
It is trained with the states of all positions, those of the prompt included, as these are; then with its own guesses in their place, as in
drafts (Zhang et al. 2024, HASS, arXiv:2408.15766, without its mask: all rows read guesses).
"""

from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn import functional as F

from base import Teacher, final_norm, head_weight
from export import half, llm_config, write_json
from files import load_checkpoint, write_atomically
from model import Attention, LlmConfig, Mlp, RmsNorm, rope_tables

STEPS, STEP_DECAY = 3, 0.8  # drafted tokens in training, and what the loss of each weighs beside that of the one before
NOISE = 0.1  # half the range of the uniform noise on true features, as published
W_STATES, W_CE = 0.5, 1.0  # published: 1 and 0.1; what counts is the token


class EagleLayer(nn.Module):
    """A Llama layer without `input_layernorm`."""

    def __init__(self, config: LlmConfig):
        super().__init__()
        c = config
        self.self_attn = Attention(c.hidden_size, c.num_attention_heads, c.num_key_value_heads, c.head_dim)
        self.mlp = Mlp(c.hidden_size, c.intermediate_size)
        self.post_attention_layernorm = RmsNorm(c.hidden_size, c.rms_norm_eps)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.self_attn(x, cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class EagleHead(nn.Module):
    """fc and one layer."""

    def __init__(self, config: LlmConfig):
        super().__init__()
        self.fc = nn.Linear(2 * config.hidden_size, config.hidden_size)
        self.layers = nn.ModuleList([EagleLayer(config)])
        cos, sin = rope_tables(config.max_position_embeddings, config.head_dim, config.rope_theta)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def forward(self, embedded: Tensor, features: Tensor) -> Tensor:
        """e_i and f_{i−1} [batch, time, hidden] → guesses of f_i."""
        x = self.fc(torch.cat((embedded, features), dim=-1))
        time = x.shape[1]
        return self.layers[0](x, self.cos[:time], self.sin[:time])


def eagle_loss(model: Teacher, head: EagleHead, inputs: Tensor, deep: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
    """(Σ_j 0.8^j · (w_states · SmoothL1 of f + w_ce · CE of the logits), agreement of the first choices [STEPS]), means over keep."""
    states, head_rows = final_norm(model, deep).float(), head_weight(model)
    embedded, targets = model.model.embed_tokens(inputs[:, 1:]), states[:, 1:]
    features = states[:, :-1] + (torch.rand_like(targets) * 2 - 1) * NOISE
    p_l = F.linear(targets, head_rows).softmax(-1)
    loss, agreements = deep.new_zeros(()), []
    for step in range(STEPS):
        weight = keep[:, 1:] * (torch.arange(targets.shape[1], device=keep.device) >= step)
        weight = weight / weight.sum().clamp(min=1)
        with torch.autocast(deep.device.type, dtype=torch.bfloat16):
            guessed = head(embedded, features)
            log_p_s = F.linear(guessed, head_rows).float().log_softmax(-1)
        distance = F.smooth_l1_loss(guessed.float(), targets, reduction="none").mean(-1)
        loss = loss + STEP_DECAY**step * (weight * (W_STATES * distance - W_CE * (p_l * log_p_s).sum(-1))).sum()
        agreements.append((weight * (p_l.argmax(-1) == log_p_s.argmax(-1)).float()).sum())
        features = torch.cat((features[:, :1], guessed[:, :-1].float()), dim=1)
    return loss, torch.stack(agreements)


def export_eagle(work: Path) -> Path:
    """Writes the head of <work>/eagle.pt to <work>/eagle, as published heads are."""
    state, out = load_checkpoint(work / "eagle.pt"), work / "eagle"
    write_atomically(out / "model.safetensors", save(half(state["eagle"]), metadata={"format": "pt"}))
    write_json(out / "config.json", {**llm_config(LlmConfig(**state["config"])), "num_hidden_layers": 1, "bias": True})
    return out
