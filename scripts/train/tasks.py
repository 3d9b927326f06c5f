"""Training examples for every task, from the corpora or a user's own chats, under one chat template.

    python scripts/train/tasks.py                         # → <work>/tasks.npz
    python scripts/train/tasks.py --show expansion        # three examples as the model sees them
    python scripts/train/tasks.py --data chats.jsonl --work DIR        # from a user's own chats
    python scripts/train/tasks.py --data chats.jsonl --work DIR --base Qwen2.5-0.5B-Instruct    # for that checkpoint

Tasks: the chats of corpus.py (sgd, topical-chat, story, story-qa, story-start, or chat with --data) and long_form.py (guide, tale,
story-tale); made from their answers foresight, sketch-1 … sketch-3, expansion and recovery; from whole stories long-story,
long-tale and long-qa, for the last phase at context 2,048. An instruction is the last paragraph of the last user message, so that foresight, sketch and the plain
answer share the KV of everything before it. In a generated example only the answers to its instruction are trained on, because
the rest is trained on in the chat itself; in other examples all tokens are. An example has the split of its chat.

--data takes JSON lines {"messages": [{"role", "content"}, …]} or {"prompt", "answer"}; 5 % by hash of the line are held out.
"""

import argparse
import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from base import BaseEncoder
from corpus import FILES, HELD_OUT_PERCENT, Chat, Message, Split, hash_percent, load_chats, read_records
from dataset import TASKS
from encode import Encoder, own_encoder
from errors import InputError, run
from files import save_arrays
from long_form import continue_story, long_form_chats, story_chat
from paths import add_texts, add_work
from sketch import LEVELS, sketch, sketch_lines
from tokenizer import render
from words import split_sentences, words_of

FORESIGHT = "How many tokens will your answer have? Reply with the number only."
SKETCH = "Sketch your answer at level {level}: one line per sentence, key words only."
EXPAND = "Sketch of your answer:\n{sketch}\n\nWrite out this line and no other:\n{line}"
EXPAND_NEXT = "Write out this line and no other:\n{line}"

# A foresight answer is the nearest of these in ratio: steps of about a quarter, so rounding costs a seventh at most.
LENGTHS = (4, 5, 6, 8, 10, 12, 16, 20, 25, 32, 40, 50, 64, 80, 100, 128, 160, 200, 256, 320, 400, 512, 640, 800, 1024)
# Percent of a source's eligible answers that get each made task: dialogues are many and short, stories few and long. A
# made example costs its whole prompt in compute and teaches its answer only, so these keep a pass under twice the chats'.
# How a real story goes on cannot be foreseen, and a sketch of it teaches only to repeat the likeliest words.
FORESIGHT_PERCENT = {"sgd": 3, "topical-chat": 10, "story-qa": 15, "story": 20}
SKETCH_PERCENT = {"sgd": 5, "topical-chat": 30, "story": 20}
OTHER_PERCENT = 100
LONGEST_QUERY_WORDS = 220  # with sketch and answer such an example still fits 512 tokens
SHORTEST_SKETCHED_WORDS, FEWEST_SKETCHED_SENTENCES = 20, 2
EXPANSIONS_PER_CHAT = 4
LONG_TOKENS, LONG_LEAST = 1850, 600  # tokens of story in a long example, so that prompt and answer fit 2,048
LONG_QUESTIONS = 3
RECOVERY_PERCENT = {"sgd": 2, "topical-chat": 5, "story-qa": 0, "chat": 0}
REPEATED_WORDS, REPEATS = (2, 16), (1, 5)  # words of a repeated piece, how often it is repeated (both ends excluded above)


@dataclass(frozen=True)
class Example:
    """A chat to train on.

    `answers_from`: index of the first message whose answer is trained on, None for all tokens; `given`: characters at the
    start of each such answer that are read and not trained on.
    """

    id: str
    task: str
    split: Split
    messages: tuple[Message, ...]
    answers_from: int | None
    given: int = 0


@dataclass(frozen=True)
class Turn:
    """One answer of a chat with the messages before it, the last of which is the user's."""

    id: str
    source: str
    query: tuple[Message, ...]
    answer: str
    split: Split

    def ask(self, instruction: str) -> tuple[Message, ...]:
        """The query with an instruction as its last paragraph."""
        last = self.query[-1]
        return (*self.query[:-1], {"role": "user", "content": f"{last['content']}\n\n{instruction}"})

    def example(self, task: str, messages: tuple[Message, ...], part: int = 0) -> Example:
        """A generated example with the split of its chat."""
        return Example(f"{self.id}/{task}/{part}", task, self.split, messages, len(self.query))


def answer(content: str) -> Message:
    """An assistant's message."""
    return {"role": "assistant", "content": content}


def taken(name: str, percent: int) -> bool:
    """Whether a name is among the chosen percent; stable over runs."""
    return hash_percent(name) < percent


def turns_of(chat: Chat) -> Iterator[Turn]:
    """The chat's answers whose query is short enough for a generated example."""
    words = 0
    for index, message in enumerate(chat.messages):
        asked = index > 0 and chat.messages[index - 1]["role"] == "user"
        if message["role"] == "assistant" and asked and words <= LONGEST_QUERY_WORDS:
            yield Turn(f"{chat.id}@{index}", chat.task, chat.messages[:index], message["content"], chat.split)
        words += len(words_of(message["content"]))


def foreseen(tokens: int) -> int:
    """The number of LENGTHS that is nearest to a token count in ratio."""
    return min(LENGTHS, key=lambda length: max(length / max(tokens, 1), max(tokens, 1) / length))


def foresight_examples(turn: Turn, encoder: Encoder | BaseEncoder) -> Iterator[Example]:
    """Query → expected length of the answer in the LLM's tokens."""
    if taken(f"foresight/{turn.id}", FORESIGHT_PERCENT.get(turn.source, OTHER_PERCENT)):
        length = str(foreseen(encoder.count(turn.answer)))
        yield turn.example("foresight", (*turn.ask(FORESIGHT), answer(length)))


def worth_a_sketch(answer_text: str) -> bool:
    """Whether an answer has enough sentences and words for a sketch."""
    return len(split_sentences(answer_text)) >= FEWEST_SKETCHED_SENTENCES and len(words_of(answer_text)) >= SHORTEST_SKETCHED_WORDS


def sketch_examples(turn: Turn) -> Iterator[Example]:
    """Query → sketch at each level, and query + sketch + line → that sentence, for answers that are long enough for a sketch.

    An expansion chat asks for up to four lines of one sketch in a shuffled order, one per turn, so that every
    first turn stands alone (one line per sequence) and the later ones are a group of lines on one device.
    """
    if not (taken(f"sketch/{turn.id}", SKETCH_PERCENT.get(turn.source, OTHER_PERCENT)) and worth_a_sketch(turn.answer)):
        return
    lines = {level: sketch_lines(turn.answer, level) for level in LEVELS}
    sketches = {level: "\n".join(line.sketch for line in lines[level]) for level in LEVELS}
    for level in LEVELS:
        yield turn.example(f"sketch-{level}", (*turn.ask(SKETCH.format(level=level)), answer(sketches[level])))
    level = sorted(LEVELS)[hash_percent(f"level/{turn.id}") % len(LEVELS)]
    order = sorted(range(len(lines[level])), key=lambda index: hash_percent(f"order/{turn.id}/{index}"))
    for start in range(0, len(order), EXPANSIONS_PER_CHAT):
        messages: list[Message] = []
        for index in order[start : start + EXPANSIONS_PER_CHAT]:
            line = lines[level][index]
            if messages:
                messages.append({"role": "user", "content": EXPAND_NEXT.format(line=line.sketch)})
            else:
                messages.extend(turn.ask(EXPAND.format(sketch=sketches[level], line=line.sketch)))
            messages.append(answer(line.sentence))
        yield turn.example("expansion", tuple(messages), start)


def stuck(text: str, seed: str) -> tuple[str, int]:
    """(the text with a piece of it repeated once to four times, characters up to the end of the repeats).

    The piece ends anywhere between two words. What comes after it is the text again, so that a model that has begun to repeat
    itself learns to go on.
    """
    spaces = [match.start() for match in re.finditer(r"\s", text)]
    rng = np.random.default_rng(list(hashlib.sha256(seed.encode()).digest()[:8]))
    end = int(rng.integers(1, len(spaces)))
    start = spaces[max(0, end - int(rng.integers(*REPEATED_WORDS)))]
    given = text[: spaces[end]] + text[start : spaces[end]] * int(rng.integers(*REPEATS))
    return given + text[spaces[end] :], len(given)


def recovery_examples(turn: Turn) -> Iterator[Example]:
    """Query or request for a sketch → the answer that has begun to repeat itself, of which only the rest is trained on."""
    if not (taken(f"recovery/{turn.id}", RECOVERY_PERCENT.get(turn.source, OTHER_PERCENT)) and worth_a_sketch(turn.answer)):
        return
    level = sorted(LEVELS)[hash_percent(f"recovery-level/{turn.id}") % len(LEVELS)]
    requests = ((turn.query, turn.answer), (turn.ask(SKETCH.format(level=level)), sketch(turn.answer, level)))
    for part, (messages, text) in enumerate(requests):
        if len(text.split()) > 2:
            repeating, given = stuck(text, f"{turn.id}/{part}")
            made = turn.example("recovery", (*messages, answer(repeating)), part)
            yield replace(made, given=given)


def long_examples(record: dict, encoder: Encoder | BaseEncoder) -> Iterator[Example]:
    """Runs of a story's sections, each long: continued by the section after it, or asked about any section in it."""
    sections = [section.strip() for section in record["sections"]]
    split: Split = "val" if record["split"] == "val" else "train"
    first = 0
    while first < len(sections):
        end, size = first, 0
        while end < len(sections) and size + (tokens := encoder.count(sections[end])) <= LONG_TOKENS:
            end, size = end + 1, size + tokens
        name, text = f"fairytaleqa/{record['id']}#{first + 1}-{end}", "\n\n".join(sections[first:end])
        if size >= LONG_LEAST:
            if end - first > 1:
                opening = "\n\n".join(sections[first : end - 1])
                asked: Message = {"role": "user", "content": f"Continue this story.\n\n{opening}"}
                yield Example(f"{name}/long-story", "long-story", split, (asked, answer(sections[end - 1])), None)
                yield Example(f"{name}/long-tale", "long-tale", split, (asked, answer(continue_story(opening))), 1)
            inside = {str(number) for number in range(first + 1, end + 1)}
            questions = [qa for qa in record["qa"] if str(qa["sec"]) in inside]
            questions.sort(key=lambda qa: hash_percent(f"{name}/{qa['q']}"))
            messages = []
            for index, qa in enumerate(questions[:LONG_QUESTIONS]):
                question = qa["q"].strip()
                messages.append({"role": "user", "content": question if index else f"{text}\n\n{question}"})
                messages.append(answer(qa["a"].strip()))
            if messages:
                yield Example(f"{name}/long-qa", "long-qa", split, tuple(messages), None)
        first = max(end, first + 1)


def chat_examples(chats: Iterable[Chat], encoder: Encoder | BaseEncoder) -> Iterator[Example]:
    """Chats as they are, each followed by its foresight, sketch and expansion examples."""
    for chat in chats:
        yield Example(chat.id, chat.task, chat.split, chat.messages, None)
        for turn in turns_of(chat):
            yield from foresight_examples(turn, encoder)
            yield from sketch_examples(turn)
            yield from recovery_examples(turn)


def all_chats(corpora: Path) -> list[Chat]:
    """The corpora's chats, the stories among them once more with an end from the world of long_form.py, and its guides and tales."""
    chats = load_chats(corpora)
    return [*chats, *(story_chat(chat) for chat in chats if chat.task == "story"), *long_form_chats()]


def corpus_examples(corpora: Path, encoder: Encoder | BaseEncoder) -> Iterator[Example]:
    """Every example of the three corpora and the made-up world."""
    yield from chat_examples(all_chats(corpora), encoder)
    for story in read_records(corpora / FILES["fairytaleqa"]):
        yield from long_examples(story, encoder)


def user_chats(path: Path) -> list[Chat]:
    """Chats of a user's JSON lines; InputError names the line that is neither messages nor prompt and answer."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path} as UTF-8 text ({error})") from error
    chats = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                messages = chat_messages(json.loads(line))
            except (ValueError, KeyError, TypeError) as error:
                wanted = '{"messages": [{"role", "content"}, …]} or {"prompt", "answer"}'
                raise InputError(f"{path}, line {number}: not {wanted} ({error})") from error
            split: Split = "val" if hash_percent(line) < HELD_OUT_PERCENT else "train"
            chats.append(Chat(f"{path.stem}:{number}", "chat", split, messages))
    if not chats:
        raise InputError(f"{path} has no chats")
    return chats


def chat_messages(record: dict) -> tuple[Message, ...]:
    """The messages of one user's record; ValueError, KeyError or TypeError for another form."""
    if "messages" not in record:
        return ({"role": "user", "content": str(record["prompt"])}, answer(str(record["answer"])))
    messages = tuple({"role": str(message["role"]), "content": str(message["content"])} for message in record["messages"])
    if not messages or any(message["role"] not in ("system", "user", "assistant") for message in messages):
        raise ValueError("messages need the roles system, user, assistant")
    return messages


def examples(corpora: Path, data: Path | None, encoder: Encoder | BaseEncoder) -> Iterator[Example]:
    """Every example, of the user's data where given, else of the corpora."""
    return chat_examples(user_chats(data), encoder) if data else corpus_examples(corpora, encoder)


def encode_examples(chats: Iterable[Example], encoder: Encoder | BaseEncoder) -> dict[str, np.ndarray]:
    """{"<split>/<task>/ids", ".../learn": bool, ".../lengths": int32 [examples]}, examples of a task end to end."""
    groups: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    for chat in chats:
        pair = encoder.encode(chat.messages, chat.answers_from, chat.given)
        groups.setdefault(f"{chat.split}/{chat.task}", []).append(pair)
    arrays: dict[str, np.ndarray] = {}
    for group, pairs in sorted(groups.items()):
        arrays[f"{group}/ids"] = np.concatenate([ids for ids, _ in pairs])
        arrays[f"{group}/learn"] = np.concatenate([learn for _, learn in pairs])
        arrays[f"{group}/lengths"] = np.asarray([len(ids) for ids, _ in pairs], np.int32)
    return arrays


def statistics(arrays: dict[str, np.ndarray]) -> list[dict]:
    """Per split and task: examples, tokens, tokens to train on, share of the split's tokens to train on, longest example."""
    rows = []
    for group in sorted(name.removesuffix("/ids") for name in arrays if name.endswith("/ids")):
        split, task = group.split("/")
        lengths, learn = arrays[f"{group}/lengths"], int(arrays[f"{group}/learn"].sum())
        whole = sum(int(part.sum()) for name, part in arrays.items() if name.startswith(f"{split}/") and name.endswith("/learn"))
        rows.append(
            {
                "split": split,
                "task": task,
                "examples": len(lengths),
                "tokens": int(lengths.sum()),
                "learn": learn,
                "sharePercent": round(100 * learn / whole, 1),
                "longest": int(lengths.max()),
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_texts(parser)
    add_work(parser)
    parser.add_argument("--base", type=Path, metavar="DIR", help="with --data: a checkpoint whose tokenizer and chat template to use")
    parser.add_argument("--show", metavar="TASK", help="print three examples of a task without writing")
    args = parser.parse_args()
    if args.base and not args.data:
        raise InputError("--base needs --data, because the corpora are only for the models of this repository")
    encoder = BaseEncoder(args.base) if args.base else own_encoder(args.work)
    chats = examples(args.corpora, args.data, encoder)
    if args.show:
        shown = [chat for chat in chats if chat.task == args.show]
        if not shown:
            raise InputError(f"no task {args.show}")
        for chat in shown[:: max(1, len(shown) // 3)][:3]:
            print(f"--- {chat.id} ({chat.split})\n{(encoder.render if args.base else render)(list(chat.messages))}")
        return
    arrays = encode_examples(chats, encoder)
    for row in statistics(arrays):
        print(json.dumps(row))
    save_arrays(args.work / TASKS, arrays)


if __name__ == "__main__":
    run(main)
