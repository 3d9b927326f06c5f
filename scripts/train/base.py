"""A frozen Hugging Face checkpoint as the LLM to distil from: Llama or Qwen2, the families that Brim serves.

Commands that train, use or export drafters take --base DIR; the LLM is then that checkpoint instead of <work>/llm.pt.
Weights are bf16 on a GPU and fp32 on a CPU. OWN_MODELS.md lists the memory needed.
"""

import argparse
import hashlib
import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.nn import functional as F

from corpus import Message
from errors import InputError, is_out_of_memory
from model import SPLIT, LlmConfig, Llama

FAMILIES = ("LlamaForCausalLM", "Qwen2ForCausalLM")  # as in core/model/bundle/families
SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")  # required in config.json
LONGEST_CONTEXT = 8192  # positions that a drafter's RoPE tables cover while it is trained
STATES_PER_TOKEN = 160  # rows of `hidden` fp32 numbers kept per token of a step, roughly; the attention of roll_out is most
LARGEST_LOGITS = 1 << 26  # numbers of one fp32 block of logits; five such blocks are alive at a time
GIB = 1 << 30


def add_base(parser: argparse.ArgumentParser) -> None:
    """Adds --base, --split and --device."""
    parser.add_argument("--base", type=Path, metavar="DIR", help="Hugging Face checkpoint to use as the LLM instead of <work>/llm.pt")
    parser.add_argument("--split", type=int, default=SPLIT, metavar="M", help="with --base: layers on the device (default: 1)")
    parser.add_argument("--device", help="with --base: cuda, cuda:1, cpu (default: cuda if available)")


class BaseModel(nn.Module):
    """The checkpoint, with the interface of model.Llama. `split`: m of HAT; caches are transformers' DynamicCache."""

    def __init__(self, causal: nn.Module, config: LlmConfig, split: int, stop: set[int]):
        super().__init__()
        self.causal, self.config, self.split, self.stop = causal, config, split, stop

    @property
    def device(self) -> torch.device:
        return self.causal.lm_head.weight.device

    def run_layers(self, x: Tensor, first: int, last: int, caches: object | None = None) -> Tensor:
        """Residual stream [batch, time, hidden] after layers first … last−1, fp32."""
        body = self.causal.model
        start = caches.get_seq_length(first) if caches is not None else 0
        x = x.to(self.device, self.causal.lm_head.weight.dtype)
        positions = torch.arange(start, start + x.shape[1], device=self.device)[None]
        tables = body.rotary_emb(x, positions)
        for layer in body.layers[first:last]:
            x = layer(x, position_ids=positions, position_embeddings=tables, past_key_values=caches)
        return x.float()

    def shallow(self, ids: Tensor, split: int, caches: object | None = None) -> Tensor:
        """ids [batch, time] → residual stream after the first `split` layers."""
        return self.run_layers(self.causal.model.embed_tokens(ids.to(self.device)), 0, split, caches)

    def deep(self, shallow: Tensor, split: int, caches: object | None = None) -> Tensor:
        """Shallow states → last residual stream, before the final norm."""
        return self.run_layers(shallow, split, self.config.num_hidden_layers, caches)

    def final_norm(self, deep: Tensor) -> Tensor:
        """The final norm, in fp32."""
        norm = self.causal.model.norm
        return F.rms_norm(deep.float(), norm.weight.shape, norm.weight.float(), self.config.rms_norm_eps)

    def head(self, deep: Tensor) -> Tensor:
        """Final norm and head → logits [batch, time, vocab]."""
        weight = self.causal.lm_head.weight
        return F.linear(self.final_norm(deep).to(weight.dtype), weight).float()

    def make_caches(self) -> object:
        """An empty cache for all layers."""
        from transformers import DynamicCache

        return DynamicCache()


Teacher = Llama | BaseModel


def final_norm(model: Teacher, deep: Tensor) -> Tensor:
    """States before the final norm → after it."""
    return model.final_norm(deep) if isinstance(model, BaseModel) else model.model.norm(deep)


def head_weight(model: Teacher) -> Tensor:
    """The head's matrix [vocab, hidden]."""
    return model.causal.lm_head.weight if isinstance(model, BaseModel) else model.model.embed_tokens.weight


def split_of(model: Teacher) -> int:
    """m: layers on the device."""
    return model.split if isinstance(model, BaseModel) else SPLIT


def fingerprint(model: Teacher) -> str:
    """A short hash of the LLM's weights (of a checkpoint: of its norms and its first layer): a student belongs to one LLM."""
    digest = hashlib.sha256()
    if isinstance(model, BaseModel):
        digest.update(f"{model.config} split {model.split}".encode())
    for name, tensor in (model.causal if isinstance(model, BaseModel) else model).state_dict().items():
        if isinstance(model, Llama):
            digest.update(tensor.numpy().tobytes())
        elif tensor.dim() == 1 or name.startswith("model.layers.0."):
            digest.update(tensor.bfloat16().float().cpu().numpy().tobytes())  # the same in bf16 and fp32
    return digest.hexdigest()[:16]


def read_config(folder: Path) -> dict:
    """config.json of a supported checkpoint; InputError if it is missing or of another family."""
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        known = set(config["architectures"]) & set(FAMILIES)
        missing = [name for name in SIZES if not isinstance(config.get(name), int)]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{folder} is not a Hugging Face checkpoint: cannot read {path.name} ({error})") from error
    if not known:
        raise InputError(f"{path}: {', '.join(config['architectures'])} is not supported; supported are {', '.join(FAMILIES)}")
    if missing:
        raise InputError(f"{path} lacks {', '.join(missing)}; download the checkpoint again")
    if config.get("quantization_config") or config.get("use_sliding_window"):
        raise InputError(f"{path}: quantised weights and sliding windows are not supported; use the original checkpoint")
    return config


def count_weights(folder: Path) -> int:
    """Numbers in the checkpoint's safetensors files; InputError if there are none or one is cut short."""
    files, count = sorted(folder.glob("*.safetensors")), 0
    if not files:
        raise InputError(f"{folder} has no *.safetensors; download the checkpoint again (other formats are not supported)")
    for path in files:
        try:
            with safe_open(path, "pt") as tensors:
                count += sum(math.prod(tensors.get_slice(name).get_shape()) for name in tensors.keys())
        except (SafetensorError, OSError) as error:
            raise InputError(f"{path} is damaged ({error}); download it again") from error
    return count


def memory_needed(weights: int, config: dict, tokens: int, on_gpu: bool) -> int:
    """Bytes of a training step over `tokens` tokens: weights, an adapter with its optimiser, kept states, logits."""
    hidden = config["hidden_size"]
    logits = min(LARGEST_LOGITS, tokens * config["vocab_size"])
    return weights * (2 if on_gpu else 4) + 4 * hidden**2 * 16 + tokens * hidden * 4 * STATES_PER_TOKEN + 5 * 4 * logits


def memory_available(device: torch.device) -> int | None:
    """Bytes free on the GPU, or available in RAM; None if the system does not report it."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")), None)


def choose_device(name: str | None) -> torch.device:
    """The named device, else the GPU if there is one."""
    try:
        device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
    except RuntimeError as error:
        raise InputError(f"--device {name}: no such device; try cuda or cpu") from error
    if device.type not in ("cpu", "cuda") or (device.type == "cuda" and not torch.cuda.is_available()):
        raise InputError(f"--device {device}: PyTorch finds no such device here; try --device cpu")
    return device


def load_base(folder: Path, split: int, device_name: str | None, tokens: int) -> BaseModel:
    """The checkpoint, frozen, on its device; InputError if it is unsupported or would not fit with `tokens` a step."""
    from transformers import AutoModelForCausalLM

    raw, weights, device = read_config(folder), count_weights(folder), choose_device(device_name)
    if not 1 <= split < raw["num_hidden_layers"]:
        raise InputError(f"--split {split}: the checkpoint has {raw['num_hidden_layers']} layers; each side needs at least one")
    needed, available = memory_needed(weights, raw, tokens, device.type == "cuda"), memory_available(device)
    if available is not None and needed > available:
        raise InputError(
            f"{folder} needs about {needed / GIB:.1f} GiB on {device}, {available / GIB:.1f} are free; "
            "try a smaller --batch or --context, or a smaller checkpoint"
        )
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    try:
        causal = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, local_files_only=True).to(device)
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        if is_out_of_memory(error):
            raise
        raise InputError(f"cannot load {folder} ({str(error).splitlines()[0]}); download it again") from error
    c = causal.config
    heads = c.num_attention_heads
    head_dim = getattr(c, "head_dim", None) or c.hidden_size // heads
    if head_dim % 16:
        raise InputError(f"{folder}: heads of size {head_dim} are not supported; the size must be a multiple of 16")
    rope = getattr(c, "rope_parameters", None) or {}
    config = LlmConfig(
        vocab_size=c.vocab_size,
        hidden_size=c.hidden_size,
        num_hidden_layers=c.num_hidden_layers,
        num_attention_heads=heads,
        num_key_value_heads=c.num_key_value_heads,
        head_dim=head_dim,
        intermediate_size=c.intermediate_size,
        max_position_embeddings=min(c.max_position_embeddings, LONGEST_CONTEXT),
        rope_theta=float(rope.get("rope_theta", getattr(c, "rope_theta", 10000.0))),
        rms_norm_eps=c.rms_norm_eps,
    )
    eos = causal.generation_config.eos_token_id
    stop = {eos} if isinstance(eos, int) else set(eos or ())
    return BaseModel(causal.requires_grad_(False).eval(), config, split, stop)


class BaseEncoder:
    """The checkpoint's own tokenizer and chat template, with the interface of encode.Encoder."""

    def __init__(self, folder: Path):
        from transformers import AutoTokenizer

        read_config(folder)
        try:
            self.tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        except (OSError, ValueError, KeyError) as error:
            raise InputError(f"cannot read the tokenizer of {folder} ({str(error).splitlines()[0]})") from error
        if not self.tokenizer.chat_template or not self.tokenizer.is_fast:
            raise InputError(f"{folder} needs a tokenizer.json with a chat template; use an instruct checkpoint")

    def render(self, messages: Sequence[Message], add_generation_prompt: bool = False) -> str:
        """The chat as the template renders it; InputError if the template refuses it, e.g. because of the order of roles."""
        from jinja2 import TemplateError

        try:
            return self.tokenizer.apply_chat_template(
                list(messages), tokenize=False, add_generation_prompt=add_generation_prompt
            )
        except TemplateError as error:
            raise InputError(f"the checkpoint's chat template refuses a chat ({error}); check the order of roles") from error

    def ids(self, text: str) -> list[int]:
        """Token ids of rendered text; the template has added the special tokens."""
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]

    def count(self, text: str) -> int:
        """Tokens of a plain text."""
        return len(self.ids(text))

    def prompt(self, messages: Sequence[Message]) -> list[int]:
        """Ids of a chat that ends where the answer begins."""
        return self.ids(self.render(messages, True))

    def encode(self, messages: Sequence[Message], answers_from: int | None, given: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """(ids int32 [tokens], learn bool [tokens]); learnt as in encode.Encoder.encode.

        Where answers end is found by rendering the chat's beginnings; InputError if the template writes a beginning
        otherwise than in the whole chat (some drop earlier reasoning): then no mark would be right.
        """
        text = self.render(messages)
        encoding = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        ids = np.asarray(encoding["input_ids"], np.int32)
        if answers_from is None:
            return ids, np.ones(len(ids), bool)
        learn = np.zeros(len(ids), bool)
        starts = np.asarray([start for start, _ in encoding["offset_mapping"]])
        for index, message in enumerate(messages):
            if message["role"] == "assistant" and index >= max(answers_from, 1):
                begin, end = self.render(messages[:index], True), self.render(messages[: index + 1])
                if not (text.startswith(begin) and text.startswith(end)):
                    raise InputError("the checkpoint's chat template rewrites earlier messages; use one that only appends")
                learn |= (starts >= len(begin) + given) & (starts < len(end))
        return ids, learn
