"""Tests of the draft head in EAGLE's layout: the names of its weights, what a row reads, and what the export writes."""

import json
import tempfile
import unittest
from pathlib import Path

import torch
from safetensors.torch import load_file

from eagle_head import STEPS, EagleHead, eagle_loss, export_eagle
from files import save_checkpoint
from model import Llama
from test_model import CONFIG
from train_adapter import make_eagle

PUBLISHED = {"fc.weight", "fc.bias", "layers.0.post_attention_layernorm.weight"} | {
    f"layers.0.{name}.weight"
    for name in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
}


def random_head() -> EagleHead:
    torch.manual_seed(0)
    return EagleHead(CONFIG).requires_grad_(False)


class Head(unittest.TestCase):
    def test_a_row_reads_its_token_and_the_feature_before_it_and_nothing_later(self):
        generator = torch.Generator().manual_seed(1)
        embedded, features = (torch.randn(1, 9, CONFIG.hidden_size, generator=generator) for _ in range(2))
        head = random_head()
        before = head(embedded, features)
        for changed in (embedded, features):
            changed[:, 6] += 1
            after = head(embedded, features)
            self.assertTrue(torch.equal(after[:, :6], before[:, :6]))
            self.assertFalse(torch.allclose(after[:, 6], before[:, 6]))
            before = after

    def test_starts_as_a_projection(self):
        model = Llama(CONFIG)
        head = make_eagle(model, 1)
        x = torch.randn(1, 3, 2 * CONFIG.hidden_size)
        self.assertTrue(torch.allclose(head(*x.chunk(2, -1)), head.fc(x), atol=1e-5))

    def test_learns_only_where_a_token_follows(self):
        model = Llama(CONFIG).requires_grad_(False)
        model.initialise(0)
        head, ids = EagleHead(CONFIG), torch.randint(CONFIG.vocab_size, (1, 8))
        deep = torch.randn(1, 8, CONFIG.hidden_size)
        loss, agreement = eagle_loss(model, head, ids, deep, torch.zeros(1, 8))
        self.assertEqual((loss.item(), agreement.tolist()), (0, [0] * STEPS))
        loss, _ = eagle_loss(model, head, ids, deep, torch.ones(1, 8))
        loss.backward()
        self.assertTrue(all(weight.grad is not None and weight.grad.any() for weight in head.parameters()))

    def test_is_exported_with_the_published_names(self):
        with tempfile.TemporaryDirectory() as folder:
            work = Path(folder)
            save_checkpoint(work / "eagle.pt", {"config": CONFIG.to_dict(), "eagle": random_head().state_dict()})
            out = export_eagle(work)
            self.assertEqual(load_file(out / "model.safetensors").keys(), PUBLISHED)
            config = json.loads((out / "config.json").read_text())
            self.assertEqual((config["num_hidden_layers"], config["hidden_size"]), (1, CONFIG.hidden_size))


if __name__ == "__main__":
    unittest.main()
