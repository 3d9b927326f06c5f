"""Tests of the early-exit loss: it trains the first layer and Λ, leaves the rest to the language loss, and resumes."""

import tempfile
import unittest
from dataclasses import replace
from pathlib import Path

import torch

from errors import InputError
from export import load_llm_checkpoint
from feature_adapter import FeatureAdapter, visible_features
from model import SHAPES, SPLIT, Adapter, LlmConfig, Llama
from test_training import make_tokens
from train_llm import LlmTraining, Settings, mean_loss, train

CONFIG = LlmConfig(vocab_size=64, hidden_size=32, num_hidden_layers=3, num_attention_heads=2, num_key_value_heads=1, head_dim=16)


def model_and_adapter() -> tuple[Llama, Adapter]:
    """Small, with random weights, Λ's output projection included."""
    model, adapter = Llama(CONFIG), Adapter(CONFIG)
    model.initialise(0)
    adapter.initialise(0)
    torch.nn.init.normal_(adapter.attention.o_proj.weight, 0.0, 0.1, generator=torch.Generator().manual_seed(1))
    return model, adapter


class Loss(unittest.TestCase):
    def setUp(self) -> None:
        torch.set_num_threads(1)
        self.ids = torch.randint(0, 64, (4, 20), generator=torch.Generator().manual_seed(2))

    def test_its_second_part_reaches_lambda_and_the_first_layer_but_no_deeper_one(self):
        model, adapter = model_and_adapter()
        (mean_loss(model, (adapter, 1.0), None, self.ids, self.ids) - mean_loss(model, None, None, self.ids, self.ids)).backward()
        self.assertGreater(adapter.attention.o_proj.weight.grad.abs().max(), 1e-4)
        self.assertGreater(model.model.layers[0].mlp.up_proj.weight.grad.abs().max(), 1e-4)
        for layer in model.model.layers[SPLIT:]:
            for weight in layer.parameters():
                self.assertTrue(weight.grad is None or weight.grad.abs().max() < 1e-6)

    def test_training_makes_the_draft_model_say_what_the_whole_model_says(self):
        model, adapter = model_and_adapter()
        optimizer = torch.optim.Adam([*model.parameters(), *adapter.parameters()], 0.01)
        for _ in range(60):
            optimizer.zero_grad()
            mean_loss(model, (adapter, 1.0), None, self.ids[:1, :-1], self.ids[:1, 1:]).backward()
            optimizer.step()
        with torch.no_grad():
            shallow = model.shallow(self.ids[:1, :-1], SPLIT)
            drafted, chosen = model.head(adapter(shallow)).argmax(-1), model.head(model.deep(shallow, SPLIT)).argmax(-1)
        self.assertGreater((drafted == chosen).float().mean().item(), 0.8)


class Runs(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.work = Path(folder.name)
        torch.set_num_threads(1)
        make_tokens(self.work)

    def run_of(self, early_exit: float, name: str = "llm") -> LlmTraining:
        return LlmTraining(self.work, 1, 5, replace(SHAPES["slm-wide"], max_position_embeddings=512), name, Settings(early_exit=early_exit))

    def test_lambda_is_saved_resumed_and_handed_on(self):
        training = self.run_of(0.5)
        train(training, self.work, 600, float("inf"))
        resumed, longer = self.run_of(0.5), self.run_of(0.5, "longer")
        resumed.resume()
        longer.start_from(training.path)
        for name, weight in training.adapter.state_dict().items():
            self.assertTrue(torch.equal(weight, resumed.adapter.state_dict()[name]), name)
            self.assertTrue(torch.equal(weight, longer.adapter.state_dict()[name]), name)
        self.assertGreater(training.adapter.attention.o_proj.weight.abs().max(), 0)
        with self.assertRaisesRegex(InputError, "another earlyExit"):
            self.run_of(0.0).resume()
        self.assertEqual(load_llm_checkpoint(self.work).config, training.config)


class HandingOn(unittest.TestCase):
    def test_the_adapter_with_features_starts_as_lambda_where_key_and_value_heads_of_a_group_are_equal(self):
        model, plain = model_and_adapter()
        with torch.no_grad():
            for projection in (plain.attention.k_proj, plain.attention.v_proj):
                heads = projection.weight.view(CONFIG.num_attention_heads, CONFIG.head_dim, -1)
                heads[1] = heads[0]
            features = FeatureAdapter(CONFIG)
            features.initialise(0)
            features.start_from(plain)
            shallow = torch.randn(1, 9, CONFIG.hidden_size, generator=torch.Generator().manual_seed(3))
            known = visible_features(torch.randn(1, 9, CONFIG.hidden_size), torch.arange(9)[None] >= 4)
            self.assertTrue(torch.allclose(features.roll_out(shallow, known, 1)[0], plain(shallow), atol=1e-5))


if __name__ == "__main__":
    unittest.main()
