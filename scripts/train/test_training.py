"""Tests that training resumes exactly, learns what is marked, and that damaged checkpoints are named."""

import io
import subprocess
import sys
import tempfile
import unittest
from contextlib import redirect_stderr
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch

from curves import read_curves
from dataset import IGNORE, TASKS, load_groups, load_pieces, to_batch
from distil import Distillation, distil
from errors import InputError, run
from export import export_llm
from files import load_checkpoint, replacing, save_checkpoint, write_atomically
from model import SHAPES, Llama
from tokenizer import train_tokenizer
from train_adapter import adapter_loss_of, make_adapter
from train_llm import LlmTraining, Settings, mean_loss, train, weighted_pieces

HERE = Path(__file__).parent


def make_tokens(work: Path) -> None:
    """Random token files of a few windows."""
    rng = np.random.default_rng(0)
    arrays = {}
    for split in ("train", "val"):
        for group in ("sgd", "story"):
            arrays[f"{split}/{group}/ids"] = rng.integers(3, 4096, 1200, dtype=np.uint16)
            arrays[f"{split}/{group}/learn"] = np.ones(1200, bool)
            arrays[f"{split}/{group}/lengths"] = np.array([400, 300, 500], np.int32)
    work.mkdir(parents=True, exist_ok=True)
    np.savez(work / TASKS, **arrays)


class Killed(Exception):
    """Simulates a power cut in the middle of a step."""


def kill_after(training: LlmTraining, steps: int) -> None:
    """Makes the run die when it asks for a batch after `steps` steps."""
    take = training.next_batches

    def next_or_die() -> list:
        if training.step == steps:
            raise Killed
        return take()

    training.next_batches = next_or_die


class Resuming(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        torch.set_num_threads(1)

    @patch("train_llm.SAVE_EVERY_S", 0.0)
    def test_a_killed_and_resumed_run_equals_an_undisturbed_one(self):
        whole, parts = self.folder / "whole", self.folder / "parts"
        for work in (whole, parts):
            make_tokens(work)
        undisturbed = LlmTraining(whole, 1, 5)
        train(undisturbed, whole, 1200, float("inf"))
        killed = LlmTraining(parts, 1, 5)
        kill_after(killed, 1)
        with self.assertRaises(Killed):
            train(killed, parts, 1200, float("inf"))
        resumed = LlmTraining(parts, 1, 5)
        resumed.resume()
        train(resumed, parts, 1200, float("inf"))
        self.assertEqual(undisturbed.step, resumed.step)
        for name, weight in undisturbed.model.state_dict().items():
            self.assertTrue(torch.equal(weight, resumed.model.state_dict()[name]), name)

    def test_an_adapter_resumes_for_its_own_llm_only(self):
        make_tokens(self.folder)
        LlmTraining(self.folder, 1, 5).save()
        training = self.adapter()
        distil(training, adapter_loss_of(training), float("inf"), 2)
        resumed = self.adapter()
        resumed.resume()
        self.assertEqual(resumed.step, 2)
        LlmTraining(self.folder, 1, 6).save()
        with self.assertRaisesRegex(InputError, "another LLM"):
            self.adapter().resume()

    def adapter(self) -> Distillation:
        """An adapter's run that has not begun."""
        return Distillation(self.folder, "adapter", lambda model: make_adapter(model, self.folder, 5), 1, 5)

    def test_a_run_can_start_from_an_exported_model_and_take_a_share_of_the_examples(self):
        make_tokens(self.folder)
        config = replace(SHAPES["slm-wide"], max_position_embeddings=512)
        (self.folder / "tokenizer.json").write_text(train_tokenizer(["a"], 300).to_str())
        first = LlmTraining(self.folder, 1, 5, config, "small")
        first.save()
        export_llm(self.folder, self.folder / "out", "small")
        again = LlmTraining(self.folder, 1, 6, config, "again")
        again.start_from(self.folder / "out")
        for name, weight in first.model.state_dict().items():
            self.assertTrue(torch.equal(again.model.state_dict()[name], weight.half().float()), name)
        pieces = [sum(map(len, weighted_pieces(self.folder, 512, Settings(repeat={"story": times}), 1))) for times in (0, 0.5, 1, 2.5)]
        whole = pieces[2] - pieces[0]
        self.assertEqual([count - pieces[0] for count in pieces], [0, round(whole / 2), whole, 2 * whole + round(whole / 2)])
        with self.assertRaisesRegex(InputError, "no train examples of tale"):
            weighted_pieces(self.folder, 512, Settings(repeat={"tale": 1}), 1)

    def test_a_run_says_what_it_was_started_with_and_goes_on_in_the_same_way_only(self):
        make_tokens(self.folder)
        config, settings = replace(SHAPES["slm-wide"], max_position_embeddings=512), Settings(peak=0.5, repeat={"story": 2})
        training = LlmTraining(self.folder, 1, 5, config, "small", settings)
        train(training, self.folder, 600, float("inf"))
        curve = read_curves(self.folder)["small"]
        self.assertEqual(curve.points, training.curve)
        self.assertEqual((curve.run["peak"], curve.run["repeat"], curve.run["context"]), (0.5, {"story": 2}, 512))
        again = LlmTraining(self.folder, 1, 5, config, "small", settings)
        again.resume()
        train(again, self.folder, 600, float("inf"))
        self.assertEqual(again.curve, training.curve)
        with self.assertRaisesRegex(InputError, "another peak"):
            LlmTraining(self.folder, 1, 5, config, "small", replace(settings, peak=1.0)).resume()

    def test_a_teachers_distribution_is_learnt_for_its_tasks_and_other_examples_are_without_it(self):
        make_tokens(self.folder)
        teacher = LlmTraining(self.folder, 1, 5, SHAPES["slm-wide"], "teacher")
        with torch.no_grad():
            teacher.model.model.embed_tokens.weight.mul_(50)  # a teacher that is sure of something
        teacher.save()
        settings = Settings(teachers=(("teacher", "story"),))
        pupil = LlmTraining(self.folder, 4, 6, SHAPES["slm-wide"], "pupil", settings)
        (shown, inputs, targets), (none, _, _) = pupil.next_batches()
        self.assertIsNone(none)
        for name, weight in teacher.model.state_dict().items():
            self.assertTrue(torch.equal(shown.state_dict()[name], weight), name)
        alone, taught = (mean_loss(pupil.model, None, each, inputs, targets).item() for each in (None, shown))
        with torch.no_grad():
            against = -(shown(inputs).softmax(-1) * pupil.model(inputs).log_softmax(-1)).sum(-1)[targets != IGNORE].mean().item()
        self.assertAlmostEqual(taught, (alone + against) / 2, delta=0.05)  # bf16
        self.assertNotAlmostEqual(taught, alone, places=2)
        train(pupil, self.folder, 2000, float("inf"))
        resumed = LlmTraining(self.folder, 4, 6, SHAPES["slm-wide"], "pupil", settings)
        resumed.resume()
        for one, other in zip(pupil.next_batches(), resumed.next_batches(), strict=True):
            self.assertTrue(torch.equal(one[1], other[1]))
        with self.assertRaisesRegex(InputError, "another teachers"):
            LlmTraining(self.folder, 4, 6, SHAPES["slm-wide"], "pupil").resume()
        with self.assertRaisesRegex(InputError, "no train examples of tale"):
            LlmTraining(self.folder, 4, 6, SHAPES["slm-wide"], "other", Settings(teachers=(("teacher", "tale"),)))
        with self.assertRaisesRegex(InputError, "another shape"):
            LlmTraining(self.folder, 4, 6, SHAPES["slm-deep"], "deep", settings)

    def test_a_longer_context_begins_with_the_weights_of_a_run_of_the_same_shape(self):
        make_tokens(self.folder)
        first = LlmTraining(self.folder, 1, 5, name="short")
        first.save()
        longer = LlmTraining(self.folder, 1, 6, replace(SHAPES["llm"], max_position_embeddings=600))
        longer.start_from(self.folder / "short.pt")
        self.assertTrue(torch.equal(longer.model.model.embed_tokens.weight, first.model.model.embed_tokens.weight))
        self.assertEqual({longer.next_batches()[0][1].shape for _ in range(6)}, {(1, 320), (1, 448), (1, 512)})
        with self.assertRaisesRegex(InputError, "another shape"):
            LlmTraining(self.folder, 1, 5, SHAPES["slm-wide"]).start_from(self.folder / "short.pt")
        with self.assertRaisesRegex(InputError, "another shape or context"):
            LlmTraining(self.folder, 1, 5, SHAPES["slm-wide"], "short").resume()


class Examples(unittest.TestCase):
    def test_marked_tokens_are_read_but_not_learnt_and_made_examples_stay_whole(self):
        with tempfile.TemporaryDirectory() as folder:
            arrays = {}
            for task, learn in (("story", np.ones(9, bool)), ("sketch-1", np.arange(9) % 5 > 2), ("long-qa", np.ones(9, bool))):
                arrays |= {
                    f"train/{task}/ids": np.arange(10, 19, dtype=np.uint16),
                    f"train/{task}/learn": learn,
                    f"train/{task}/lengths": np.array([5, 4], np.int32),
                }
            np.savez(Path(folder) / TASKS, **arrays)
            groups = load_groups(Path(folder), "train", 4)
            self.assertEqual([len(piece) for piece in groups["story"]], [4, 1, 4])
            self.assertEqual([piece.tolist() for piece in groups["sketch-1"]], [[~15, ~16, ~17, 18]])
            self.assertEqual([piece.tolist() for piece in groups["long-qa"]], [[15, 16, 17, 18]])
            inputs, targets = to_batch(groups["sketch-1"], 5)
            self.assertEqual(inputs.tolist(), [[15, 16, 17, 0, 0]])
            self.assertEqual(targets.tolist(), [[IGNORE, IGNORE, 18, IGNORE, IGNORE]])
            for work, reason in ((Path(folder), "no val examples"), (Path(folder) / "none", "tasks.py")):
                with self.assertRaisesRegex(InputError, reason):
                    load_pieces(work, "val", 4)

    def test_small_models_have_at_most_an_eighth_of_the_llms_weights(self):
        weights = {name: sum(weight.numel() for weight in Llama(shape).parameters()) for name, shape in SHAPES.items()}
        self.assertGreaterEqual(SHAPES["llm"].num_hidden_layers, 12)
        for small in ("slm-wide", "slm-deep"):
            self.assertLessEqual(8 * weights[small], weights["llm"])


class Damage(unittest.TestCase):
    def test_a_cut_checkpoint_is_named_and_a_killed_write_leaves_the_old_one(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "llm.pt"
            save_checkpoint(path, {"step": 1, "weights": torch.zeros(1000)})
            (path.parent / ".llm.pt.1.tmp").write_bytes(b"half")  # what a kill in mid-write leaves
            self.assertEqual(load_checkpoint(path)["step"], 1)
            for keep in (0, 10, path.stat().st_size // 2):
                path.write_bytes(path.read_bytes()[:keep])
                with self.assertRaises(InputError) as caught:
                    load_checkpoint(path)
                self.assertIn("is damaged", str(caught.exception))
                self.assertNotIn("\n", str(caught.exception))

    def test_a_cut_token_file_is_named_with_the_step_that_makes_it(self):
        with tempfile.TemporaryDirectory() as folder:
            make_tokens(Path(folder))
            path = Path(folder) / TASKS
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
            with self.assertRaisesRegex(InputError, "is damaged .* tasks.py"):
                load_groups(Path(folder), "train", 513)

    def test_a_failed_write_leaves_the_old_file_and_nothing_beside_it(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "curve.json"
            write_atomically(path, b"old")
            with self.assertRaises(Killed), replacing(path) as beside:
                beside.write_bytes(b"half")
                raise Killed
            self.assertEqual([(each.name, each.read_bytes()) for each in path.parent.iterdir()], [("curve.json", b"old")])

    def test_too_little_memory_and_a_failing_file_are_one_line_and_other_faults_are_not_hidden(self):
        def too_large() -> None:
            torch.empty(1 << 60)

        def no_folder() -> None:
            Path("/nowhere/at/all").read_text()

        for main, message in ((too_large, "error: out of memory"), (no_folder, "error: .*nowhere")):
            with self.subTest(message), redirect_stderr(io.StringIO()) as stderr, self.assertRaises(SystemExit) as ended:
                run(main)
            self.assertEqual(ended.exception.code, 1)
            self.assertRegex(stderr.getvalue(), message)
            self.assertEqual(len(stderr.getvalue().splitlines()), 1)
        with self.assertRaises(RuntimeError):
            run(lambda: torch.ones(2) @ torch.ones(3))

    def test_a_command_prints_one_line_and_exits_1(self):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, str(HERE / "tokenizer.py"), "--corpora", folder, "--work", folder]
            result = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(len(result.stderr.strip().splitlines()), 1)
        self.assertIn("--corpora", result.stderr)


if __name__ == "__main__":
    unittest.main()
