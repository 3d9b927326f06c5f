"""
Makes the oracle fixture of the drafters with the training code: python scripts/train/oracle/make_drafters.py test/oracle/fixtures/drafters

A tiny random LLM with an adapter with features, the paper's adapter and Medusa heads, each exported as trained ones are,
and `oracle.json`: what the modules that were trained make of one text.
"""

import base64
import json
import sys
import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the training code; its corpus.py, not ours

from export import export_adapter, half, llm_config, load_exported, load_exported_adapter, write_json  # noqa: E402
from export_medusa import load_medusa  # noqa: E402
from feature_adapter import FeatureAdapter, visible_features  # noqa: E402
from files import save_checkpoint, write_atomically  # noqa: E402
from generate import wire  # noqa: E402
from medusa import HEADS, Medusa  # noqa: E402
from model import SPLIT, Adapter, LlmConfig, Llama  # noqa: E402
from safetensors.torch import save  # noqa: E402

CONFIG = LlmConfig(
    vocab_size=160, hidden_size=64, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
    intermediate_size=96, max_position_embeddings=128,
)  # fmt: skip
TREE = [[0], [1], [2], [0, 0], [0, 1], [1, 0], [0, 0, 0], [0, 0, 0, 0]]
ROWS, FIRST_GENERATED = 24, 15


def randomise(module: nn.Module, seed: int) -> nn.Module:
    """Gaussian weights under which every matrix matters, and norms away from 1; values that fp16 holds."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(noise * parameter.shape[-1] ** -0.5 if parameter.dim() > 1 else 1 + 0.2 * noise)
    return module


def write_checkpoint(out: Path, work: Path) -> None:
    """The Hugging Face directory, as export.py and export_medusa.py lay it out."""
    write_atomically(out / "model.safetensors", save(half(randomise(Llama(CONFIG), 1).state_dict()), metadata={"format": "pt"}))
    write_json(out / "config.json", llm_config(CONFIG) | {"eos_token_id": 2, "pad_token_id": 0})
    for seed, (name, module) in enumerate({"adapter": FeatureAdapter(CONFIG), "adapter-paper": Adapter(CONFIG)}.items()):
        save_checkpoint(work / f"{name}.pt", {"config": CONFIG.to_dict(), name: randomise(module, 2 + seed).state_dict()})
        export_adapter(work, out, name)
    medusa = half(randomise(Medusa(CONFIG.hidden_size), 4).state_dict())
    write_atomically(out / "medusa" / "medusa.safetensors", save(medusa, metadata={"format": "pt"}))
    config = {"kind": "medusa", "heads": HEADS, "hidden_size": CONFIG.hidden_size, "tree": TREE}
    write_json(out / "medusa" / "medusa_config.json", config)


@torch.inference_mode()
def oracle_of(out: Path) -> dict:
    """What the modules make of the exported weights: states as they cross the wire (fp16) and results (fp32), row-major."""
    model, (medusa, _) = load_exported(out), load_medusa(out)
    ids = torch.randint(CONFIG.vocab_size, (1, ROWS), generator=torch.Generator().manual_seed(5))
    shallow = wire(model.shallow(ids, SPLIT))
    deep = wire(model.deep(shallow, SPLIT))
    features = visible_features(deep, FIRST_GENERATED)
    (drafted,) = load_exported_adapter(out, CONFIG).roll_out(shallow, features, 1)
    paper = load_exported_adapter(out, CONFIG, "adapter-paper")(shallow)
    guesses = nn.functional.linear(medusa(model.model.norm(deep)), model.model.embed_tokens.weight)  # [heads, 1, rows, vocab]
    return {
        "torch": torch.__version__,
        "ids": ids[0].tolist(),
        "shallow": encode(shallow.half()),
        "deep": encode(deep.half()),
        "features": encode(features.half()),
        "adapter": encode(drafted),
        "adapterPaper": encode(paper),
        "medusa": encode(guesses[:, 0].transpose(0, 1)),  # [rows, heads, vocab]
    }


def encode(values: Tensor) -> str:
    """Base64 of the little-endian values."""
    return base64.b64encode(values.contiguous().numpy().tobytes()).decode()


def main(out: Path) -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as work:
        write_checkpoint(out, Path(work))
    write_atomically(out / "oracle.json", (json.dumps(oracle_of(out), separators=(",", ":")) + "\n").encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
