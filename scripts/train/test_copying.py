"""Tests of copying.py: what is learnt follows from what stands earlier in the window, and a small model learns it."""

import unittest

import numpy as np
import torch
from torch.nn import functional as F

from copying import SPAN, copying_window
from dataset import IGNORE
from model import LlmConfig, Llama
from optimizer import make_optimizers

PIECES = [np.random.default_rng(number).integers(0, 60, 200, dtype=np.int32) for number in range(20)]


class Windows(unittest.TestCase):
    def test_every_learnt_token_followed_the_same_two_tokens_before(self):
        for step in range(20):
            inputs, targets = (tensor[0].tolist() for tensor in copying_window(PIECES, 300, 1, step))
            learnt = [at for at, target in enumerate(targets) if target != IGNORE]
            self.assertGreater(len(learnt), 300 // 8)
            for at in learnt:
                earlier = [place for place in range(at) if inputs[place] == inputs[at] and inputs[place + 1] == targets[at]]
                self.assertTrue(earlier, (step, at))

    def test_a_step_repeats_exactly_and_marks_do_not_matter(self):
        for ours, theirs in zip(
            copying_window(PIECES, 64, 1, 3), copying_window([~piece for piece in PIECES], 64, 1, 3), strict=True
        ):
            self.assertTrue(torch.equal(ours, theirs))
        self.assertFalse(torch.equal(copying_window(PIECES, 64, 1, 3)[0], copying_window(PIECES, 64, 1, 4)[0]))
        self.assertGreaterEqual(SPAN[0], 2)

    def test_a_model_of_two_layers_learns_to_copy(self):
        torch.set_num_threads(1)
        model = Llama(LlmConfig(64, 32, 2, 2, 2, 16, 64))
        model.initialise(0)
        optimizers = make_optimizers(model, 0.05, 0.025)

        def loss(step: int) -> torch.Tensor:
            windows = [copying_window(PIECES, 96, 7, step * 16 + row) for row in range(16)]
            inputs, targets = (torch.cat(part) for part in zip(*windows, strict=True))
            return F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), ignore_index=IGNORE)

        before = loss(10_000).item()
        step, copied = 0, before
        while copied > 0.5 * before and step < 1500:  # it comes at once, after some 400 steps without a sign of it
            copied = loss(step)
            copied.backward()
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
            step += 1
        self.assertLess(loss(10_000).item(), 0.6 * before)


if __name__ == "__main__":
    unittest.main()
