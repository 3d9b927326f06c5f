"""Tests of corpus.py and dataset.py: bad input in one line, splits, chats, batches."""

import gzip
import tempfile
import unittest
from pathlib import Path

import numpy as np

from corpus import cut_section, read_records, sgd_chats, story_chats, topical_chats, with_system
from dataset import IGNORE, Batches, batches_by_length, some_of, to_batch, width_of
from errors import InputError


class BadInput(unittest.TestCase):
    def message_for(self, data: bytes | None) -> str:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "corpus.jsonl.gz"
            if data is not None:
                path.write_bytes(data)
            with self.assertRaises(InputError) as caught:
                read_records(path)
            return str(caught.exception)

    def test_names_what_is_wrong_in_one_line(self):
        whole = gzip.compress(b'{"id": 1}\n' * 1000)
        cases = {
            "is missing": None,
            "is empty": gzip.compress(b""),
            "line 2: not UTF-8": gzip.compress(b'{"id": 1}\n{"id": "\xff"}\n'),
            "line 1: not JSON": gzip.compress(b"hello\n"),
            "not a whole gzip file": whole[: len(whole) // 2],
        }
        for expected, data in cases.items():
            with self.subTest(expected):
                message = self.message_for(data)
                self.assertIn(expected, message)
                self.assertNotIn("\n", message)

    def test_an_empty_file_is_named_too(self):
        self.assertIn("is empty", self.message_for(b""))


class Chats(unittest.TestCase):
    def test_sgd_maps_speakers_to_roles_and_dev_to_val(self):
        turns = [{"s": "user", "t": "Hi."}, {"s": "system", "t": "Hello."}]
        (chat,) = sgd_chats({"id": "dev:1_00000", "turns": turns})
        self.assertEqual(chat.split, "val")
        self.assertEqual([message["role"] for message in chat.messages], ["user", "assistant"])

    def test_topical_chat_alternates_and_holds_out_by_id(self):
        chats = [next(topical_chats({"id": f"t_{n}", "turns": ["a", "b", "c"]})) for n in range(2000)]
        self.assertEqual([message["role"] for message in chats[0].messages], ["user", "assistant", "user"])
        share = sum(chat.split == "val" for chat in chats) / len(chats)
        self.assertTrue(0.03 < share < 0.07, share)

    def test_a_story_gives_start_continuation_and_questions_of_one_split(self):
        qa = [{"q": "Who?", "a": "the king", "sec": "1"}, {"q": "Where?", "a": "home", "sec": "1"}]
        record = {"id": "old-king-story", "split": "val", "sections": ["A king went out. He saw a fox. It ran."], "qa": qa}
        chats = list(story_chats(record))
        self.assertEqual([chat.task for chat in chats], ["story-start", "story", "story-qa"])
        self.assertEqual({chat.split for chat in chats}, {"val"})
        self.assertEqual(chats[0].messages[0]["content"], "Tell me the story of old king.")
        self.assertEqual(len(chats[2].messages), 4)

    def test_cutting_a_section_loses_no_text(self):
        section = 'One. "Two!" said he. Three? Four.'
        for percent in (0, 50, 99):
            opening, rest = cut_section(section, percent)
            self.assertEqual(f"{opening} {rest}", section)

    def test_only_training_chats_get_system_messages(self):
        chats = [next(topical_chats({"id": f"t_{n}", "turns": ["a", "b"]})) for n in range(500)]
        first = [(chat.split, with_system(chat, "s").messages[0]["role"]) for chat in chats]
        self.assertNotIn(("val", "system"), first)
        self.assertIn(("train", "system"), first)


class Rows(unittest.TestCase):
    pieces = [np.arange(1, 1 + size, dtype=np.uint16) for size in (5, 90, 3, 70, 2, 300, 129, 1)]

    def test_every_example_is_one_row_of_a_batch_within_the_positions_or_alone(self):
        batches = batches_by_length(self.pieces, 260, np.random.default_rng(0))
        self.assertEqual(sorted(len(row) for rows in batches for row in rows), sorted(map(len, self.pieces)))
        for rows in batches:
            self.assertTrue(len(rows) == 1 or len(rows) * width_of(rows) <= 260)
        self.assertEqual(sorted(map(len, batches)), [1, 2, 2, 3])  # one of the four shortest has room beside the 90
        self.assertNotEqual(*([len(rows[0]) for rows in batches_by_length(self.pieces, 260, np.random.default_rng(seed))] for seed in (1, 2)))

    def test_a_width_has_every_input_but_the_last_token_of_the_longest(self):
        self.assertEqual([width_of(self.pieces[:1]), width_of([np.zeros(65)]), width_of([np.zeros(66)]), width_of([np.zeros(1)])], [64, 64, 128, 64])

    def test_targets_are_the_next_tokens_and_padding_is_ignored(self):
        inputs, targets = to_batch([np.array([4, 5, 6], np.uint16)], 4)
        self.assertEqual(inputs.tolist(), [[4, 5, 0, 0]])
        self.assertEqual(targets.tolist(), [[5, 6, IGNORE, IGNORE]])

    def test_a_resumed_stream_goes_on_where_it_stopped(self):
        stream, resumed = (Batches(self.pieces, 300, 1, seed=3) for _ in range(2))
        for _ in range(7):
            stream.next()
        self.assertGreater(stream.epoch, 0)
        resumed.go_to(stream.epoch, stream.next_batch)
        for _ in range(5):
            self.assertEqual(stream.next()[0].tolist(), resumed.next()[0].tolist())

    def test_a_sample_has_the_tokens_asked_for_and_no_more_examples_than_that_needs(self):
        found = some_of(self.pieces, 100)
        self.assertGreaterEqual(sum(map(len, found)), 100)
        self.assertLess(sum(map(len, found[:-1])), 100)
        self.assertEqual(len(some_of([np.full(4, -2)] * 3, 1)), 3)  # nothing to learn in them


if __name__ == "__main__":
    unittest.main()
