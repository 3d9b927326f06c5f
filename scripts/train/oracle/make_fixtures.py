"""
Makes the oracle fixtures with the real transformers: python scripts/train/oracle/make_fixtures.py test/oracle/fixtures

One folder per checkpoint: the checkpoint itself, `oracle.json` (logits and greedy continuations) and `text.json`
(token ids and decoded text of the shared `strings.json`); `chat.json` holds rendered chat templates. Tests only read them.
"""

import base64
import json
import platform
import shutil
import sys
import tempfile
from pathlib import Path

import numpy
import safetensors
import tokenizers
import torch
import transformers
from chat import CASES, TEMPLATES
from checkpoints import CHECKPOINTS, write_json
from strings import STRINGS
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

CONTINUATION = 64
# Two implementations of the same arithmetic differ by about 1e-5: a step this far from a tie has one right answer.
MINIMUM_GAP = 1e-3

PROMPTS = [
    "What is a lamp?",
    "Once upon a time there was a lighthouse keeper",
    "def read(path):\n    return [1, 2, 3]\n\nÜbung 😀 灯台",
    "The device keeps what it knows and goes on at another bridge. " * 2,
]
LONG_PROMPT_TOKENS = 300

SPECIAL_TOKENS = {
    "llama": {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"},
    "llama-mha": {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<unk>"},
    "qwen2": {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"},
    "llama3-rope": {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"},
    "qwen3-5": {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"},
}


def write_compact(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, ensure_ascii=True, separators=(",", ":")) + "\n", encoding="utf-8")


def versions() -> dict:
    parts = {"transformers": transformers, "torch": torch, "tokenizers": tokenizers, "safetensors": safetensors, "numpy": numpy}
    return {"python": platform.python_version(), **{name: part.__version__ for name, part in parts.items()}}


def float32_base64(rows: torch.Tensor) -> str:
    return base64.b64encode(rows.numpy().astype("<f4").tobytes()).decode()


def write_tokenizer(folder: Path, name: str, tokenizer: tokenizers.Tokenizer) -> PreTrainedTokenizerFast:
    tokenizer.save(str(folder / "tokenizer.json"))
    special = SPECIAL_TOKENS[name]
    settings = {
        "add_bos_token": "bos_token" in special,
        "bos_token": special.get("bos_token"),
        "clean_up_tokenization_spaces": False,
        "model_max_length": 512,
        "tokenizer_class": "PreTrainedTokenizerFast",
        **{key: value for key, value in special.items() if key != "bos_token"},
    }
    if name == "llama-mha":
        # Older configurations hold tokens as objects and several templates as a list.
        settings["bos_token"] = {"__type": "AddedToken", "content": "<s>", "lstrip": False, "normalized": False, "rstrip": False, "single_word": False}
        settings["chat_template"] = [{"name": "default", "template": TEMPLATES[name]}, {"name": "tool_use", "template": "{{ tools | length }} tools, {{ messages | length }} messages"}]
    elif name == "llama3-rope":
        (folder / "chat_template.jinja").write_text(TEMPLATES[name], encoding="utf-8")
    else:
        settings["chat_template"] = TEMPLATES[name]
    write_json(folder / "tokenizer_config.json", settings)
    return PreTrainedTokenizerFast.from_pretrained(folder)


def prompts(tokenizer: PreTrainedTokenizerFast, vocab: int) -> list[list[int]]:
    """A single token, text of growing length, and random ids that fill several prefill chunks."""
    generator = torch.Generator().manual_seed(7)
    return [
        [17],
        *(tokenizer(text).input_ids for text in PROMPTS),
        torch.randint(3, vocab - 16, (LONG_PROMPT_TOKENS,), generator=generator).tolist(),
    ]


@torch.inference_mode()
def greedy(model: torch.nn.Module, prompt: list[int]) -> tuple[list[int], torch.Tensor, float]:
    """@returns the continuation, the logits of every prompt position and continuation step, the smallest gap of a step's top two"""
    out = model(torch.tensor([prompt]), use_cache=True)
    rows, continuation, smallest = [out.logits[0]], [], float("inf")
    for _ in range(CONTINUATION):
        last = rows[-1][-1]
        top = last.topk(2)
        smallest = min(smallest, float(top.values[0] - top.values[1]))
        continuation.append(int(top.indices[0]))
        out = model(torch.tensor([[continuation[-1]]]), past_key_values=out.past_key_values, use_cache=True)
        rows.append(out.logits[0])
    return continuation, torch.cat(rows), smallest


def ends(model: torch.nn.Module) -> set[int]:
    eos = model.generation_config.eos_token_id
    return set(eos if isinstance(eos, list) else [eos])


def oracle_of(folder: Path, tokenizer: PreTrainedTokenizerFast) -> dict | None:
    """None when a step comes too near a tie, ends the text, or the answers repeat themselves: another seed is tried."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    cases, smallest_gap = [], float("inf")
    for prompt in prompts(tokenizer, model.config.vocab_size):
        continuation, logits, smallest = greedy(model, prompt)
        if smallest < MINIMUM_GAP or ends(model) & set(continuation) or len(set(continuation)) < 12:
            return None
        smallest_gap = min(smallest_gap, smallest)
        length = len(prompt)
        kept = sorted({0, length // 2, length - 1, length + CONTINUATION // 2, length + CONTINUATION - 1})
        cases.append({"promptIds": prompt, "continuation": continuation, "positions": kept, "logits": float32_base64(logits[kept])})
    return {"smallestGap": smallest_gap, "vocab": model.config.vocab_size, "cases": cases}


def text_of(tokenizer: PreTrainedTokenizerFast) -> dict:
    rows = []
    for text in STRINGS:
        ids = tokenizer(text, add_special_tokens=False).input_ids
        special = tokenizer(text, add_special_tokens=True).input_ids
        rows.append(
            {
                "ids": ids,
                "withSpecial": special,
                "decoded": tokenizer.decode(special, skip_special_tokens=False),
                "skipped": tokenizer.decode(special, skip_special_tokens=True),
            }
        )
    return {"vocab": len(tokenizer), "rows": rows}


def chat_of(name: str, tokenizer: PreTrainedTokenizerFast) -> list[dict]:
    rows = []
    for messages, tools, add_generation_prompt in CASES:
        row = {"fixture": name, "messages": messages, "tools": tools, "addGenerationPrompt": add_generation_prompt}
        try:
            rendered = tokenizer.apply_chat_template(messages, tools=tools, add_generation_prompt=add_generation_prompt, tokenize=False)
            rows.append({**row, "rendered": rendered})
        except Exception as error:  # noqa: BLE001: whatever the template raises is what we record
            rows.append({**row, "error": str(error)})
    return rows


def main(target: Path) -> None:
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    target.mkdir(parents=True, exist_ok=True)
    write_compact(target / "strings.json", STRINGS)
    chat = []
    for name, make in CHECKPOINTS.items():
        for seed in range(10_000):
            with tempfile.TemporaryDirectory() as temporary:
                folder = Path(temporary) / name
                folder.mkdir()
                tokenizer = write_tokenizer(folder, name, make(folder, seed))
                oracle = oracle_of(folder, tokenizer)
                if oracle is None:
                    continue
                write_compact(folder / "oracle.json", {"versions": versions(), "seed": seed, **oracle})
                write_compact(folder / "text.json", {"versions": versions(), **text_of(tokenizer)})
                chat += chat_of(name, tokenizer)
                shutil.rmtree(target / name, ignore_errors=True)
                shutil.copytree(folder, target / name)
                print(f"{name}: seed {seed}, smallest gap {oracle['smallestGap']:.2e}", flush=True)
                break
        else:
            raise SystemExit(f"{name}: no seed gives steps that lie {MINIMUM_GAP} from a tie")
    write_compact(target / "chat.json", {"versions": versions(), "cases": chat})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
