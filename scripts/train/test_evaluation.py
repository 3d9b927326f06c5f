"""Tests of evaluate_tasks.py, plots and card: what counts as right, samples, a run with a real small model."""

import subprocess
import sys
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from card import Facts, accept_length, card, page
from corpus import Chat
from curves import Curve, read_curves, write_curve
from distil import Distillation, distil
from encode import Encoder
from errors import InputError
from evaluate import held_out
from evaluate_tasks import Asker, evaluate, expansion_request, figure, foresight_errors, mixed
from model import Llama
from paths import REPOSITORY
from sketch import sketch
from tasks import FORESIGHT, LENGTHS, Turn, turns_of
from test_model import CONFIG
from test_tasks import ANSWER, MESSAGES, tiny_encoder
from test_training import make_tokens
from train_adapter import adapter_loss_of, make_adapter, make_paper_adapter, paper_adapter_loss_of
from train_llm import LlmTraining

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

    def ask(self, requests, max_new=None):
        return [self.reply(request) for request in requests]

    def foresee(self, requests):
        return [int(self.reply(request).split()[0]) for request in requests]

    def answers(self, turns):
        return [turn.answer for turn in turns]

    def reply(self, request) -> str:
        query, _, instruction = request[-1]["content"].partition("\n\n")
        (turn,) = {turn.answer: turn for turn in TURNS if turn.query[-1]["content"] == query}.values()
        if instruction == FORESIGHT:
            return f"{self.encoder.count(turn.answer)} tokens"
        if instruction.startswith("Sketch your answer"):
            return sketch(turn.answer, int(instruction.split("level ")[1][0]))
        return expansion_request(turn, 2)[1].sentence


class Tasks(unittest.TestCase):
    def setUp(self) -> None:
        self.encoder = tiny_encoder()
        self.model = small_model(self.encoder)

    def test_a_perfect_model_has_perfect_figures(self):
        figures = evaluate(Knowing(self.model, self.encoder, 160), TURNS, 10)
        self.assertEqual(figures["foresight"]["error"], 0)
        self.assertEqual(figures["foresight"]["errorOfOwn"], 0)
        self.assertEqual(figures["foresight-written"]["error"], 0)
        self.assertEqual(figures["foresight"]["relativeErrorInterval"], [0, 0])
        self.assertEqual(figures["foresight"]["answers"], 6)
        for level in (1, 2, 3):
            self.assertEqual(figures[f"expansion-{level}"]["rougeF"], 1)
            self.assertLess(figures[f"expansion-{level}"]["rougeFOfLine"], 1)
            row = figures[f"sketch-{level}"]
            self.assertEqual(row["shareOfTokens"], row["shareOfTokensByProgram"])
            self.assertEqual(row["contentRecall"], row["contentRecallByProgram"])
            self.assertEqual(row["contentRecallOfOwn"], row["contentRecallByProgram"])
            self.assertEqual(row["shareOfTokensOfOwn"], row["shareOfTokensByProgram"])
            self.assertEqual(row["answers"], 3)

    def test_a_real_model_is_asked_and_replies_without_a_number_count_as_wholly_wrong(self):
        figures = evaluate(Asker(self.model, self.encoder, 4), TURNS, 2)
        self.assertEqual(figures["foresight-written"]["error"], 1)
        self.assertGreater(figures["foresight"]["error"], 0)
        self.assertEqual(figures["sketch-1"]["answers"], 2)
        with self.assertRaisesRegex(InputError, "max-new"):
            evaluate(Asker(self.model, self.encoder, 1024), TURNS, 2)

    def test_a_length_is_foreseen_as_the_median_of_what_the_model_thinks(self):
        asker = Asker(self.model, self.encoder, 160)
        request = TURNS[0].ask(FORESIGHT)
        prompt, counted = asker.ids(request), []
        with torch.no_grad():
            for length in LENGTHS:  # one at a time, as if it were written
                chance = 0.0
                for stop in asker.stop:
                    ids = [*prompt, *self.encoder.tokenizer.encode(str(length), add_special_tokens=False).ids, stop]
                    log_chances = self.model(torch.tensor([ids])).log_softmax(-1)[0]
                    chance += float(sum(log_chances[at - 1, ids[at]] for at in range(len(prompt), len(ids))).exp())
                counted.append(chance)
        half = np.cumsum(counted) / sum(counted) < 0.5
        self.assertEqual(asker.foresee([request]), [LENGTHS[int(half.sum())]])

    def test_a_sample_takes_sources_in_turn_whatever_the_order(self):
        turns = [Turn(f"{source}{number}", source, (), ANSWER, "val") for source in "ab" for number in range(9)]
        first = [turn.source for turn in mixed(turns)[:6]]
        self.assertEqual((first.count("a"), first.count("b")), (3, 3))
        self.assertEqual({turn.id for turn in mixed(turns)}, {turn.id for turn in turns})
        self.assertEqual([turn.id for turn in mixed(turns)][:1], [turn.id for turn in mixed(turns[::-1])][:1])

    def test_an_error_is_a_share_of_the_mean_length_or_the_mean_of_each_share(self):
        errors = foresight_errors([10, 40], [20, 20], "")
        self.assertEqual((errors["error"], errors["relativeError"]), (0.75, 0.75))
        errors = foresight_errors([10, 100], [10, 50], "OfOwn")
        self.assertEqual((errors["errorOfOwn"], errors["relativeErrorOfOwn"]), (0.833, 0.5))
        self.assertEqual((errors["errorOfOwnOfBestConstant"], errors["relativeErrorOfOwnOfBestConstant"]), (0.667, 0.4))
        self.assertEqual(foresight_errors([], [], ""), {})

    def test_an_interval_holds_the_figure_and_narrows_with_more_answers(self):
        rng = np.random.default_rng(1)
        widths = []
        for count in (20, 2000):
            parts = rng.random(count)
            found = figure("share", parts, np.full(count, 2.0))
            low, high = found["shareInterval"]
            self.assertAlmostEqual(found["share"], parts.mean() / 2, delta=0.001)
            self.assertTrue(low <= found["share"] <= high)
            widths.append(high - low)
        self.assertLess(widths[1] * 5, widths[0])
        self.assertEqual(figure("share", []), {})

    def test_answers_that_do_not_end_are_no_answers_of_its_own(self):
        self.assertEqual(Asker(self.model, self.encoder, 4).answers(TURNS[:2]), [None, None])


class HeldOut(unittest.TestCase):
    def test_an_untrained_model_is_as_unsure_as_chance_at_every_position_and_only_what_is_learnt_counts(self):
        torch.set_num_threads(1)
        with tempfile.TemporaryDirectory() as folder:
            work, rng, arrays = Path(folder), np.random.default_rng(0), {}
            for task, length, learn in (("sgd", 300, True), ("sketch-1", 200, False), ("long-qa", 1200, True)):
                arrays[f"val/{task}/ids"] = rng.integers(3, 300, 4 * length, dtype=np.uint16)
                arrays[f"val/{task}/learn"] = np.full(4 * length, learn)
                arrays[f"val/{task}/lengths"] = np.full(4, length, np.int32)
            arrays["val/sketch-1/learn"][-50:] = True
            np.savez(work / "tasks.npz", **arrays)
            model = Llama(replace(CONFIG, max_position_embeddings=2048))
            for weight in model.parameters():
                torch.nn.init.zeros_(weight)
            tasks, positions = held_out(model, work, 10_000)
        self.assertEqual({task: row["perplexity"] for task, row in tasks.items()}, dict.fromkeys(("sgd", "sketch-1", "long-qa"), 300))
        self.assertEqual(tasks["sketch-1"]["tokens"], 50)
        self.assertEqual(tasks["long-qa"]["tokens"], 4 * 1199)
        self.assertEqual([row["from"] for row in positions["long-qa"]], [0, 128, 256, 512, 1024])
        self.assertEqual([row["tokens"] for row in positions["long-qa"]], [512, 512, 1024, 2048, 4 * (1199 - 1024)])
        self.assertEqual(set(positions), {"long-qa"})


RUN = {"drafter": "adapter", "task": "story", "looping": False, "answerTokens": 7, "verifications": 3}


class Card(unittest.TestCase):
    def test_accept_length_is_the_answer_but_its_first_token_over_the_rounds(self):
        self.assertEqual(accept_length([RUN]), 2)
        self.assertEqual(accept_length([RUN, {**RUN, "answerTokens": 1, "verifications": 0}]), 2)
        self.assertIsNone(accept_length([]))

    def test_without_any_file_every_measured_section_is_named_and_left_out(self):
        for document in (card, page):
            text, missing = document(Facts({}, {}, {}, {}, {}))
            self.assertIn("Drafters: accept length", missing)
            self.assertNotIn("## Drafters", text)
        self.assertIn("## Data and licences", card(Facts({}, {}, {}, {}, {}))[0])

    def test_a_missed_target_is_called_missed(self):
        summary = {"acceptLengthAdapter": 2.7, "acceptLengthLookup": 2.8, "acceptLengthMedusa": None}
        summary |= {"acceptLengthAdapterWithoutLoops": 2.65, "loopingAnswers": 3}
        conditions = {"maxTokens": 128, "threshold": 0.6, "draftLimit": 8, "format": "fp16", "answers": 20}
        acceptance = {"summary": summary, "conditions": conditions, "runs": [{**RUN, "id": "a"}]}
        facts = Facts({}, {}, {}, acceptance, {})
        text, _ = card(facts)
        self.assertIn("| accept length, `adapter`, without looping answers | ≥ 2.6 | 2.65 | met |", text)
        self.assertIn("| `adapter` above prompt lookup, all answers | ≥ 2.8 | 2.70 | **missed** |", text)
        self.assertIn("| greedy answers that loop, share of all, `llm` | ≤ 0.1 | 0.15 | **missed** |", text)
        self.assertNotIn("above Medusa", text)
        self.assertIn("| story | 1 | 2.00 |", page(facts)[0])

    def test_the_committed_card_is_short_and_names_every_model(self):
        text = (REPOSITORY / "models" / "demo" / "MODEL_CARD.md").read_text()
        self.assertLessEqual(len(text.splitlines()), 150)
        for folder in (REPOSITORY / "models" / "demo").iterdir():
            self.assertTrue(folder.is_file() or f"| `{folder.name}` |" in text, folder)

    def test_the_worst_level_decides(self):
        sketches = {f"sketch-{level}": {"shareOfTokensOfOwn": 0.3 + level / 20, "contentRecallOfOwn": 0.7} for level in (1, 2, 3)}
        text, _ = card(Facts({}, {}, {"llm": {"foresight": {"errorOfOwn": 0.2}, **sketches}}, {}, {}))
        self.assertIn("levels 1 / 2 / 3, `llm` | ≤ 0.4 | 0.35 / 0.40 / 0.45 | **missed** |", text)
        self.assertIn("levels 1 / 2 / 3, `llm` | ≥ 0.6 | 0.70 / 0.70 / 0.70 | met |", text)
        self.assertIn("of the own answers, `llm` | ≤ 0.3 | 0.20 | met |", text)
        self.assertIn("of the own answers, `llm` | ≤ 0.3 | – | not measured |", text)


class Curves(unittest.TestCase):
    def test_runs_of_every_kind_are_drawn_and_stand_in_the_card(self):
        held_out = {"step": 9, "tokens": 5_000_000, "seconds": 60.0, "heldOutPerplexity": {"sgd": 3.0}}
        llm = {"start": "llm-old", "examples": "tasks.npz", "context": 512, "batch": 8, "earlyExit": 0.5, "copying": True}
        phases = [{"examples": name, "context": 512, "batch": 4, "fromStep": 0} for name in ("tasks.npz", "rollouts.npz")]
        drafted = [{"step": step, "seconds": step * 10.0, "loss": 1.0, "agreement": 0.5} for step in range(3)]
        with tempfile.TemporaryDirectory() as name:
            work, out = Path(name) / "work", Path(name) / "out"
            write_curve(work / "llm-curve.json", Curve([held_out], llm | {"repeat": {"expansion": 3}, "peak": 0.7}))
            write_curve(work / "adapter-curve.json", Curve(drafted, {"phases": phases}))
            write_curve(work / "empty-curve.json", Curve([], llm))
            command = [sys.executable, str(HERE / "plot.py"), "--work", str(work), "--out", str(out)]
            subprocess.run(command, check=True, capture_output=True)
            self.assertEqual((out / "training.png").read_bytes()[:4], b"\x89PNG")
            curves = read_curves(out)
        self.assertEqual(list(curves), ["llm", "adapter"])
        text, _ = page(Facts(curves, {}, {}, {}, {}))
        settings = "batch 8, early exit 0.5, copying, expansion × 3, rates × 0.7"
        self.assertIn(f"| `llm` | `llm-old` | tasks.npz | 512 | {settings} | 1.0 | 5.0 | 9 | – |", text)
        self.assertIn("| `adapter` | – | tasks.npz → rollouts.npz | 512 | batch 4 | 0.3 | – | 2 | 1.00 |", text)


class Drafters(unittest.TestCase):
    def test_both_adapters_resume_from_their_checkpoints(self):
        torch.set_num_threads(1)
        with tempfile.TemporaryDirectory() as folder:
            work = Path(folder)
            make_tokens(work)
            LlmTraining(work, 1, 5).save()
            for name, make, loss_of in (
                ("adapter", make_adapter, adapter_loss_of),
                ("adapter-paper", make_paper_adapter, paper_adapter_loss_of),
            ):
                training = Distillation(work, name, lambda model, make=make: make(model, work, 5), 1, 5)
                distil(training, loss_of(training), float("inf"), 1)
                resumed = Distillation(work, name, lambda model, make=make: make(model, work, 6), 1, 5)
                resumed.resume()
                self.assertEqual(resumed.step, 1)
                for key, weight in training.student.state_dict().items():
                    self.assertTrue(torch.equal(weight, resumed.student.state_dict()[key]), key)


if __name__ == "__main__":
    unittest.main()
