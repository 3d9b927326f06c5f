"""Long answers of a small made-up world: guides and tales whose content follows from the request, so that it can be foreseen.

The corpora have few answers of more than a hundred tokens, and what follows in a fairy tale cannot be known from its opening: no
small model can sketch it. Here every sentence is a function of one or two slots of the request (subject, place, company, …), and
only the combination is new, so that the full answer, its sketch and its length agree for requests that no one has asked before.

A combination of slots is drawn by seed and belongs to one split by hash, whatever the length and the wording of the request;
5 % are held out. `continue_story` gives a real story's opening an end in the same world.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from corpus import HELD_OUT_PERCENT, SYSTEM, Chat, Split, hash_percent, with_system
from long_form_guides import CIRCUMSTANCES, COMPANY, FAMILIES, PLACES
from long_form_tales import (
    ADOPTED,
    CONTINUES_AT,
    ENDINGS,
    ENEMIES,
    ENEMIES_IN_STORIES,
    HELPERS,
    HEROES,
    HEROES_IN_STORIES,
    PLACES as TALE_PLACES,
    TALE,
    THINGS,
    THINGS_IN_STORIES,
    TRAITS,
)

GUIDES, TALES = 6000, 6000  # combinations drawn of each kind, held-out ones included
SEED = 16
LONG_FORMS = ("guide", "tale")  # tasks
LENGTHS = ("S", "N", "L")  # short, normal, long: a sentence is in answers of its own length and longer ones
LENGTH_SHARES = (0.4, 0.4, 0.2)
ABSENT_PERCENT = 12  # of the guides without a place, company or circumstance each
CONTINUED_PERCENT = 25  # of the tales: the request has the opening
PRONOUNS = {"he": ("he", "him", "his"), "she": ("she", "her", "her")}

GUIDE_REQUESTS = (
    "How can I {do}{options}?{length}",
    "I want to {do}{options}. How should I do it?{length}",
    "Please tell me how to {do}{options}.{length}",
    "Write a guide for me: how to {do}{options}.{length}",
    "What is the best way to {do}{options}?{length}",
    "Can you explain how to {do}{options}?{length}",
    "My plan is to {do}{options}. What do I have to know?{length}",
    "Hi, I would like to {do}{options}. Help me, please.{length}",
)
GUIDE_LENGTHS = {
    "S": (" Keep it short.", " A short answer, please.", " Only the most important steps.", " In a few sentences."),
    "N": ("", "", "", ""),
    "L": (" Tell me everything.", " A long answer, please.", " Explain every step.", " In full detail."),
}
TALE_REQUESTS = (
    "Tell me {length} story about a {trait} {hero} {place}, {thing}, {helper} and {enemy}, with {ending}.",
    "Write {length} tale of a {trait} {hero} {place} who loses {thing} to {enemy} and meets {helper}. Give it {ending}.",
    "I would like to hear {length} story: a {trait} {hero} {place}, {enemy}, {thing}, {helper} and {ending}.",
    "Make up {length} fairy tale with {helper}, {enemy} and {thing}. The hero is a {trait} {hero} {place}. It should have {ending}.",
    "Please write {length} story in which {enemy} takes {thing} from a {trait} {hero} {place}, {helper} helps, and there is {ending}.",
    "Can you tell me {length} story about {thing}? I want a {trait} {hero} {place}, {enemy}, {helper} and {ending}.",
)
TALE_LENGTHS = {"S": "a short", "N": "a", "L": "a long"}
CONTINUE = {
    "S": "Continue this story briefly.",
    "N": "Continue this story.",
    "L": "Continue this story at length.",
}


def rows_of(table: str) -> list[list[str]]:
    """The phrases of every row."""
    return [row.split(" | ") for row in table.strip().split("\n")]


def lines_of(text: str) -> list[tuple[str, str]]:
    """(shortest length, sentence) of every line."""
    return [(line[0], line[2:]) for line in text.strip().split("\n")]


def fill(sentences: Iterable[tuple[str, str]], length: str, slots: Mapping[str, str]) -> str:
    """The sentences that an answer of this length has, their slots filled."""
    chosen = [sentence for shortest, sentence in sentences if LENGTHS.index(shortest) <= LENGTHS.index(length)]
    while any("{" in sentence for sentence in chosen):  # phrases of slots have slots too
        chosen = [sentence.format_map(slots) for sentence in chosen]
    return " ".join(capital(sentence) for sentence in chosen)


def capital(sentence: str) -> str:
    """With a capital first letter."""
    return sentence[0].upper() + sentence[1:]


def split_of(combination: str) -> Split:
    """Of a combination of slots, by hash."""
    return "val" if hash_percent(f"long-form/{combination}") < HELD_OUT_PERCENT else "train"


@dataclass(frozen=True)
class Guide:
    """A combination of a guide's slots: indices into the tables, None for a slot that the request leaves out."""

    family: str
    subject: int
    place: int | None
    company: int | None
    circumstance: int | None
    length: str = "N"

    @property
    def combination(self) -> str:
        """The slots without the length."""
        return f"guide/{self.family}.{self.subject}.{self.place}.{self.company}.{self.circumstance}"

    def slots(self) -> dict[str, str]:
        """The subject's phrases."""
        family = FAMILIES[self.family]
        return dict(zip(family["fields"].split(), rows_of(family["subjects"])[self.subject], strict=True))

    def options(self) -> list[list[str] | None]:
        """The rows of place, company and circumstance."""
        chosen = ((PLACES, self.place), (COMPANY, self.company), (CIRCUMSTANCES, self.circumstance))
        return [None if index is None else rows_of(table)[index] for table, index in chosen]

    def request(self, wording: int) -> str:
        """One of the wordings."""
        phrases = "".join(f" {row[0]}" for row in self.options() if row)
        do = FAMILIES[self.family]["do"].format_map(self.slots())
        length = GUIDE_LENGTHS[self.length][wording // len(GUIDE_REQUESTS) % len(GUIDE_LENGTHS["S"])]
        return GUIDE_REQUESTS[wording % len(GUIDE_REQUESTS)].format(do=do, options=phrases, length=length)

    def answer(self) -> str:
        """The family's sentences with those of the options between them."""
        lines = lines_of(FAMILIES[self.family]["lines"])
        place, company, circumstance = self.options()
        more = [("S", row[1]) if row else None for row in (place, circumstance, company)]
        late = [("L", circumstance[2]) if circumstance else None, ("N", company[2]) if company else None, ("L", place[2]) if place else None]
        order = [lines[0], more[0], lines[1], more[1], lines[2], more[2], *lines[3:-1], *late, lines[-1]]
        return fill([line for line in order if line], self.length, self.slots())


@dataclass(frozen=True)
class Tale:
    """A combination of a tale's slots: indices into the tables."""

    hero: int
    trait: int
    place: int
    thing: int
    helper: int
    enemy: int
    ending: int
    length: str = "N"

    @property
    def combination(self) -> str:
        """The slots without the length."""
        return f"tale/{self.hero}.{self.trait}.{self.place}.{self.thing}.{self.helper}.{self.enemy}.{self.ending}"

    def slots(self) -> dict[str, str]:
        """Every phrase of the tale."""
        tables = {
            "hero pronoun work away food": (HEROES, self.hero),
            "trait habit decision moral": (TRAITS, self.trait),
            "place landscape reception": (TALE_PLACES, self.place),
            "thing why result": (THINGS, self.thing),
            "helper meeting wish advice help": (HELPERS, self.helper),
            "enemy took lair beaten": (ENEMIES, self.enemy),
            "ending_name ending ending_more": (ENDINGS, self.ending),
        }
        slots: dict[str, str] = {}
        for names, (table, index) in tables.items():
            slots |= dict(zip(names.split(), rows_of(table)[index], strict=True))
        he, him, his = PRONOUNS[slots["pronoun"]]
        the_thing = "the " + slots["thing"].split(" ", 1)[1]
        return slots | {"he": he, "him": him, "his": his, "He": he.capitalize(), "the_thing": the_thing}

    def request(self, wording: int) -> str:
        """One of the wordings."""
        slots = self.slots()
        return TALE_REQUESTS[wording % len(TALE_REQUESTS)].format_map(slots | {"length": TALE_LENGTHS[self.length], "ending": slots["ending_name"]})

    def answer(self) -> str:
        """The whole tale."""
        return fill(lines_of(TALE), self.length, self.slots())

    def continued(self) -> tuple[str, str]:
        """(request with the opening, answer); the opening is that of a normal tale."""
        lines = lines_of(TALE)
        at = next(index for index, (_, sentence) in enumerate(lines) if sentence == CONTINUES_AT)
        slots = self.slots()
        return f"{CONTINUE[self.length]}\n\n{fill(lines[:at], 'N', slots)}", fill(lines[at:], self.length, slots)


def first_named(words: Sequence[str], names: Mapping[str, str], table: str, default: int) -> int:
    """Row of the table that the first known word names; the default if there is none."""
    rows = [row[0] for row in rows_of(table)]
    return next((rows.index(names[word]) for word in words if word in names), default)


def continue_story(opening: str) -> str:
    """An end for a real story: its hero, in this world; hero, enemy and thing follow from words of the opening, the rest from them."""
    words = re.findall(r"[a-z]+", opening.lower())
    default = [row[0] for row in rows_of(HEROES)].index("girl" if "she" in words else "boy")
    hero = first_named(words, HEROES_IN_STORIES, HEROES, default)
    enemy = first_named(words, ENEMIES_IN_STORIES, ENEMIES, 2)
    thing = first_named(words, THINGS_IN_STORIES, THINGS, 8)
    tale = Tale(hero, hero % 8, 0, thing, (enemy * 3 + 1) % 8, enemy, (hero + thing) % 6, "N")
    lines = lines_of(TALE)
    at = next(index for index, (_, sentence) in enumerate(lines) if sentence == CONTINUES_AT)
    return fill(lines_of(ADOPTED) + lines[at:], tale.length, tale.slots())


def story_chat(chat: Chat) -> Chat:
    """The chat of a story to be continued (the opening in its last request), with an end from this world."""
    asked = chat.messages[:-1]
    answer = continue_story(asked[-1]["content"].split("\n\n", 1)[1])
    return Chat(f"{chat.id}/tale", "story-tale", chat.split, (*asked, {"role": "assistant", "content": answer}))


def draw_guides(count: int, rng: np.random.Generator) -> Iterator[Guide]:
    """Combinations at random; some leave slots out."""
    families = list(FAMILIES)
    for _ in range(count):
        family = families[rng.integers(len(families))]
        options = [None if rng.integers(100) < ABSENT_PERCENT else int(rng.integers(8)) for _ in range(3)]
        yield Guide(family, int(rng.integers(12)), *options, str(rng.choice(LENGTHS, p=LENGTH_SHARES)))


def draw_tales(count: int, rng: np.random.Generator) -> Iterator[Tale]:
    """Combinations at random; of one that is continued by request, helper, ending follow from enemy and hero."""
    sizes = [len(rows_of(table)) for table in (HEROES, TRAITS, TALE_PLACES, THINGS, HELPERS, ENEMIES, ENDINGS)]
    for _ in range(count):
        yield Tale(*(int(rng.integers(size)) for size in sizes), str(rng.choice(LENGTHS, p=LENGTH_SHARES)))


def chat_of(form: Guide | Tale, wording: int) -> Chat:
    """The combination as a chat; `wording` is any number."""
    request, answer = form.request(wording), form.answer()
    if isinstance(form, Tale) and hash_percent(f"continued/{form.combination}") < CONTINUED_PERCENT:
        foreseeable = replace(form, helper=(form.enemy * 3 + 1) % 8, ending=(form.hero + form.thing) % 6)
        if split_of(foreseeable.combination) == "train":  # other openings have the same end: none of these is new
            form = foreseeable
            request, answer = form.continued()
    name = form.combination
    task = name.split("/")[0]
    messages = ({"role": "user", "content": request}, {"role": "assistant", "content": answer})
    chat = Chat(f"{name}.{form.length}.{wording}", task, split_of(name), messages)
    return with_system(chat, SYSTEM["fairytaleqa" if task == "tale" else "sgd"])


def long_form_chats(guides: int = GUIDES, tales: int = TALES, seed: int = SEED) -> list[Chat]:
    """Guides and tales, each chat once; the same numbers and seed give the same chats."""
    rng = np.random.default_rng(seed)
    forms = [*draw_guides(guides, rng), *draw_tales(tales, rng)]
    return list({chat.id: chat for chat in (chat_of(form, int(rng.integers(32))) for form in forms)}.values())
