"""
Embeds random ids with the fixtures' checkpoints in the real transformers:
python scripts/train/oracle/make_embeddings.py test/oracle/fixtures
"""

import random
import sys
from pathlib import Path

import torch
import transformers
from make_fixtures import float32_base64, versions, write_compact

CHECKPOINTS = ("llama", "qwen2", "families/qwen3", "families/gemma3")
LENGTHS = (1, 7, 40, 300)


def main() -> None:
    folder = Path(sys.argv[1])
    cases = {}
    for name in CHECKPOINTS:
        model = transformers.AutoModel.from_pretrained(folder / name, dtype=torch.float32).eval()
        choice = random.Random(name)
        texts = [[choice.randrange(3, model.config.vocab_size) for _ in range(length)] for length in LENGTHS]
        cases[name] = [{"ids": ids, **embeddings(model, ids)} for ids in texts]
    write_compact(folder / "embeddings.json", {"versions": versions(), "cases": cases})


@torch.no_grad()
def embeddings(model: torch.nn.Module, ids: list[int]) -> dict[str, str]:
    """Of the states after the final norm, each of length 1."""
    states = model(torch.tensor([ids])).last_hidden_state[0]
    pooled = {"mean": states.mean(0), "last": states[-1]}
    return {pooling: float32_base64(torch.nn.functional.normalize(value, dim=0)) for pooling, value in pooled.items()}


main()
