"""Tests of loops.py: what is repeated, what is unlearnt, and that it works on a model that loops."""

import unittest
from collections.abc import Callable

import numpy as np
import torch

from dataset import IGNORE
from loops import LENGTH, ROWS, SENTENCE, looping_batch, unlikelihood
from model import LlmConfig, Llama
from train_llm import loop_loss

PIECES = [np.arange(start, start + 200, dtype=np.int32) % 60 + 1 for start in range(0, 400, 7)]


class Batches(unittest.TestCase):
    def test_rows_repeat_their_last_tokens_and_only_repetitions_are_targets(self):
        for step in range(50):
            inputs, targets = looping_batch(PIECES, 1, step)
            self.assertEqual(inputs.shape, (ROWS, LENGTH))
            for row, wanted in zip(inputs.tolist(), targets.tolist(), strict=True):
                first = next(at for at, target in enumerate(wanted) if target != IGNORE)
                self.assertTrue(all(target != IGNORE for target in wanted[first:]))
                self.assertEqual(wanted[first:-1], row[first + 1 :])
                period = next(p for p in range(3, 33) if row[-3 * p : -p] == row[-2 * p :])
                self.assertEqual(wanted[first], row[first + 1 - period])
                if period < SENTENCE:  # twice in a row is allowed
                    self.assertEqual(row[first + 1 - period : first + 1], row[first + 1 - 2 * period : first + 1 - period])

    def test_a_step_repeats_exactly_and_tokens_that_are_not_learnt_count_as_text(self):
        marked = [~piece for piece in PIECES]
        for ours, theirs in zip(looping_batch(PIECES, 1, 3), looping_batch(marked, 1, 3), strict=True):
            self.assertTrue(torch.equal(ours, theirs))
        self.assertFalse(torch.equal(looping_batch(PIECES, 1, 3)[0], looping_batch(PIECES, 1, 4)[0]))


class Loss(unittest.TestCase):
    def test_is_zero_where_the_repetition_is_impossible_and_large_where_it_is_certain(self):
        targets = torch.tensor([[IGNORE, 2]])
        never, surely = torch.zeros(1, 2, 4), torch.zeros(1, 2, 4)
        never[0, 1, 2], surely[0, 1, 2] = -50, 50
        self.assertAlmostEqual(unlikelihood(never, targets).item(), 0, places=5)
        self.assertGreater(unlikelihood(surely, targets).item(), 5)
        self.assertAlmostEqual(unlikelihood(torch.zeros(1, 2, 4), targets).item(), -np.log(0.75), places=5)

    def test_a_model_that_has_learnt_to_repeat_unlearns_it(self):
        torch.set_num_threads(1)
        model = Llama(LlmConfig(64, 32, 2, 2, 1, 16, 64))
        model.initialise(0)
        optimizer = torch.optim.Adam(model.parameters(), 0.01)
        inputs, targets = looping_batch(PIECES, 1, 0)

        def repeats() -> float:
            with torch.no_grad():
                right = model(inputs).argmax(-1) == targets
            return (right.sum() / (targets != IGNORE).sum()).item()

        def learn(loss_of: Callable[[], torch.Tensor], steps: int) -> None:
            for _ in range(steps):
                optimizer.zero_grad()
                loss_of().backward()
                optimizer.step()

        learn(lambda: torch.nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), ignore_index=IGNORE), 60)
        self.assertGreater(repeats(), 0.8)
        learn(lambda: loop_loss(model, inputs, targets), 40)
        self.assertLess(repeats(), 0.2)


if __name__ == "__main__":
    unittest.main()
