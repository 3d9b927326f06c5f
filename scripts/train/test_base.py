"""Tests of --base: the whole chain on tiny Qwen2 and Llama checkpoints with a tokenizer of their own, and bad input."""

import json
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch

import distil
from base import BaseEncoder, fingerprint, load_base, read_config
from errors import InputError
from export import load_exported_adapter
from export_medusa import load_medusa
from tokenizer import CHAT_TEMPLATE, tokenizer_config, train_tokenizer

HERE = Path(__file__).parent
SIZES = {
    "vocab_size": 320,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 1024,
    "bos_token_id": None,
    "eos_token_id": 2,
}
CHATS = [{"prompt": f"Tell me of king {n}.", "answer": f"King {n} rode to town {n} and bought a golden apple."} for n in range(80)]


def make_checkpoint(folder: Path, family: str) -> None:
    """A random checkpoint: Qwen2 (biases, untied) or Llama (tied), both with shared key-value heads."""
    from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    if family == "qwen2":
        model = Qwen2ForCausalLM(Qwen2Config(**SIZES, tie_word_embeddings=False))
        for layer in model.model.layers:
            torch.nn.init.normal_(layer.self_attn.q_proj.bias)
    else:
        model = LlamaForCausalLM(LlamaConfig(**SIZES, tie_word_embeddings=True))
    model.save_pretrained(folder)
    texts = [chat["prompt"] + chat["answer"] for chat in CHATS]
    (folder / "tokenizer.json").write_text(train_tokenizer(texts, 320).to_str())
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer_config(1024)))


def write_chats(path: Path) -> Path:
    path.write_text("".join(json.dumps(chat) + "\n" for chat in CHATS), encoding="utf-8")
    return path


def command(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """A command as a user runs it."""
    return subprocess.run(
        [sys.executable, str(HERE / script), *map(str, arguments)], capture_output=True, text=True, check=False
    )


class Checkpoints(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.base, self.work = self.folder / "base", self.folder / "work"
        torch.set_num_threads(1)

    def test_states_and_logits_are_those_of_transformers(self):
        for family in ("qwen2", "llama"):
            shutil.rmtree(self.base, ignore_errors=True)
            make_checkpoint(self.base, family)
            model, ids = load_base(self.base, 2, "cpu", 64), torch.arange(3, 43)[None]
            theirs = model.causal(ids, output_hidden_states=True)
            shallow = model.shallow(ids, 2)
            deep = model.deep(shallow, 2)
            self.assertTrue(torch.allclose(shallow, theirs.hidden_states[2], atol=1e-5), family)
            self.assertTrue(torch.allclose(model.final_norm(deep), theirs.hidden_states[-1], atol=1e-4), family)
            self.assertTrue(torch.allclose(model.head(deep), theirs.logits, atol=1e-4), family)
            caches = model.make_caches()
            parts = [model.deep(model.shallow(part, 2, caches), 2, caches) for part in ids.split([36, 1, 1, 1, 1], 1)]
            self.assertTrue(torch.allclose(torch.cat(parts, 1), deep, atol=1e-4), family)

    def chain(self, family: str) -> None:
        """tasks → rollouts → three students → exports, as commands; then what lies beside the checkpoint."""
        make_checkpoint(self.base, family)
        data = write_chats(self.folder / "chats.jsonl")
        base = ("--base", self.base, "--work", self.work)
        split = (*base, "--split", 2, "--device", "cpu")
        steps = (*split, "--steps", 2, "--batch", 2, "--context", 64, "--threads", 1)
        for script, arguments in (
            ("tasks.py", (*base, "--data", data)),
            ("rollouts.py", (*split, "--data", data, "--batches", 4, "--batch", 4, "--threads", 1)),
            ("train_adapter.py", steps),
            ("train_adapter.py", (*steps, "--paper")),
            ("train_medusa.py", steps),
            ("export.py", base),
            ("export_medusa.py", (*split, "--threads", 1)),
        ):
            done = command(script, *arguments)
            self.assertEqual(done.returncode, 0, f"{script}: {done.stderr[-2000:]}")
        model = load_base(self.base, 2, "cpu", 64)
        for name in ("adapter", "adapter-paper"):
            self.assertEqual(json.loads((self.base / name / "adapter_config.json").read_text())["split"], 2)
            state = torch.load(self.work / f"{name}.pt", weights_only=True)
            self.assertEqual(state["llm"], fingerprint(model))
            for key, weight in load_exported_adapter(self.base, model.config, name).state_dict().items():
                self.assertTrue(torch.equal(weight, state[name][key].half().float()), key)
        self.assertEqual(len(load_medusa(self.base)[1]), 8)

    def test_the_whole_chain_runs_on_qwen2(self):
        self.chain("qwen2")

    def test_the_whole_chain_runs_on_a_tied_llama(self):
        self.chain("llama")

    def test_answers_are_marked_in_the_checkpoints_template_and_unstable_templates_refused(self):
        make_checkpoint(self.base, "llama")
        encoder = BaseEncoder(self.base)
        messages = [
            {"role": "user", "content": "Tell me."},
            {"role": "assistant", "content": "First."},
            {"role": "user", "content": "More."},
            {"role": "assistant", "content": "King 7."},
        ]
        ids, learn = encoder.encode(messages, 3)
        self.assertEqual(ids.dtype, np.int32)
        self.assertEqual(encoder.tokenizer.decode(ids[learn]), "King 7.<|im_end|>\n")
        encoder.tokenizer.chat_template = "{{ messages | length }}" + CHAT_TEMPLATE
        with self.assertRaisesRegex(InputError, "rewrites earlier messages"):
            encoder.encode(messages, 3)

    def test_blocks_of_positions_give_the_same_loss_and_gradient(self):
        make_checkpoint(self.base, "qwen2")
        model = load_base(self.base, 1, "cpu", 64)
        deep, keep = torch.randn(2, 9, 64), torch.ones(2, 9)
        found = []
        for largest in (1 << 26, 320 * 4):
            states = torch.randn(2, 9, 64, generator=torch.Generator().manual_seed(3)).requires_grad_()
            with patch.object(distil, "LARGEST_LOGITS", largest):
                loss, agreement = distil.distillation_loss(model, states, deep, keep, 1.0, 0.1)
            loss.backward()
            found.append((loss.detach(), agreement, states.grad))
        for one, blocks in zip(*found, strict=True):
            self.assertTrue(torch.allclose(one, blocks, atol=1e-5))


class BadInput(unittest.TestCase):
    def test_every_fault_is_one_line_and_nothing_is_written(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            make_checkpoint(folder / "base", "llama")
            for copy in ("cut", "other"):
                shutil.copytree(folder / "base", folder / copy)
            weights = folder / "cut" / "model.safetensors"
            weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])
            config = json.loads((folder / "other" / "config.json").read_text())
            (folder / "other" / "config.json").write_text(json.dumps(config | {"architectures": ["GPT2LMHeadModel"]}))
            (folder / "empty.jsonl").write_text("")
            (folder / "latin.jsonl").write_bytes('{"prompt": "é"}'.encode("latin-1"))
            for script, base, data, message in (
                ("tasks.py", "base", "none.jsonl", "none.jsonl"),
                ("tasks.py", "base", "empty.jsonl", "no chats"),
                ("tasks.py", "base", "latin.jsonl", "UTF-8"),
                ("tasks.py", "other", "empty.jsonl", "GPT2LMHeadModel is not supported"),
                ("train_adapter.py", "cut", None, "is damaged"),
                ("train_adapter.py", "nowhere", None, "is not a Hugging Face checkpoint"),
            ):
                data_option = ("--data", folder / data) if data else ()
                done = command(script, "--base", folder / base, "--work", folder / "work", *data_option)
                self.assertEqual((done.returncode, len(done.stderr.splitlines())), (1, 1), done.stderr)
                self.assertIn(message, done.stderr)
            self.assertFalse((folder / "work").exists())

    def test_a_checkpoint_that_would_not_fit_and_a_bad_split_are_refused(self):
        with tempfile.TemporaryDirectory() as name:
            make_checkpoint(Path(name), "qwen2")
            self.assertEqual(read_config(Path(name))["num_hidden_layers"], 4)
            with self.assertRaisesRegex(InputError, "GiB"):
                load_base(Path(name), 1, "cpu", 1 << 40)
            with self.assertRaisesRegex(InputError, "--split 4"):
                load_base(Path(name), 4, "cpu", 64)


if __name__ == "__main__":
    unittest.main()
