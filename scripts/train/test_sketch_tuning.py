"""Tests of sketch tuning: the score and its pairs, the reward model, the policy's steps, resuming, the report."""

import io
import json
import tempfile
import unittest
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch

import sketch_tuning_report
from base import fingerprint
from card import Facts, page
from corpus import Chat
from encode import own_encoder
from errors import InputError
from evaluate_tasks import Asker
from export import load_llm_checkpoint
from files import save_checkpoint
from model import LlmConfig, Llama
from sketch_pairs import pairs_in, scored_sketches, summary, task_batches
from sketch_reward import RewardModel, load_reward, padded, split_pairs, train_reward
from sketch_rl import LOWEST_REWARD, TUNED, Settings, SketchTuning, leave_one_out, tune
from sketch_score import Candidate, Expander, Pair, Weights, make_pair, score, sketch_lines_of, spread
from sketch_tuning_report import changes, measure, plot
from tasks import chat_examples, encode_examples, turns_of
from test_tasks import ANSWER, MESSAGES, TELLING, tiny_encoder

CONFIG = LlmConfig(320, 32, 3, 2, 1, 16, 64, max_position_embeddings=640)
WEIGHTS = Weights(2.0, 1.0)


def tiny_model(seed: int = 0) -> Llama:
    model = Llama(replace(CONFIG, vocab_size=tiny_encoder().tokenizer.get_vocab_size()))
    model.initialise(seed)
    return model.requires_grad_(False).eval()


def work_folder(folder: str) -> Path:
    """A work folder with a tokenizer, the examples of two chats and an LLM of random weights."""
    work, encoder, model = Path(folder), tiny_encoder(), tiny_model()
    (work / "tokenizer.json").write_text(encoder.tokenizer.to_str())
    chats = [replace(TELLING, split="train"), Chat("new#1", "story", "val", MESSAGES)]
    np.savez(work / "tasks.npz", **encode_examples(chat_examples(chats, encoder), encoder))
    save_checkpoint(work / "llm.pt", {"config": model.config.to_dict(), "model": model.state_dict()})
    return work


def random_pairs(count: int, model: Llama) -> list[Pair]:
    """Pairs in which the better sketch has the token 300 more often than the worse: a preference that can be learnt."""
    rng = np.random.default_rng(0)
    pairs = []
    for _ in range(count):
        prompt, sketch = rng.integers(3, 290, 12).tolist(), rng.integers(3, 290, 8).tolist()
        pairs.append(Pair(prompt, [*sketch[:3], 300, *sketch[4:6], 300, 2], [*sketch, 2]))
    return pairs


class Scores(unittest.TestCase):
    def test_are_length_and_rouge_by_their_weights(self):
        self.assertAlmostEqual(score(Candidate([5, 6, 2], 2, 0.25), WEIGHTS), 2 / 2 + 0.25)
        self.assertGreater(score(Candidate([], 4, 0.3), WEIGHTS), score(Candidate([], 5, 0.3), WEIGHTS))
        with self.assertRaises(ValueError):
            score(Candidate([2], 0, 0.5), WEIGHTS)

    def test_a_pair_is_the_best_and_the_worst_with_a_margin(self):
        best, middle, worst = Candidate([1], 10, 0.9), Candidate([2], 10, 0.5), Candidate([3], 10, 0.2)
        self.assertEqual(make_pair([7], [middle, best, worst], WEIGHTS, 0.1), Pair([7], [1], [3]))
        self.assertIsNone(make_pair([7], [middle, best, worst], WEIGHTS, 0.8))
        self.assertIsNone(make_pair([7], [best], WEIGHTS, 0.0))

    def test_the_weights_decide_between_short_and_faithful(self):
        short, faithful = Candidate([1], 5, 0.3), Candidate([2], 20, 0.5)
        self.assertEqual(make_pair([7], [short, faithful], Weights(5.0, 1.0), 0.0), Pair([7], [1], [2]))
        self.assertEqual(make_pair([7], [short, faithful], Weights(0.5, 1.0), 0.0), Pair([7], [2], [1]))

    def test_spread_is_within_prompts(self):
        far_apart = [[Candidate([], 10, 0.1), Candidate([], 10, 0.3)], [Candidate([], 50, 0.7), Candidate([], 50, 0.9)]]
        found = spread(far_apart, WEIGHTS)
        self.assertEqual((found["lengthTerm"], found["tokens"]), (0.0, 0.0))
        self.assertAlmostEqual(found["rougeTerm"], 0.1414, places=3)


class Sampling(unittest.TestCase):
    def test_candidates_are_scored_and_make_pairs(self):
        torch.set_num_threads(1)
        encoder, model = tiny_encoder(), tiny_model()
        policy, expander = Asker(model, encoder, 12), Expander(Asker(model, encoder, 6))
        turns = [turn for turn in turns_of(replace(TELLING, split="train"))]
        batches = task_batches(policy, turns, {turn.id: ANSWER for turn in turns}, 0, 4)
        self.assertTrue(all(len({len(task.prompt) for task in batch}) == 1 for batch in batches))
        with patch("sketch_pairs.LONGEST_SKETCH", 12), patch("sketch_pairs.ended", lambda _, ids: len(ids) > 1):
            scored = scored_sketches(policy, expander, batches, 3, 7)
            self.assertEqual(scored, scored_sketches(policy, expander, batches, 3, 7))
        state = {"weights": {"length": 2.0, "rouge": 1.0}, "margin": 0.0, "prompts": scored}
        self.assertEqual(len(scored), len(turns))
        self.assertTrue(any(each["candidates"] for each in scored))
        self.assertEqual(summary(state)["pairs"], len(pairs_in(state)))
        with self.assertRaisesRegex(InputError, "own_answers.py"):
            task_batches(policy, turns, {}, 0, 4)

    def test_every_line_of_a_sketch_is_expanded_in_order(self):
        encoder, model = tiny_encoder(), tiny_model()
        expander, turn = Expander(Asker(model, encoder, 6)), next(turns_of(TELLING))
        one, two = expander.expand([(turn, "king horse\n\n apple")]), expander.expand([(turn, "king horse\napple")])
        self.assertEqual(one, two)
        self.assertEqual(sketch_lines_of(" a \n\nb"), ["a", "b"])
        self.assertFalse(expander.fits(turn, " \n"))
        self.assertFalse(expander.fits(turn, "king horse " * 600))


class Reward(unittest.TestCase):
    def test_learns_a_planted_preference_on_held_out_pairs(self):
        torch.set_num_threads(1)
        model = tiny_model()
        torch.manual_seed(0)
        reward, figures = train_reward(model, random_pairs(120, model), 2, 6, 0)
        self.assertGreater(figures["heldOutAccuracy"], 0.9)
        self.assertEqual(figures["heldOutPairs"], 18)
        pair = random_pairs(1, model)[0]
        ids, ends = padded([pair.prompt + pair.better, pair.prompt + pair.worse])
        with torch.no_grad():
            better, worse = reward(model.shallow(ids, reward.first), ends)
        self.assertGreater(better.item(), worse.item())
        self.assertLess(abs(better.item()), 10)

    def test_padding_does_not_change_a_score(self):
        model = tiny_model()
        reward = RewardModel(model, 2).requires_grad_(False)
        torch.nn.init.normal_(reward.value.weight)
        short, long = [5, 6, 7, 2], list(range(3, 30))
        alone = reward(model.shallow(padded([short])[0], reward.first), padded([short])[1])
        ids, ends = padded([short, long])
        self.assertAlmostEqual(alone.item(), reward(model.shallow(ids, reward.first), ends)[0].item(), places=4)

    def test_too_few_pairs_and_another_llm_are_named(self):
        model = tiny_model()
        with self.assertRaisesRegex(InputError, "too few"):
            split_pairs(random_pairs(1, model), 0)
        with tempfile.TemporaryDirectory() as folder:
            state = {"llm": "other", "layers": 1, "reward": RewardModel(model, 1).state_dict()}
            save_checkpoint(Path(folder) / "sketch-reward.pt", state)
            with self.assertRaisesRegex(InputError, "another LLM"):
                load_reward(Path(folder), model)


class EvenTuning(SketchTuning):
    """Tuning with a planted reward: four times the share of a sketch's tokens that are even."""

    def rewards(self, sketches: Sequence[list[int]], states: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        return torch.tensor([4 * sum(token % 2 == 0 for token in sketch) / len(sketch) for sketch in sketches])


def make_tuning(work: Path, settings: Settings, kind: type[SketchTuning] = EvenTuning) -> SketchTuning:
    encoder, llm = own_encoder(work), load_llm_checkpoint(work)
    turns = [turn for turn in turns_of(replace(TELLING, split="train"))]
    batches = task_batches(Asker(llm, encoder, 12), turns, {turn.id: ANSWER for turn in turns}, 0, 4)
    return kind(work, encoder, batches, RewardModel(llm, 1).requires_grad_(False), settings)


class Tuning(unittest.TestCase):
    def setUp(self) -> None:
        torch.set_num_threads(1)
        limits = {"sketch_pairs.LONGEST_SKETCH": 12, "sketch_rl.GUARD_CONTEXT": 512}
        for name, value in limits.items():
            patcher = patch(name, value)
            patcher.start()
            self.addCleanup(patcher.stop)

    def test_leave_one_out_judges_against_the_others(self):
        advantage = leave_one_out(torch.tensor([[1.0, 2.0, 6.0]]))
        self.assertTrue(torch.allclose(advantage, torch.tensor([[1 - 4.0, 2 - 3.5, 6 - 1.5]])))

    def test_raises_a_planted_reward_and_gamma_bounds_the_kl(self):
        kl = {}
        for gamma in (0.05, 0.9):
            with tempfile.TemporaryDirectory() as folder:
                tuning = make_tuning(work_folder(folder), Settings(gamma, 0.1, 3e-3, 8))
                tune(tuning, 60.0, 25)
                first, last = (np.mean([p["reward"] for p in part]) for part in (tuning.curve[:5], tuning.curve[-5:]))
                kl[gamma] = np.mean([point["kl"] for point in tuning.curve[-5:]])
                if gamma == 0.05:
                    self.assertGreater(last, first + 0.3)
                    self.assertGreater(kl[gamma], 0)
        self.assertLess(kl[0.9], kl[0.05])

    def test_unfinished_sketches_get_the_lowest_reward(self):
        with tempfile.TemporaryDirectory() as folder:
            tuning = make_tuning(work_folder(folder), Settings(), SketchTuning)
            stop = min(tuning.asker.stop)
            states, ends = torch.zeros(3, 9, 32), torch.tensor([8, 8, 8])
            found = tuning.rewards([[5, 6, stop], [5, 6, 7], [stop]], states, ends)
        self.assertEqual(found.tolist(), [0.0, LOWEST_REWARD, LOWEST_REWARD])

    def test_a_resumed_run_is_the_uninterrupted_one(self):
        with tempfile.TemporaryDirectory() as folder:
            work = work_folder(folder)
            whole = make_tuning(work, Settings())
            tune(whole, 60.0, 4)
            (work / f"{TUNED}.pt").unlink()
            tune(make_tuning(work, Settings()), 60.0, 2)
            rest = make_tuning(work, Settings())
            rest.resume()
            self.assertEqual(rest.step, 2)
            tune(rest, 60.0, 4)
            self.assertEqual(rest.curve, whole.curve)
            self.assertEqual(fingerprint(rest.policy.requires_grad_(False)), fingerprint(whole.policy.requires_grad_(False)))
            self.assertNotEqual(fingerprint(rest.policy), rest.llm)
            with self.assertRaisesRegex(InputError, "other options"):
                make_tuning(work, Settings(gamma=0.5)).resume()


class Report(unittest.TestCase):
    def test_measures_and_plots(self):
        encoder, model = tiny_encoder(), tiny_model()
        asker, expander = Asker(model, encoder, 12), Expander(Asker(model, encoder, 6))
        turns = list(turns_of(TELLING))
        with patch("sketch_tuning_report.LONGEST_SKETCH", 12):
            measured = measure(asker, expander, turns, [ANSWER] * len(turns), 2, WEIGHTS)
        self.assertEqual(len(measured.sketches), len(turns))
        shorter = replace(measured, tokens=[tokens - 3 for tokens in measured.tokens])
        self.assertEqual(changes(measured, shorter)["tokens"], -3)
        self.assertEqual(changes(measured, shorter)["rougeF"], 0)
        row = {"tokens": 9.0, "tokensInterval": [8, 10], "rougeFOfOwn": 0.4, "rougeFOfOwnInterval": [0.3, 0.5]}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "sketch-tuning.png"
            plot({"1": {"before": row, "after": row}}, [{"step": 1, "reward": 0.1, "kl": 0.0}], path)
            self.assertEqual(path.read_bytes()[:4], b"\x89PNG")
            self.assertEqual(json.dumps([each.name for each in Path(folder).iterdir()]), '["sketch-tuning.png"]')

    @patch("sketch_tuning_report.LONGEST_SKETCH", 8)
    @patch("sketch_tuning_report.LONGEST_SENTENCE", 4)
    @patch("sketch_tuning_report.PERPLEXITY_TOKENS", 600)
    @patch.object(Asker, "answers", lambda _, turns: [turn.answer for turn in turns])  # random weights end no answer
    def test_the_command_runs_to_its_end_on_a_tuned_model(self):
        torch.set_num_threads(1)
        with tempfile.TemporaryDirectory() as folder:
            work, out, data = work_folder(folder), Path(folder) / "out", Path(folder) / "chats.jsonl"
            llm = load_llm_checkpoint(work)
            save_checkpoint(work / "small.pt", {"config": llm.config.to_dict(), "model": tiny_model(1).state_dict()})
            with patch("sketch_pairs.LONGEST_SKETCH", 12):
                tune(make_tuning(work, Settings()), 60.0, 2)
            save_checkpoint(work / "sketch-reward.pt", {"figures": {"heldOutAccuracy": 0.5}})
            candidates = [Candidate([5, 6, 2], 2, 0.25).to_dict(), Candidate([5, 2], 1, 0.5).to_dict()]
            state = {"weights": {"length": 2.0, "rouge": 1.0}, "margin": 0.0, "prompts": [{"prompt": [7], "candidates": candidates}]}
            (work / "sketch-pairs.json").write_text(json.dumps(state))
            chats = [{"messages": [*MESSAGES[:2], {"role": "user", "content": f"Tell me of king {n}."}, MESSAGES[3]]} for n in range(99)]
            data.write_text("".join(f"{json.dumps(chat)}\n" for chat in chats))
            options = {"work": work, "data": data, "expander": "small", "count": 2, "out": out, "threads": 1}
            arguments = [str(part) for name, value in options.items() for part in (f"--{name}", value)]
            with patch("sys.argv", ["sketch_tuning_report.py", *arguments]), redirect_stdout(io.StringIO()):
                sketch_tuning_report.main()
            found = json.loads((out / "sketch-tuning.json").read_text())
            self.assertEqual((found["answers"], found["tuning"]["steps"], found["pairs"]["pairs"]), (2, 2, 1))
            self.assertEqual(set(found["levels"]), {"1", "2", "3"})
            self.assertEqual({name.name for name in out.iterdir()}, {"sketch-tuning.json", "sketch-tuning.png"})
            facts = Facts({}, {}, {}, {}, {}, found, {}, {})
            self.assertIn("| 3 | after |", page(facts)[0])


if __name__ == "__main__":
    unittest.main()
