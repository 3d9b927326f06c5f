"""Tests of the rotation that is folded into a checkpoint, and of the attacks on it."""

import unittest

import torch
from torch.nn import functional as F

from errors import InputError
from model import Llama
from rotate import EMBEDDING, HEAD, by_weights, changed, random_key, rotated, without_norms
from test_model import CONFIG, tiny_model


def varied_model() -> Llama:
    """With norms of many weights."""
    model = tiny_model()
    generator = torch.Generator().manual_seed(1)
    for name, weight in model.named_parameters():
        if "norm" in name:
            weight.copy_(torch.rand(weight.shape, generator=generator) + 0.5)
    return model


class Rotations(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.model = varied_model()
        self.folded = without_norms(self.model.state_dict())
        self.key = random_key(CONFIG.hidden_size)
        self.secret = rotated(self.folded, self.key)

    def test_change_the_states_by_the_key_and_nothing_else(self):
        ids = torch.arange(20)[None]
        other = Llama(CONFIG)
        other.load_state_dict({name: tensor for name, tensor in self.secret.items() if name != HEAD})
        plain, turned = self.model.shallow(ids, 1), other.shallow(ids, 1)
        self.assertTrue(torch.allclose(plain @ self.key.float(), turned, atol=1e-4))
        self.assertFalse(torch.allclose(plain, turned, atol=0.1))
        logits = F.linear(other.model.norm(other.deep(turned, 1)), self.secret[HEAD])
        self.assertTrue(torch.allclose(logits, self.model(ids), atol=1e-3))

    def test_are_found_by_public_weights_even_where_the_secret_ones_differ(self):
        def error(share: float) -> float:
            return (by_weights(self.folded, rotated(changed(self.folded, share), self.key), 1) - self.key).norm().item()

        size = self.key.norm().item()
        self.assertLess(error(0.0), 1e-4 * size)
        self.assertLess(error(0.3), 0.3 * size)
        self.assertGreater(error(30.0), size)

    def test_are_not_folded_into_what_is_no_llama(self):
        with self.assertRaisesRegex(InputError, "cannot be folded: model.layers.0.mlp.experts.weight"):
            rotated({**self.folded, "model.layers.0.mlp.experts.weight": self.folded[EMBEDDING]}, self.key)


if __name__ == "__main__":
    unittest.main()
