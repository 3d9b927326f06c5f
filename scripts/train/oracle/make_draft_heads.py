"""
Makes the oracle fixture of draft heads: python scripts/train/oracle/make_draft_heads.py test/oracle/fixtures/draft-heads

Random heads in the layout that EAGLE's are published in, for the LLM of fixtures/drafters, and what the published arithmetic makes of one
text, computed with transformers' decoder layers: `llama` as heads for Llama are, `qwen` with biases of queries, keys and values.
"""

import base64
import json
import sys
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import LlamaConfig, Qwen2Config
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding
from transformers.models.qwen2.modeling_qwen2 import Qwen2DecoderLayer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the training code

from export import half, load_exported, write_json  # noqa: E402
from files import write_atomically  # noqa: E402
from generate import wire  # noqa: E402
from make_drafters import CONFIG, randomise  # noqa: E402
from model import SPLIT, Llama  # noqa: E402
from safetensors.torch import save  # noqa: E402

PROMPT, KNOWN, DRAFTED = 15, 3, 5  # tokens: of the prompt, after it with known states, guessed
COMMON = {
    "vocab_size": CONFIG.vocab_size, "hidden_size": CONFIG.hidden_size, "num_hidden_layers": 1, "num_attention_heads": 4,
    "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "tie_word_embeddings": False, "attn_implementation": "eager",
}  # fmt: skip


class Head(nn.Module):
    """fc over embedding and feature, and a layer without the norm before its attention."""

    def __init__(self, config: LlamaConfig | Qwen2Config, layer: type[nn.Module], bias: bool):
        super().__init__()
        self.fc = nn.Linear(2 * config.hidden_size, config.hidden_size, bias=bias)
        self.layers = nn.ModuleList([layer(config, 0)])
        self.layers[0].input_layernorm = nn.Identity()
        self.rotary = LlamaRotaryEmbedding(config)

    def forward(self, embedded: Tensor, features: Tensor) -> Tensor:
        x = self.fc(torch.cat((embedded, features), dim=-1))
        rows = torch.arange(x.shape[1])
        mask = torch.full((len(rows), len(rows)), -torch.inf).triu(1)[None, None]
        result = self.layers[0](x, attention_mask=mask, position_ids=rows[None], position_embeddings=self.rotary(x, rows[None]))
        return result if isinstance(result, Tensor) else result[0]


def heads() -> dict[str, tuple[Head, dict]]:
    """Each with its config.json."""
    llama = {**COMMON, "intermediate_size": 96, "num_key_value_heads": 2, "rope_theta": 5000.0}
    qwen = {**COMMON, "intermediate_size": 96, "num_key_value_heads": 4, "rope_theta": 10000.0}
    made = {
        "llama": (Head(LlamaConfig(**llama), LlamaDecoderLayer, bias=True), {"architectures": ["LlamaForCausalLM"], "model_type": "llama", **llama}),
        "qwen": (Head(Qwen2Config(**qwen), Qwen2DecoderLayer, bias=False), {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", **qwen}),
    }
    for seed, (head, config) in enumerate(made.values()):
        randomise(head, 20 + seed)
        del config["attn_implementation"]
    return made


@torch.inference_mode()
def oracle_of(model: Llama, head: Head) -> dict:
    """The guesses of f after the known tokens, then of tokens guessed one after another, each with the guess before as its feature."""
    ids = torch.randint(CONFIG.vocab_size, (1, PROMPT + KNOWN), generator=torch.Generator().manual_seed(6))
    deep = wire(model.deep(wire(model.shallow(ids, SPLIT)), SPLIT))
    tokens, features = ids[:, PROMPT:], model.model.norm(deep)[:, PROMPT - 1 : -1]
    drafted, probabilities, known = [], [], None
    for _ in range(DRAFTED):
        guesses = head(model.model.embed_tokens(tokens), features)
        known = guesses if known is None else known
        chances = F.linear(guesses[0, -1], model.model.embed_tokens.weight).softmax(-1)
        drafted.append(int(chances.argmax()))
        probabilities.append(float(chances.max()))
        tokens = torch.cat((tokens, torch.tensor([[drafted[-1]]])), dim=1)
        features = torch.cat((features, guesses[:, -1:]), dim=1)
    return {
        "ids": ids[0].tolist(),
        "prompt": PROMPT,
        "known": base64.b64encode(known.contiguous().numpy().tobytes()).decode(),
        "drafted": drafted,
        "probabilities": probabilities,
    }


def main(out: Path) -> None:
    torch.set_num_threads(1)
    model = load_exported(out.parent / "drafters")
    for name, (head, config) in heads().items():
        weights = half({key: value for key, value in head.state_dict().items() if "rotary" not in key})
        head.load_state_dict(weights, strict=False)
        own = {**weights, "embed_tokens.weight": model.model.embed_tokens.weight.half()} if name == "llama" else weights
        write_atomically(out / name / "model.safetensors", save(own, metadata={"format": "pt"}))
        write_json(out / name / "config.json", config)
        write_atomically(out / name / "oracle.json", (json.dumps(oracle_of(model, head), separators=(",", ":")) + "\n").encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
