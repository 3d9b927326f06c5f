"""Tests of tokenizer, model, generation, export and the accept-length arithmetic."""

import json
import tempfile
import unittest
from pathlib import Path

import torch

from errors import InputError
from evaluate import is_looping
from export import check_adapters, export_adapter, export_llm, load_exported
from files import save_checkpoint
from generate import generate, wire
from model import Adapter, LlmConfig, Llama
from optimizer import orthogonalise, rate
from tokenizer import SPECIAL, render, train_tokenizer

CONFIG = LlmConfig(vocab_size=300, hidden_size=64, num_hidden_layers=3, num_attention_heads=4, head_dim=16, intermediate_size=96)
MESSAGES = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": " héllo "}]


def tiny_model() -> Llama:
    model = Llama(CONFIG)
    model.initialise(0)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_((weight * 4).half().float())
    return model.requires_grad_(False).eval()


def tiny_tokenizer():
    return train_tokenizer(["the king and the fox went out", "once upon a time"], 300)


class Tokenizing(unittest.TestCase):
    def test_any_text_survives_a_round_trip(self):
        tokenizer = tiny_tokenizer()
        for text in ("héllo 🦊 wörld\n\n  \t数学 ٣٤", "a\u0301 \u00e9 \u0000 \ufffd", "  lead and trail  ", ""):
            self.assertEqual(tokenizer.decode(tokenizer.encode(text).ids), text)

    def test_special_tokens_have_the_first_ids(self):
        self.assertEqual(tiny_tokenizer().encode("".join(SPECIAL)).ids, [0, 1, 2])


class Modelling(unittest.TestCase):
    def test_splitting_changes_nothing_but_the_fp16_rounding(self):
        model, ids = tiny_model(), torch.arange(20)[None]
        whole = model(ids)
        self.assertTrue(torch.equal(model.head(model.deep(model.shallow(ids, 1), 1)), whole))
        self.assertLess((model.head(wire(model.deep(wire(model.shallow(ids, 1)), 1))) - whole).abs().max().item(), 0.05)

    def test_cached_generation_is_greedy_decoding(self):
        model, ids = tiny_model(), [3, 14, 15, 92, 65]
        for token in generate(model, [ids[:], ids[::-1]], 12, stop=set())[0]:
            deep = model.deep(wire(model.shallow(torch.tensor([ids]), 1)), 1)
            self.assertEqual(token, model.head(wire(deep))[0, -1].argmax().item())
            ids = [*ids, token]

    def test_a_fresh_adapter_passes_the_shallow_state_through(self):
        adapter, states = Adapter(CONFIG), torch.randn(1, 7, 64)
        adapter.initialise(0)
        self.assertTrue(torch.equal(adapter(states), states))

    def test_the_adapter_is_causal(self):
        adapter, states = Adapter(CONFIG), torch.randn(1, 7, 64)
        changed = states.clone()
        changed[:, 5:] += 1
        self.assertTrue(torch.allclose(adapter(states)[:, :5], adapter(changed)[:, :5], atol=1e-6))


class Exporting(unittest.TestCase):
    def test_transformers_reads_the_same_model_and_template(self):
        from transformers import AutoModelForCausalLM, AutoTokenizer

        model, adapter = tiny_model(), Adapter(CONFIG)
        adapter.initialise(0)
        with tempfile.TemporaryDirectory() as folder:
            work, out = Path(folder) / "work", Path(folder) / "llm"
            save_checkpoint(work / "llm.pt", {"config": CONFIG.to_dict(), "model": model.state_dict()})
            save_checkpoint(work / "adapter.pt", {"config": CONFIG.to_dict(), "adapter": adapter.state_dict(), "split": 1})
            (work / "tokenizer.json").write_text(tiny_tokenizer().to_str())
            export_llm(work, out)
            export_adapter(work, out)
            theirs = AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32)
            tokenizer = AutoTokenizer.from_pretrained(out)
            ids = torch.arange(40)[None]
            self.assertTrue(torch.allclose(theirs(ids).logits, model(ids), atol=1e-4))
            with self.assertRaisesRegex(InputError, "another LLM"):
                save_checkpoint(work / "adapter.pt", {"llm": "other"})
                check_adapters(work, ["adapter"])
            ours = load_exported(out)
            self.assertTrue(torch.equal(ours(ids), model(ids)))
            for generation in (False, True):
                text = tokenizer.apply_chat_template(MESSAGES, tokenize=False, add_generation_prompt=generation)
                self.assertEqual(text, render(MESSAGES, generation))
            self.assertEqual(json.loads((out / "adapter" / "adapter_config.json").read_text())["split"], 1)


class Numbers(unittest.TestCase):
    def test_an_answer_that_repeats_itself_is_called_looping(self):
        self.assertTrue(is_looping([5, 6, 7] * 20))
        self.assertFalse(is_looping(list(range(60))))
        self.assertFalse(is_looping([1, 2]))

    def test_muon_updates_are_nearly_orthogonal(self):
        update = orthogonalise(torch.randn(2, 16, 48, generator=torch.Generator().manual_seed(0)))
        singular = torch.linalg.svdvals(update)
        self.assertTrue(0.5 < singular.min() and singular.max() < 1.4, singular)

    def test_the_rate_warms_up_holds_and_decays_to_zero(self):
        self.assertLess(rate(0.0), 0.2)
        self.assertEqual(rate(0.2), 1.0)
        self.assertEqual(rate(1.0), 0.0)


if __name__ == "__main__":
    unittest.main()
