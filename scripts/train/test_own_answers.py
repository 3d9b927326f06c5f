"""Tests of own_answers.py: examples of the model's own answers take the place of the corpus', and a run resumes."""

import tempfile
import unittest
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch

from corpus import Chat
from encode import own_encoder
from errors import InputError
from generate import generate
from model import LlmConfig, Llama
from own_answers import answer_turns, own_examples, replace_examples, sample
from rollouts import stored_prompts
from sketch import LEVELS, sketch
from tasks import chat_examples, encode_examples, turns_of
from test_tasks import ANSWER, MESSAGES, TELLING, tiny_encoder

TURNS = list(turns_of(TELLING))


def model_for(vocabulary: int) -> Llama:
    """A small model with random weights."""
    model = Llama(LlmConfig(vocabulary, 32, 2, 2, 1, 16, 64))
    model.initialise(0)
    return model.requires_grad_(False)


class Examples(unittest.TestCase):
    def test_they_ask_for_what_the_model_said_itself(self):
        made = {example.task: example.messages for example in own_examples(TURNS[0], ANSWER, tiny_encoder())}
        self.assertEqual(set(made), {"foresight", *(f"sketch-{level}" for level in LEVELS)})
        for level in LEVELS:
            self.assertEqual(made[f"sketch-{level}"][-1]["content"], sketch(ANSWER, level))
        self.assertNotIn(MESSAGES[1]["content"], str(made))
        self.assertEqual([example.task for example in own_examples(TURNS[1], "Yes.", tiny_encoder())], ["foresight"])

    def test_a_sample_takes_from_every_source_and_kind(self):
        other = [turn for turn in turns_of(Chat("x#1", "sgd", "train", MESSAGES))]
        kinds = {(turn.source, turn.answer) for turn in sample([*TURNS, *other] * 5, 1, 0)}
        self.assertEqual(len(kinds), 4)
        self.assertEqual(len(sample([*TURNS, *other] * 5, 2, 0)), 8)

    def test_replacing_keeps_the_other_tasks_and_the_held_out_examples(self):
        encoder = tiny_encoder()
        with tempfile.TemporaryDirectory() as folder:
            work = Path(folder)
            with self.assertRaisesRegex(InputError, "tasks.py"):
                replace_examples(work, {}, 1)
            chats = [TELLING, Chat("new#1", "tale", "train", MESSAGES)]
            before = encode_examples(chat_examples(chats, encoder), encoder)
            np.savez(work / "tasks.npz", **before)
            turn = next(turns_of(chats[1]))
            own = encode_examples(own_examples(turn, "Yes.", encoder), encoder)
            after = replace_examples(work, own, 3)
        self.assertEqual(len(after["train/foresight/lengths"]), 3)
        self.assertNotIn("train/sketch-1/ids", after)
        for name in ("train/tale/ids", "train/expansion/learn", "val/sketch-1/ids", "val/foresight/ids"):
            self.assertTrue(np.array_equal(before[name], after[name]), name)


class StoredPrompts(unittest.TestCase):
    def test_prompts_of_every_task_end_where_an_answer_begins(self):
        encoder = tiny_encoder()
        chats = [Chat(f"new#{number}", "tale", "train", MESSAGES) for number in range(5)]
        with tempfile.TemporaryDirectory() as folder:
            np.savez(Path(folder) / "tasks.npz", **encode_examples(chat_examples(chats, encoder), encoder))
            found = [encoder.tokenizer.decode(prompt, skip_special_tokens=False) for prompt in stored_prompts(Path(folder), "tasks.npz", encoder, 3, 0)]
        self.assertTrue(all(prompt.endswith("<|im_start|>assistant\n") for prompt in found))
        for wanted in ("How many tokens", "Sketch your answer", "Write out this line"):
            self.assertTrue(any(wanted in prompt for prompt in found), wanted)
        self.assertLess(len(found), 3 * 6 + 1)


class Answering(unittest.TestCase):
    def test_goes_on_where_it_was_stopped(self):
        torch.set_num_threads(1)
        with tempfile.TemporaryDirectory() as folder, patch("own_answers.LONGEST_ANSWER", 8):
            work = Path(folder)
            (work / "tokenizer.json").write_text(tiny_encoder().tokenizer.to_str())
            encoder, path = own_encoder(work), work / "own-answers.json"
            model = model_for(encoder.tokenizer.get_vocab_size())
            self.assertEqual(answer_turns(model, encoder, TURNS, 4, 0.0, path), {})
            first = answer_turns(model, encoder, TURNS[:1], 4, 60.0, path)
            self.assertEqual(list(first), [TURNS[0].id])
            with patch("own_answers.generate", wraps=generate) as asked:
                both = answer_turns(model, encoder, TURNS, 4, 60.0, path)
            self.assertEqual((set(both), asked.call_count), ({turn.id for turn in TURNS}, 1))


if __name__ == "__main__":
    unittest.main()
