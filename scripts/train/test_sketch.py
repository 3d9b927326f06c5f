"""Tests of words.py, sketch.py and rouge.py."""

import random
import unittest

from rouge import content_recall, rouge_1
from sketch import LEVELS, sketch, sketch_lines
from words import NEGATIONS, is_content, split_sentences, words_of

STORY = (
    'Once upon a time there was an old king named Harald who had 3 sons. "Where is my crown?" he said to Mr. Fox. '
    "The youngest son did not answer, but went quietly into the dark forest and found the golden crown. It was."
)


def random_texts(count: int) -> list[str]:
    """Texts of words, numbers, names and marks in any order, with odd white space."""
    rng = random.Random(7)
    parts = ["the", "king", "King", "3", "11:30", "3rd", "not", "said", "quietly", "it", "a.m.", "Mr.", "went.", "why?", '"No!"']
    parts += ["héllo", "don’t", "…", "--", "(well)", "A", "beautiful", "running", "\n", "\t"]
    return [" ".join(rng.choices(parts, k=rng.randrange(1, 60))) for _ in range(count)]


class Sentences(unittest.TestCase):
    def test_splits_after_end_marks_but_not_after_abbreviations_or_inside_speech(self):
        self.assertEqual(split_sentences("Mr. Fox ran. He hid!"), ["Mr. Fox ran.", "He hid!"])
        self.assertEqual(split_sentences('"Stop!" said he. "Why?" She ran.'), ['"Stop!" said he.', '"Why?"', "She ran."])
        self.assertEqual(split_sentences("It costs 3.50 at 11 a.m. today."), ["It costs 3.50 at 11 a.m. today."])
        self.assertEqual(split_sentences(" \n"), [])

    def test_loses_no_text(self):
        for text in random_texts(300):
            self.assertEqual(" ".join(split_sentences(text)), " ".join(text.split()))

    def test_words_keep_numbers_with_their_units_and_contractions_whole(self):
        self.assertEqual(words_of("Don’t come on the 3rd at 11:30, come at 5pm."), "Don't come on the 3rd at 11:30 come at 5pm".split())


class Sketching(unittest.TestCase):
    def test_keeps_names_numbers_verbs_and_drops_function_words(self):
        first, second, third, fourth = sketch_lines(STORY, 1)
        self.assertEqual(first.sketch, "old king named Harald 3 sons")
        self.assertEqual(second.sketch, "crown said Mr Fox")
        self.assertEqual(third.sketch, "son not answer went dark forest found golden")
        self.assertEqual(fourth.sketch, "was")

    def test_a_question_keeps_its_mark(self):
        self.assertEqual(sketch('He went. "Where is the golden crown?"', 1).splitlines()[1], "golden crown?")

    def test_a_higher_level_is_a_part_of_the_lower_one(self):
        for text in [STORY, *random_texts(200)]:
            lines = [[line.sketch.rstrip("?").split() for line in sketch_lines(text, level)] for level in sorted(LEVELS)]
            for longer, shorter in zip(lines, lines[1:], strict=False):
                for line, part in zip(longer, shorter, strict=True):
                    rest = iter(line)
                    self.assertTrue(all(word in rest for word in part), (line, part))

    def test_every_sentence_has_a_line_and_names_numbers_negations_stay_in_order(self):
        for text in random_texts(300):
            for level in LEVELS:
                lines = sketch_lines(text, level)
                self.assertEqual([line.sentence for line in lines], split_sentences(text))
                for line in lines:
                    self.assertTrue(line.sketch)
                    self.assertNotIn("\n", line.sketch)
                    words = words_of(line.sentence)
                    must = [w for i, w in enumerate(words) if w[0].isdigit() or w.lower() in NEGATIONS or (i and w[0].isupper())]
                    must = [word for word in must if is_content(word)]
                    rest = iter(words_of(line.sketch))
                    self.assertTrue(all(word in rest for word in must), (line, must))

    def test_a_level_that_does_not_exist_is_an_error(self):
        with self.assertRaises(ValueError):
            sketch(STORY, 4)


class Scoring(unittest.TestCase):
    def test_rouge_1_clips_counts(self):
        score = rouge_1("the cat sat on the mat", "the the the cat")
        self.assertEqual((score.precision, score.recall), (3 / 4, 3 / 6))
        self.assertAlmostEqual(score.f, 0.6)

    def test_an_equal_text_scores_one_and_a_foreign_or_empty_one_zero(self):
        self.assertEqual(rouge_1(STORY, STORY.upper()).f, 1.0)
        for other in ("", "...", "zebra"):
            self.assertEqual(rouge_1(STORY, other).f, 0.0)
        self.assertEqual(rouge_1("", "word").recall, 0.0)

    def test_content_recall_ignores_function_words(self):
        self.assertEqual(content_recall("The king went to the forest.", "king and forest"), 2 / 3)
        self.assertEqual(content_recall("It was.", "anything"), 1.0)
        self.assertGreater(content_recall(STORY, sketch(STORY, 1)), content_recall(STORY, sketch(STORY, 3)))


if __name__ == "__main__":
    unittest.main()
