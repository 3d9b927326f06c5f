"""Tests of the Medusa heads: the tree, resuming, the exported files."""

import tempfile
import unittest
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

from distil import Distillation, distil, exported_student
from errors import InputError
from export_medusa import export_medusa, guess_answer, load_medusa
from generate import generate
from medusa import HEADS, RANKS, Medusa, best_tree, rank_rates
from rollouts import Rollout, load_rollouts, save_rollouts
from test_training import make_tokens
from tokenizer import train_tokenizer
from train_llm import LlmTraining
from train_medusa import make_heads, medusa_loss_of


def guesses_for(answer: list[int], right: list[list[int | None]]) -> Tensor:
    """Guesses [len(answer), HEADS, RANKS] that hold the true token at the rank given for (position, head), None: nowhere."""
    guesses = torch.full((len(answer), HEADS, RANKS), -1)
    for position, ranks in enumerate(right):
        for head, rank in enumerate(ranks):
            if rank is not None and position + 1 + head < len(answer):
                guesses[position, head, rank] = answer[position + 1 + head]
    return guesses


class Tree(unittest.TestCase):
    def test_the_tree_takes_the_likeliest_paths_with_their_parents(self):
        rates = torch.tensor([[0.6, 0.3, 0.05, 0.0], [0.5, 0.1, 0.0, 0.0], [0.4, 0.0, 0.0, 0.0], [0.1, 0.0, 0.0, 0.0]])
        tree = best_tree(rates, 5)
        self.assertEqual(tree, [(0,), (1,), (0, 0), (1, 0), (0, 0, 0)])

    def test_parents_are_in_every_tree(self):
        generator = torch.Generator().manual_seed(1)
        for _ in range(50):
            tree = best_tree(torch.rand(4, 4, generator=generator), 8)
            self.assertEqual(len(tree), 8)
            self.assertTrue(all(path[:-1] in tree for path in tree if len(path) > 1), tree)

    def test_rates_count_how_often_a_choice_came_true(self):
        answer = list(range(10, 20))
        rates = rank_rates(guesses_for(answer, [[0, 2, None, 0]] * 10), torch.tensor(answer))
        self.assertEqual(rates[0].tolist(), [1, 0, 0, 0])
        self.assertEqual(rates[1].tolist(), [0, 0, 1, 0])
        self.assertEqual(rates[2].tolist(), [0, 0, 0, 0])


class Training(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.work = Path(folder.name)
        torch.set_num_threads(1)
        make_tokens(self.work)
        LlmTraining(self.work, 1, 5).save()

    def train(self, steps: int) -> Distillation:
        """Heads after so many steps, resumed where there is a checkpoint."""
        training = Distillation(self.work, "medusa", make_heads, 1, 5)
        if training.path.exists():
            training.resume()
        with patch("distil.rate", lambda progress: 1.0):  # the schedule follows the budget, which differs here
            distil(training, medusa_loss_of(training), float("inf"), steps)
        return training

    def test_a_resumed_run_equals_an_undisturbed_one(self):
        whole = self.train(3).student.state_dict()
        (self.work / "medusa.pt").unlink()
        self.train(2)
        for name, weight in self.train(3).student.state_dict().items():
            self.assertTrue(torch.equal(weight, whole[name]), name)

    def test_another_llm_is_refused(self):
        self.train(1)
        LlmTraining(self.work, 1, 6).save()
        with self.assertRaisesRegex(InputError, "another LLM"):
            self.train(2)

    def test_untrained_heads_repeat_the_llms_own_choice(self):
        model = Distillation(self.work, "medusa", make_heads, 1, 5).model
        prompt = [5, 6, 7]
        (answer,) = generate(model, [prompt], 6, stop=set())
        guesses = guess_answer(model, make_heads(model), prompt, answer)
        self.assertEqual(guesses[:, :, 0].tolist(), [[token] * HEADS for token in answer])

    def test_exported_heads_are_the_trained_ones_with_a_tree(self):
        training = self.train(1)
        with self.assertRaisesRegex(InputError, "rollouts"):
            (self.work / "tokenizer.json").write_text(train_tokenizer(["a"], 300).to_str())
            export_medusa(self.work, self.work / "out")
        self.assertFalse((self.work / "out").exists())
        save_rollouts(self.work / "rollouts.npz", [Rollout(np.asarray([5, 6, 9, 8, 7, 6, 5, 4], np.uint16), 2)], 1)
        tree = export_medusa(self.work, self.work / "out")
        medusa, read = load_medusa(self.work / "out")
        self.assertEqual((len(tree), read), (8, tree))
        for name, weight in training.student.state_dict().items():
            self.assertTrue(torch.equal(medusa.state_dict()[name], weight.half().float()), name)
        again = exported_student(self.work / "out", "medusa", training.model)  # another run may begin with them
        make_heads(training.model).load_state_dict(again)
        self.assertTrue(all(torch.equal(weight, medusa.state_dict()[name]) for name, weight in again.items()))

    def test_rollouts_come_back_as_they_were_saved_their_prompts_marked_as_not_learnt(self):
        made = [Rollout(np.asarray([1, 2, 3, 4], np.uint16), 3), Rollout(np.asarray([7, 8], np.uint16), 1)]
        save_rollouts(self.work / "rollouts.npz", made, 5)
        read, done = load_rollouts(self.work / "rollouts.npz")
        self.assertEqual(([(r.prompt, r.answer) for r in read], done), ([([1, 2, 3], [4]), ([7], [8])], 5))
        self.assertEqual(read[0].marked().tolist(), [~1, ~2, ~3, 4])

    def test_missing_files_are_named(self):
        with self.assertRaisesRegex(InputError, "medusa_config.json"):
            load_medusa(self.work)
        self.assertEqual(Medusa(8)(torch.zeros(3, 8)).shape, (HEADS, 3, 8))


if __name__ == "__main__":
    unittest.main()
