"""Tests of average.py: weights between two runs of one model, and nothing of other models."""

import tempfile
import unittest
from pathlib import Path
from unittest.mock import patch

import torch

from average import average, main
from errors import InputError
from files import load_checkpoint, save_checkpoint


class Averages(unittest.TestCase):
    def test_weights_lie_between_both_runs_by_the_share(self):
        first, second = {"a": torch.zeros(2)}, {"a": torch.tensor([1.0, 4.0])}
        self.assertEqual(average(first, second, 0.25)["a"].tolist(), [0.25, 1.0])

    def test_runs_of_other_models_are_refused(self):
        with self.assertRaisesRegex(InputError, "only runs of one model"):
            average({"a": torch.zeros(2)}, {"a": torch.zeros(3)}, 0.5)
        with self.assertRaisesRegex(InputError, "only runs of one model"):
            average({"a": torch.zeros(2)}, {"b": torch.zeros(2)}, 0.5)

    def test_the_checkpoint_has_the_second_runs_shape_and_both_runs_adapter(self):
        with tempfile.TemporaryDirectory() as folder:
            work = Path(folder)
            for name, value, context in (("one", 0.0, 512), ("two", 1.0, 2048)):
                part = {"w": torch.full((2,), value)}
                save_checkpoint(work / f"{name}.pt", {"config": {"context": context}, "model": part, "adapter": part, "step": 3})
            with patch("sys.argv", ["average.py", "--work", folder, "--names", "one", "two", "--share", "0.5"]):
                main()
            made = load_checkpoint(work / "llm.pt")
            self.assertEqual(made["config"], {"context": 2048})
            self.assertEqual([made[part]["w"].tolist() for part in ("model", "adapter")], [[0.5, 0.5]] * 2)
            self.assertNotIn("step", made)


if __name__ == "__main__":
    unittest.main()
