"""Tests of the learned pairs at the cut, of the inverter and of the attack on an obfuscated model."""

import tempfile
import unittest
from dataclasses import replace
from pathlib import Path

import torch

from cut import Cut, load_cut
from model import Llama
from obfuscation import by_counts, deobfuscate, obfuscate
from test_model import CONFIG, tiny_model
from test_training import make_tokens
from train_cut import CutTraining
from train_inverter import Sender, guesses, make_inverter

STATES = torch.randn(2, 40, CONFIG.hidden_size, generator=torch.Generator().manual_seed(0))


def small_cut(width: int = 24, noise: float = 0.5) -> Cut:
    cut = Cut(CONFIG, width, noise)
    cut.initialise(STATES.flatten(0, 1), 1)
    return cut.requires_grad_(False)


class Cuts(unittest.TestCase):
    def test_a_code_has_the_root_mean_square_of_1_and_the_noise_beside_it(self):
        cut = small_cut()
        code = cut.encode(STATES)
        self.assertTrue(torch.allclose(code.square().mean(-1).sqrt(), torch.ones(2, 40), atol=1e-3))
        self.assertAlmostEqual((cut.send(STATES) - code).std().item(), 0.5, delta=0.05)

    def test_the_first_position_is_read_as_it_is_and_no_other(self):
        cut = small_cut()
        read = cut.read(cut.send(STATES), STATES)
        self.assertTrue(torch.equal(read[:, 0], STATES[:, 0]))
        self.assertFalse(torch.isclose(read[:, 1:], STATES[:, 1:]).all(-1).any())

    def test_begins_near_the_states_where_it_has_their_width_and_no_noise(self):
        cut = small_cut(CONFIG.hidden_size, 0.0)
        read = cut.read(cut.send(STATES), STATES)
        self.assertLess((read - STATES).square().mean().item(), 0.3 * STATES.square().mean().item())

    def test_is_the_same_after_it_was_exported(self):
        cut = small_cut()
        with tempfile.TemporaryDirectory() as folder:
            cut.save(Path(folder) / "cut.safetensors")
            loaded = load_cut(Path(folder) / "cut.safetensors", CONFIG)
        self.assertEqual((loaded.width, loaded.noise), (24, 0.5))
        self.assertTrue(torch.allclose(loaded.encode(STATES), cut.encode(STATES), atol=0.01))

    def test_a_run_resumes_where_it_ended(self):
        with tempfile.TemporaryDirectory() as folder:
            work = Path(folder)
            make_tokens(work)
            model = Llama(replace(CONFIG, vocab_size=4096))
            model.initialise(0)
            first = CutTraining(model.requires_grad_(False), work, 24, 0.5, 0.3, 1)
            first.step()
            first.steps = 7
            first.save()
            second = CutTraining(model, work, 24, 0.5, 0.3, 1)
        self.assertEqual((second.steps, second.batches.next_batch), (7, first.batches.next_batch))
        self.assertTrue(torch.equal(second.cut.down.weight, first.cut.down.weight))


class Inverters(unittest.TestCase):
    def test_read_nothing_but_rows_and_name_a_token_of_each(self):
        model, ids = tiny_model(), torch.arange(20)[None] % CONFIG.vocab_size
        inverter = make_inverter(CONFIG, 1, 1)
        logits = guesses(inverter, Sender(model, 0.0, None)(ids))
        self.assertEqual(tuple(logits.shape), (1, 20, CONFIG.vocab_size))
        with torch.no_grad():
            inverter.model.layers[0].mlp.down_proj.weight.add_(1)
        self.assertTrue(torch.equal(guesses(inverter, Sender(model, 0.0, None)(ids)), logits))

    def test_senders_leave_the_first_row_and_the_width(self):
        model, ids = tiny_model(), torch.arange(20)[None] % CONFIG.vocab_size
        plain = Sender(model, 0.0, None)(ids)
        for sender in (Sender(model, 2.0, None), Sender(model, 0.0, small_cut())):
            sent = sender(ids)
            self.assertEqual(sent.shape, plain.shape)
            self.assertTrue(torch.equal(sent[:, 0], plain[:, 0]))
            self.assertFalse(torch.isclose(sent[:, 1:], plain[:, 1:]).all(-1).any())


class Obfuscations(unittest.TestCase):
    def test_are_undone_by_the_public_weights_the_less_the_more_noise_they_have(self):
        torch.manual_seed(0)
        embedding, gate = torch.randn(2000, 32), torch.randn(96, 32)
        shares = []
        for noise in (0.0, 0.3, 5.0):
            secret, secret_gate, order = obfuscate(embedding, gate, noise)
            self.assertEqual(sorted(order.tolist()), list(range(2000)))
            shares.append((deobfuscate(embedding, gate, secret, secret_gate) == order).float().mean().item())
        self.assertEqual(shares[0], 1.0)
        self.assertGreater(shares[1], 0.9)
        self.assertLess(shares[2], 0.1)

    def test_counts_tell_frequent_tokens_where_texts_are_alike(self):
        guess = by_counts(torch.tensor([4, 4, 4, 2, 2, 0]), torch.tensor([1, 1, 3, 3, 3, 0]), 5)
        self.assertEqual(guess[[4, 2, 0]].tolist(), [3, 1, 0])


if __name__ == "__main__":
    unittest.main()
