"""Tests that training resumes exactly and that damaged checkpoints are named."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch

from errors import InputError
from files import load_checkpoint, save_checkpoint
from train_adapter import AdapterTraining
from train_adapter import train as train_adapter
from train_llm import GROUPS, LlmTraining, train

HERE = Path(__file__).parent


def make_tokens(work: Path) -> None:
    """Random token files of a few windows."""
    rng = np.random.default_rng(0)
    arrays = {}
    for split in ("train", "val"):
        for group in GROUPS:
            arrays[f"{split}/{group}/ids"] = rng.integers(3, 4096, 1200, dtype=np.uint16)
            arrays[f"{split}/{group}/lengths"] = np.array([400, 300, 500], np.int32)
    work.mkdir(parents=True, exist_ok=True)
    np.savez(work / "tokens.npz", **arrays)


class Killed(Exception):
    """Stands for a power cut in the middle of a step."""


def kill_after(training: LlmTraining, steps: int) -> None:
    """Makes the run die when it asks for a batch after `steps` steps."""
    take = training.batches.next

    def next_or_die() -> tuple[torch.Tensor, torch.Tensor]:
        if training.step == steps:
            raise Killed
        return take()

    training.batches.next = next_or_die


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
        train(undisturbed, whole, 1200, float("inf"), compiled=False)
        killed = LlmTraining(parts, 1, 5)
        kill_after(killed, 1)
        with self.assertRaises(Killed):
            train(killed, parts, 1200, float("inf"), compiled=False)
        resumed = LlmTraining(parts, 1, 5)
        resumed.resume()
        train(resumed, parts, 1200, float("inf"), compiled=False)
        self.assertEqual(undisturbed.step, resumed.step)
        for name, weight in undisturbed.model.state_dict().items():
            self.assertTrue(torch.equal(weight, resumed.model.state_dict()[name]), name)

    def test_an_adapter_resumes_for_its_own_llm_only(self):
        make_tokens(self.folder)
        LlmTraining(self.folder, 1, 5).save()
        training = AdapterTraining(self.folder, 1, 5)
        train_adapter(training, float("inf"), 2, compiled=False)
        resumed = AdapterTraining(self.folder, 1, 5)
        resumed.resume()
        self.assertEqual(resumed.step, 2)
        LlmTraining(self.folder, 1, 6).save()
        with self.assertRaisesRegex(InputError, "another LLM"):
            AdapterTraining(self.folder, 1, 5).resume()


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

    def test_a_command_prints_one_line_and_exits_1(self):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, str(HERE / "tokenizer.py"), "--corpora", folder, "--work", folder]
            result = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(len(result.stderr.strip().splitlines()), 1)
        self.assertIn("--corpora", result.stderr)


if __name__ == "__main__":
    unittest.main()
