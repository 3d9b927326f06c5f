"""Tests of evaluate_tasks.py and evaluate_drafters.py: what counts as right, samples, a run with a real small model."""

import subprocess
import sys
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path

import torch

from corpus import Chat
from distil import Distillation, distil
from encode import Encoder
from errors import InputError
from evaluate_drafters import LONGEST, load_drafters
from evaluate_tasks import Asker, evaluate, expansion_request, mixed
from files import save_checkpoint
from generate import generate
from model import Llama
from sketch import sketch
from tasks import FORESIGHT, Turn, turns_of
from test_model import CONFIG
from test_tasks import ANSWER, MESSAGES, tiny_encoder
from test_training import make_tokens
from train_adapter import adapter_loss_of, make_adapter
from train_llm import LlmTraining
from train_paper_adapter import adapter_loss_of as paper_loss_of
from train_paper_adapter import make_paper_adapter

HERE = Path(__file__).parent


def telling(number: int) -> Chat:
    """A chat whose last question names its number."""
    question = {"role": "user", "content": f"Tell me of king {number}."}
    return Chat(f"tale#{number}", "story", "val", (*MESSAGES[:2], question, MESSAGES[3]))


TURNS = [turn for number in range(3) for turn in turns_of(telling(number))]


def small_model(encoder: Encoder) -> Llama:
    model = Llama(replace(CONFIG, vocab_size=encoder.tokenizer.get_vocab_size(), max_position_embeddings=1024))
    model.initialise(0)
    return model.requires_grad_(False).eval()


class Knowing(Asker):
    """Replies as a perfect model would."""

    def ask(self, requests):
        return [self.reply(request) for request in requests]

    def reply(self, request) -> str:
        query, _, instruction = request[-1]["content"].partition("\n\n")
        (turn,) = {turn.answer: turn for turn in TURNS if turn.query[-1]["content"] == query}.values()
        if not instruction:
            return turn.answer
        if instruction == FORESIGHT:
            return f"{self.encoder.count(turn.answer)} tokens"
        if instruction.startswith("Sketch your answer"):
            return sketch(turn.answer, int(instruction.split("level ")[1][0]))
        return expansion_request(turn)[1].sentence


class Tasks(unittest.TestCase):
    def setUp(self) -> None:
        self.encoder = tiny_encoder()
        self.model = small_model(self.encoder)

    def test_a_perfect_model_has_perfect_figures(self):
        figures = evaluate(Knowing(self.model, self.encoder, 160), TURNS, 10)
        self.assertEqual(figures["foresight"]["error"], 0)
        self.assertEqual(figures["foresight"]["answers"], 6)
        self.assertEqual(figures["expansion"]["rougeF"], 1)
        self.assertLess(figures["expansion"]["rougeFOfLine"], 1)
        for level in (1, 2, 3):
            row = figures[f"sketch-{level}"]
            self.assertEqual(row["shareOfTokens"], row["shareOfTokensByProgram"])
            self.assertEqual(row["contentRecall"], row["contentRecallByProgram"])
            self.assertEqual(row["contentRecallOfOwnAnswer"], row["contentRecallByProgram"])
            self.assertEqual(row["answers"], 3)

    def test_a_real_model_is_asked_and_replies_without_a_number_count_as_wholly_wrong(self):
        figures = evaluate(Asker(self.model, self.encoder, 4), TURNS, 2)
        self.assertEqual(figures["foresight"]["error"], 1)
        self.assertEqual(figures["sketch-1"]["answers"], 2)
        with self.assertRaisesRegex(InputError, "max-new"):
            evaluate(Asker(self.model, self.encoder, 1024), TURNS, 2)

    def test_a_sample_takes_sources_in_turn_whatever_the_order(self):
        turns = [Turn(f"{source}{number}", source, (), ANSWER, "val") for source in "ab" for number in range(9)]
        first = [turn.source for turn in mixed(turns)[:6]]
        self.assertEqual((first.count("a"), first.count("b")), (3, 3))
        self.assertEqual({turn.id for turn in mixed(turns)}, {turn.id for turn in turns})
        self.assertEqual([turn.id for turn in mixed(turns)][:1], [turn.id for turn in mixed(turns[::-1])][:1])


class Drafters(unittest.TestCase):
    def test_every_drafter_with_a_checkpoint_gains_the_answer_but_its_first_token(self):
        torch.set_num_threads(1)
        with tempfile.TemporaryDirectory() as folder:
            work = Path(folder)
            make_tokens(work)
            LlmTraining(work, 1, 5).save()
            with self.assertRaisesRegex(InputError, "no drafter"):
                load_drafters(Distillation(work, "adapter", lambda model: make_paper_adapter(model, 5), 1, 5).model, work)
            for name, make, loss_of in (
                ("adapter", lambda model, seed: make_adapter(model, work, seed), adapter_loss_of),
                ("adapter-paper", make_paper_adapter, paper_loss_of),
            ):
                training = Distillation(work, name, lambda model, make=make: make(model, 5), 1, 5)
                distil(training, loss_of(training, False), float("inf"), 1)
                resumed = Distillation(work, name, lambda model, make=make: make(model, 6), 1, 5)
                resumed.resume()
                self.assertEqual(resumed.step, 1)
                for key, weight in training.student.state_dict().items():
                    self.assertTrue(torch.equal(weight, resumed.student.state_dict()[key]), key)
            model, prompt = training.model, [5, 6, 7]
            drafters = load_drafters(model, work)
            self.assertEqual(list(drafters), ["adapter", "adapter-paper"])
            (answer,) = generate(model, [prompt], 24, stop=set())
            for name, drafter in drafters.items():
                rounds = drafter(prompt, answer)
                self.assertEqual(sum(rounds), len(answer) - 1, name)
                self.assertTrue(all(1 <= gained <= LONGEST + 1 for gained in rounds), rounds)

    def test_the_command_names_what_is_missing(self):
        with tempfile.TemporaryDirectory() as folder:
            encoder = tiny_encoder()
            (Path(folder) / "tokenizer.json").write_text(encoder.tokenizer.to_str())
            model = small_model(encoder)
            save_checkpoint(Path(folder) / "llm.pt", {"config": model.config.to_dict(), "model": model.state_dict()})
            command = [sys.executable, str(HERE / "evaluate_drafters.py"), "--work", folder]
            result = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual((result.returncode, len(result.stderr.splitlines())), (1, 1))
        self.assertIn("train_adapter.py", result.stderr)


if __name__ == "__main__":
    unittest.main()
