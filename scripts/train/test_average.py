"""Tests of average.py: the mean of weights, as a checkpoint that a run can start from."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import torch

from average import mean_of
from errors import InputError
from export import load_llm_checkpoint
from files import load_checkpoint, save_checkpoint
from test_model import CONFIG, tiny_model

HERE = Path(__file__).parent


class Averaging(unittest.TestCase):
    def test_the_command_writes_the_mean_of_its_checkpoints(self):
        model = tiny_model()
        with tempfile.TemporaryDirectory() as folder:
            work = Path(folder)
            for name, factor in (("one", 1.0), ("three", 3.0)):
                weights = {key: factor * weight for key, weight in model.state_dict().items()}
                save_checkpoint(work / f"{name}.pt", {"config": CONFIG.to_dict(), "model": weights})
            command = [sys.executable, str(HERE / "average.py"), "--work", folder, "--names", "one", "three", "--out", "mean"]
            subprocess.run(command, check=True, capture_output=True)
            for key, weight in load_checkpoint(work / "mean.pt")["model"].items():
                self.assertTrue(torch.allclose(weight, 2 * model.state_dict()[key]), key)
            self.assertEqual(load_llm_checkpoint(work, "mean").config, model.config)

    def test_other_shapes_are_refused(self):
        with self.assertRaisesRegex(InputError, "different shapes"):
            mean_of([{"a": torch.zeros(2)}, {"a": torch.zeros(3)}])


if __name__ == "__main__":
    unittest.main()
