"""
Makes the fixtures of model families with the real transformers: python scripts/train/oracle/make_families.py test/oracle/fixtures/families

One folder per family: a tiny random checkpoint without a tokenizer, and `oracle.json` (logits and greedy continuations of random ids).
"""

import math
import shutil
import sys
import tempfile
from pathlib import Path

import torch
import transformers
from make_fixtures import CONTINUATION, MINIMUM_GAP, float32_base64, greedy, versions, write_compact

SIZES = {
    "vocab_size": 128, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 512, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
ROPE = {"rope_type": "default", "rope_theta": 10000.0}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 128}
# Half of a head of 32 is rotated, and a quarter of 16 factors belongs to each frequency.
LONGROPE = {
    "rope_type": "longrope", "rope_theta": 10000.0, "partial_rotary_factor": 0.5, "original_max_position_embeddings": 512,
    "short_factor": [1 + 0.1 * i for i in range(8)], "long_factor": [2.0 + i for i in range(8)],
}  # fmt: skip

FAMILIES = {
    "qwen3": ("Qwen3", {"head_dim": 32, "tie_word_embeddings": True, "rope_parameters": ROPE}),
    "qwen3-yarn": ("Qwen3", {"head_dim": 32, "num_hidden_layers": 2, "rope_parameters": YARN}),
    "qwen2-window": ("Qwen2", {"use_sliding_window": True, "sliding_window": 20, "max_window_layers": 2, "rope_parameters": ROPE}),
    "mistral": ("Mistral", {"sliding_window": 24, "head_dim": 16, "rope_parameters": ROPE}),
    "ministral": (
        "Ministral",
        {"sliding_window": 24, "head_dim": 16, "layer_types": ["full_attention", "sliding_attention"] * 2, "rope_parameters": ROPE},
    ),
    "smollm3": ("SmolLM3", {"no_rope_layers": [1, 0, 1, 0], "rope_parameters": ROPE, "tie_word_embeddings": True}),
    "phi3": ("Phi3", {"num_attention_heads": 2, "num_key_value_heads": 1, "rope_parameters": LONGROPE, "original_max_position_embeddings": 512}),
    "gemma3": (
        "Gemma3",
        {
            "head_dim": 32, "sliding_window": 16, "query_pre_attn_scalar": 24, "tie_word_embeddings": False,
            "layer_types": ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"],
            "rope_parameters": {"sliding_attention": ROPE, "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0}},
        },
    ),
    "granite": (
        "Granite",
        {
            "embedding_multiplier": 6.0, "residual_multiplier": 0.4, "attention_multiplier": 0.1, "logits_scaling": 2.0,
            "rope_parameters": ROPE,
        },
    ),
    "olmo2": ("Olmo2", {"rope_parameters": ROPE}),
}  # fmt: skip


def random_state(model: torch.nn.Module, seed: int, adds_one: bool) -> dict[str, torch.Tensor]:
    """As of checkpoints.random_weights, for whatever tensors a family has."""
    generator = torch.Generator().manual_seed(seed)
    state = {}
    for name, weight in model.state_dict().items():
        values = torch.randn(weight.shape, generator=generator)
        if name.endswith("norm.weight"):
            values = values * 0.2 + (0 if adds_one else 1)
        elif name.endswith("bias"):
            values = values * 0.5
        else:
            gain = 3.0 if name in ("model.embed_tokens.weight", "lm_head.weight") else 1.5 if "q_proj" in name or "k_proj" in name else 1.2
            values = values * gain / math.sqrt(weight.shape[1])
        state[name] = values.to(torch.float16).to(torch.float32)
    return state


def prompts(vocab: int) -> list[list[int]]:
    """A single token, a prompt shorter than every window, and longer ones."""
    generator = torch.Generator().manual_seed(7)
    return [torch.randint(3, vocab, (length,), generator=generator).tolist() for length in (1, 9, 40, 150)]


def oracle_of(folder: Path) -> dict | None:
    """None when a step comes too near a tie, or the answers repeat themselves: another seed is tried."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    cases, smallest_gap = [], float("inf")
    for prompt in prompts(model.config.vocab_size):
        continuation, logits, smallest = greedy(model, prompt)
        if smallest < MINIMUM_GAP or len(set(continuation)) < 8:
            return None
        smallest_gap = min(smallest_gap, smallest)
        length = len(prompt)
        kept = sorted({0, length // 2, length - 1, length + CONTINUATION // 2, length + CONTINUATION - 1})
        cases.append({"promptIds": prompt, "continuation": continuation, "positions": kept, "logits": float32_base64(logits[kept])})
    return {"smallestGap": smallest_gap, "vocab": model.config.vocab_size, "cases": cases}


def make(folder: Path, family: str, settings: dict, seed: int) -> None:
    config_class = getattr(transformers, f"{family}TextConfig" if family == "Gemma3" else f"{family}Config")
    model = getattr(transformers, f"{family}ForCausalLM")(config_class(**{**SIZES, **settings})).eval()
    state = random_state(model, seed, adds_one=family == "Gemma3")
    model.load_state_dict(state, strict=True)
    model.tie_weights()
    model.to(torch.float16).save_pretrained(folder)


def main(target: Path, only: list[str]) -> None:
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    target.mkdir(parents=True, exist_ok=True)
    for name, (family, settings) in FAMILIES.items():
        if only and name not in only:
            continue
        for seed in range(2_000):
            with tempfile.TemporaryDirectory() as temporary:
                folder = Path(temporary) / name
                make(folder, family, settings, seed)
                oracle = oracle_of(folder)
                if oracle is None:
                    continue
                write_compact(folder / "oracle.json", {"versions": versions(), "seed": seed, **oracle})
                shutil.rmtree(target / name, ignore_errors=True)
                shutil.copytree(folder, target / name)
                print(f"{name}: seed {seed}, smallest gap {oracle['smallestGap']:.2e}", flush=True)
                break
        else:
            raise SystemExit(f"{name}: no seed gives steps that lie {MINIMUM_GAP} from a tie")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
