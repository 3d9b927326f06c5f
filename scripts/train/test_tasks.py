"""Tests of tasks.py and encode.py: what is made from an answer, what is learnt, splits, user data, bad input."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

from corpus import Chat
from encode import Encoder
from errors import InputError
from sketch import sketch, sketch_lines
from rollouts import stored_prompts
from tasks import (
    EXPAND,
    LENGTHS,
    chat_examples,
    encode_examples,
    foreseen,
    long_examples,
    statistics,
    user_chats,
)
from tokenizer import render, train_tokenizer

HERE = Path(__file__).parent
SKETCHES = ("sketch-1", "sketch-2", "sketch-3")
ANSWER = " ".join(f"The king rode his horse to town {number} and bought a golden apple there." for number in range(6))
MESSAGES = (
    {"role": "user", "content": "Hello."},
    {"role": "assistant", "content": "Good day to you."},
    {"role": "user", "content": "Tell me of the king."},
    {"role": "assistant", "content": ANSWER},
)
TELLING = Chat("old#1", "tale", "val", MESSAGES)


def tiny_encoder() -> Encoder:
    return Encoder(train_tokenizer([ANSWER, "once upon a time"], 320))


def lines_of(level: int) -> list[tuple[str, str]]:
    return sorted((line.sketch, line.sentence) for line in sketch_lines(ANSWER, level))


class Making(unittest.TestCase):
    def setUp(self) -> None:
        self.encoder = tiny_encoder()
        self.made = list(chat_examples([TELLING], self.encoder))

    def of(self, task: str) -> list:
        return [example for example in self.made if example.task == task]

    def test_every_example_keeps_the_split_of_its_chat(self):
        self.assertEqual({example.split for example in self.made}, {"val"})
        self.assertEqual({example.task for example in self.made}, {"tale", "foresight", *SKETCHES, "expansion", "recovery"})
        self.assertEqual(len({example.id for example in self.made}), len(self.made))

    def test_foresight_answers_with_the_nearest_length(self):
        example = self.of("foresight")[-1]
        tokens = self.encoder.count(ANSWER)
        self.assertEqual(example.messages[-1]["content"], str(foreseen(tokens)))
        self.assertTrue(example.messages[-2]["content"].startswith("Tell me of the king.\n\n"))
        for true in range(4, 1100):
            self.assertLess(abs(foreseen(true) - true) / true, 0.15)
        self.assertEqual([foreseen(length) for length in LENGTHS], list(LENGTHS))
        self.assertEqual(foreseen(0), LENGTHS[0])

    def test_sketches_are_those_of_the_answer(self):
        for level in (1, 2, 3):
            (example,) = self.of(f"sketch-{level}")
            self.assertEqual(example.messages[-1]["content"], sketch(ANSWER, level))

    def test_expansions_write_out_every_sentence_once_from_its_line(self):
        pairs = []
        for example in self.of("expansion"):
            first = example.messages[2]["content"]
            for asked, written in zip(example.messages[2::2], example.messages[3::2], strict=True):
                pairs.append((asked["content"].rsplit("\n", 1)[1], written["content"]))
                self.assertIn(pairs[-1][0], first)
        self.assertEqual(len(self.of("expansion")), 2)
        self.assertIn([sorted(pairs)], [[lines_of(level)] for level in (1, 2, 3)])

    def test_a_short_answer_gets_no_sketch(self):
        short = Chat("s", "tale", "train", MESSAGES[:2])
        self.assertEqual({example.task for example in chat_examples([short], self.encoder)}, {"tale", "foresight"})

    def test_only_the_answers_to_the_instruction_are_learnt(self):
        for example in self.made:
            ids, learn = self.encoder.encode(example.messages, example.answers_from)
            if example.answers_from is None:
                self.assertTrue(learn.all())
                continue
            text = self.encoder.tokenizer.decode(ids[learn].tolist(), skip_special_tokens=False)
            answers = [m["content"] for m in example.messages[example.answers_from :] if m["role"] == "assistant"]
            self.assertEqual(text, "".join(f"{content}<|im_end|>\n" for content in answers))

    def test_after_a_repeated_piece_only_the_rest_of_the_answer_is_learnt(self):
        examples = {example.id: example for example in self.of("recovery")}
        self.assertEqual(len(examples), 2)  # the answer and a sketch of it
        whole = examples[f"{TELLING.id}@3/recovery/0"]
        text, given = whole.messages[-1]["content"], whole.given
        self.assertGreater(len(text), len(ANSWER))
        self.assertTrue(ANSWER.endswith(text[given:]))
        self.assertEqual(set(text.split()), set(ANSWER.split()))
        self.assertTrue(ANSWER.startswith(text[: len(ANSWER) - len(text[given:])]))
        ids, learn = self.encoder.encode(whole.messages, whole.answers_from, given)
        learnt = self.encoder.tokenizer.decode(ids[learn].tolist(), skip_special_tokens=True)
        self.assertTrue(text[given:].strip().endswith(learnt.strip()))
        self.assertGreaterEqual(len(learnt.strip()) + 8, len(text[given:].strip()))

    def test_ids_are_those_of_the_template_and_the_statistics_add_up(self):
        arrays = encode_examples(self.made, self.encoder)
        whole = self.encoder.tokenizer.encode(render(list(MESSAGES)) + "<|endoftext|>").ids
        self.assertEqual(arrays["val/tale/ids"].tolist(), whole)
        rows = {row["task"]: row for row in statistics(arrays)}
        self.assertEqual(rows["expansion"]["examples"], 2)
        self.assertEqual(rows["tale"]["learn"], len(whole))
        self.assertAlmostEqual(sum(row["sharePercent"] for row in rows.values()), 100, delta=1)


class LongStories(unittest.TestCase):
    def test_runs_of_sections_fit_the_budget_and_ask_about_themselves(self):
        encoder = tiny_encoder()
        sections = [f"Part {number}. {ANSWER}" for number in range(30)]
        qa = [{"q": f"What is part {n}?", "a": f"part {n}", "sec": str(n + 1)} for n in range(30)]
        examples = list(long_examples({"id": "tale", "split": "train", "sections": sections, "qa": qa}, encoder))
        self.assertEqual({example.task for example in examples}, {"long-story", "long-tale", "long-qa"})
        for example in examples:
            if example.task != "long-tale":  # has no answer from the story, and may be too long: dataset.py leaves it out then
                self.assertLessEqual(len(encoder.encode(example.messages, None)[0]), 2048)
            if example.task == "long-qa":
                number = example.messages[1]["content"].removeprefix("part ")
                self.assertIn(f"Part {number}. ", example.messages[0]["content"])


class UserData(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def test_both_forms_are_read_and_a_twentieth_is_held_out(self):
        path = self.folder / "chats.jsonl"
        lines = [json.dumps({"prompt": f"p{number}", "answer": "a"}) for number in range(1000)]
        path.write_text("\n".join([*lines, json.dumps({"messages": list(MESSAGES)})]))
        chats = user_chats(path)
        self.assertEqual(chats[-1].messages, MESSAGES)
        self.assertTrue(20 < sum(chat.split == "val" for chat in chats) < 90)

    def test_names_the_bad_line(self):
        path = self.folder / "chats.jsonl"
        good = '{"prompt": "p", "answer": "a"}\n'
        for bad in ("hello", '{"text": "x"}', '{"messages": []}', '{"messages": [{"role": "robot", "content": "x"}]}', "[]"):
            path.write_text(good + bad)
            with self.assertRaisesRegex(InputError, "line 2"):
                user_chats(path)
        for data in (b"", b"\xff\xfe"):
            path.write_bytes(data)
            with self.assertRaises(InputError):
                user_chats(path)

    def test_the_command_writes_all_or_nothing(self):
        (self.folder / "tokenizer.json").write_text(tiny_encoder().tokenizer.to_str())
        data = self.folder / "chats.jsonl"
        command = [sys.executable, str(HERE / "tasks.py"), "--work", str(self.folder), "--data", str(data)]
        data.write_text("nonsense")
        failed = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual((failed.returncode, len(failed.stderr.splitlines())), (1, 1))
        self.assertFalse((self.folder / "tasks.npz").exists())
        data.write_text(json.dumps({"messages": list(MESSAGES)}))
        subprocess.run(command, capture_output=True, check=True)
        with np.load(self.folder / "tasks.npz") as arrays:
            self.assertEqual(arrays["train/expansion/lengths"].sum(), len(arrays["train/expansion/learn"]))
        shown = subprocess.run([*command, "--show", "expansion"], capture_output=True, text=True, check=True).stdout
        self.assertIn(EXPAND.split("{")[0].strip(), shown)


class StoredPrompts(unittest.TestCase):
    def test_prompts_of_every_task_end_where_an_answer_begins(self):
        encoder = tiny_encoder()
        chats = [Chat(f"new#{number}", "tale", "train", MESSAGES) for number in range(5)]
        with tempfile.TemporaryDirectory() as folder:
            np.savez(Path(folder) / "tasks.npz", **encode_examples(chat_examples(chats, encoder), encoder))
            found = [encoder.tokenizer.decode(prompt, skip_special_tokens=False) for prompt in stored_prompts(Path(folder), encoder, 3, 0, {})]
            fewer, more = (len(stored_prompts(Path(folder), encoder, 2, 0, {"tale": weight})) for weight in (0.5, 2))
        self.assertTrue(all(prompt.endswith("<|im_start|>assistant\n") for prompt in found))
        for wanted in ("How many tokens", "Sketch your answer", "Write out this line"):
            self.assertTrue(any(wanted in prompt for prompt in found), wanted)
        self.assertLess(len(found), 3 * 6 + 1)
        self.assertEqual(more - fewer, 3)  # 4 tales instead of 1


if __name__ == "__main__":
    unittest.main()
