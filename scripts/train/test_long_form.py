"""Tests of long_form.py: the same chats every time, splits by combination, sensible text for every slot."""

import unittest
from itertools import product

from corpus import Chat
from long_form import (
    GUIDE_LENGTHS,
    GUIDE_REQUESTS,
    LENGTHS,
    TALE_REQUESTS,
    Guide,
    Tale,
    chat_of,
    continue_story,
    long_form_chats,
    rows_of,
    story_chat,
)
from long_form_guides import CIRCUMSTANCES, COMPANY, FAMILIES, PLACES
from long_form_tales import (
    ENDINGS,
    ENEMIES,
    ENEMIES_IN_STORIES,
    HELPERS,
    HEROES,
    HEROES_IN_STORIES,
    THINGS,
    THINGS_IN_STORIES,
    TRAITS,
)
from long_form_tales import PLACES as TALE_PLACES
from rouge import content_recall
from sketch import LEVELS, sketch
from words import split_sentences

TALE_TABLES = (HEROES, TRAITS, TALE_PLACES, THINGS, HELPERS, ENEMIES, ENDINGS)


def whole(text: str) -> bool:
    """Sentences that start with a capital and end with a full stop, no slot left, no double space."""
    sentences = split_sentences(text)
    starts = all(sentence[0].isupper() and sentence.endswith(".") for sentence in sentences)
    return starts and not any(mark in text for mark in ("{", "}", "|", "  "))


def some_tales() -> list[Tale]:
    """Every row of every table in a tale, with either pronoun."""
    return [Tale(*(number % len(rows_of(table)) for table in TALE_TABLES), length) for number in range(16) for length in LENGTHS]


class Rendering(unittest.TestCase):
    def test_every_subject_of_every_family_at_every_length_is_whole_sentences(self):
        for family, fields in FAMILIES.items():
            for subject, length in product(range(len(rows_of(fields["subjects"]))), LENGTHS):
                guide = Guide(family, subject, subject % 8, (subject + 3) % 8, None, length)
                self.assertTrue(whole(guide.answer()), guide)

    def test_every_option_is_in_request_and_answer(self):
        for table, name in ((PLACES, "place"), (COMPANY, "company"), (CIRCUMSTANCES, "circumstance")):
            for index, row in enumerate(rows_of(table)):
                slots = {"place": None, "company": None, "circumstance": None, name: index}
                guide = Guide("make", 0, **slots, length="L")
                self.assertIn(row[0], guide.request(0))
                self.assertTrue(row[1] in guide.answer() and row[2] in guide.answer())

    def test_every_row_of_a_tales_tables_is_whole_sentences_with_its_names(self):
        for tale in some_tales():
            slots = tale.slots()
            self.assertTrue(whole(tale.answer()), tale)
            for name in (slots["trait"], slots["hero"], slots["thing"]):
                self.assertIn(name, tale.answer())
                self.assertIn(name, tale.request(0))

    def test_wordings_differ_and_have_all_slots(self):
        guide, tale = Guide("cook", 2, 1, 2, 3, "S"), some_tales()[0]
        wordings = len(GUIDE_REQUESTS) * len(GUIDE_LENGTHS["S"])
        self.assertEqual(len({guide.request(wording) for wording in range(wordings)}), wordings)
        self.assertEqual(len({tale.request(wording) for wording in range(32)}), len(TALE_REQUESTS))

    def test_a_longer_answer_has_every_sentence_of_a_shorter_one(self):
        guides = [Guide("care", 1, 2, 3, 4, length) for length in LENGTHS]
        tales = some_tales()[:3]
        for short, normal, long in (guides, tales):
            short, normal, long = (split_sentences(form.answer()) for form in (short, normal, long))
            self.assertLess(set(short), set(normal))
            self.assertLess(set(normal), set(long))

    def test_sketches_are_short_and_have_the_content(self):
        for form in (Guide("grow", 3, 1, 2, 3), Tale(1, 2, 3, 4, 5, 6, 1)):
            for level in LEVELS:
                text = sketch(form.answer(), level)
                self.assertLess(len(text), 0.46 * len(form.answer()))
                self.assertGreater(content_recall(form.answer(), text), 0.6)


class Splits(unittest.TestCase):
    def test_the_same_seed_gives_the_same_chats(self):
        self.assertEqual(long_form_chats(40, 40, 3), long_form_chats(40, 40, 3))
        self.assertNotEqual(long_form_chats(40, 40, 3), long_form_chats(40, 40, 4))

    def test_no_held_out_answer_is_among_the_training_answers(self):
        chats = long_form_chats(1500, 1500)
        held_out, trained = ({chat.messages[-1]["content"] for chat in chats if chat.split == split} for split in ("val", "train"))
        self.assertTrue(held_out and not held_out & trained)

    def test_length_and_wording_do_not_change_the_split(self):
        for form in (Guide("plan", 4, 1, None, 2), Tale(3, 2, 1, 4, 5, 6, 1)):
            forms = [type(form)(**{**vars(form), "length": length}) for length in LENGTHS]
            self.assertEqual(len({chat_of(each, wording).split for each in forms for wording in range(9)}), 1)


class Stories(unittest.TestCase):
    def test_names_in_stories_are_rows(self):
        for names, table in ((HEROES_IN_STORIES, HEROES), (ENEMIES_IN_STORIES, ENEMIES), (THINGS_IN_STORIES, THINGS)):
            self.assertLessEqual(set(names.values()), {row[0] for row in rows_of(table)})

    def test_a_real_opening_decides_hero_enemy_and_thing(self):
        text = continue_story("There was a queen who lived by the sea, and she had a horse.")
        self.assertTrue(whole(text))
        self.assertIn("the queen did not know", text)
        self.assertIn("a water spirit", text)
        self.assertIn("the white horse again", text)

    def test_a_story_gets_an_end_and_keeps_its_request_and_split(self):
        asked = {"role": "user", "content": "Continue this story.\n\nOnce there was a fox."}
        chat = story_chat(Chat("old#1", "story", "val", (asked, {"role": "assistant", "content": "It ran."})))
        self.assertEqual((chat.task, chat.split, chat.messages[0]), ("story-tale", "val", asked))
        self.assertIn("the fox did not know", chat.messages[-1]["content"])


if __name__ == "__main__":
    unittest.main()
