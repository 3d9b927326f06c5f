"""Reads the three corpora and turns every record into chats (lists of messages) with a task and a split.

Held-out text ("val"): SGD's dev part and FairytaleQA's val part as published; Topical-Chat is available without its
train part, so 5 % of its conversations are held out by a hash of the id. A story, dialogue or conversation is never in both
parts.
"""

import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from errors import InputError

Split = Literal["train", "val"]
Message = dict[str, str]  # {"role": "system" | "user" | "assistant", "content": text}
FILES = {
    "sgd": "corpus-sgd/dialogues.jsonl.gz",
    "topical-chat": "corpus-topical-chat/conversations.jsonl.gz",
    "fairytaleqa": "corpus-fairytaleqa/stories.jsonl.gz",
}
HELD_OUT_PERCENT = 5
SYSTEM_PERCENT = 20  # share of chats that get a system message, so that the model has seen one
SYSTEM = {
    "sgd": "You are a helpful assistant.",
    "topical-chat": "You are a friendly conversation partner.",
    "fairytaleqa": "You tell stories and answer questions about them.",
}
CONTINUE = ("Continue this story.", "What happens next in this story?", "Please go on with the story.")


@dataclass(frozen=True)
class Chat:
    """One conversation. `task` is sgd, topical-chat, story (continuation), story-qa or story-start."""

    id: str
    task: str
    split: Split
    messages: tuple[Message, ...]


def hash_percent(text: str) -> int:
    """A stable number 0..99 for a text (first four bytes of SHA-256 modulo 100)."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") % 100


def read_records(path: Path) -> list[dict]:
    """JSON lines from a .jsonl.gz file. Raises InputError if missing, empty, not gzip, not UTF-8 or not JSON."""
    if not path.is_file():
        raise InputError(f"corpus file {path} is missing; give its parent folder with --corpora")
    records: list[dict] = []
    number = 0
    try:
        with gzip.open(path, "rb") as file:
            for number, line in enumerate(file, 1):
                record = json.loads(line.decode("utf-8"))
                if not isinstance(record, dict):
                    raise InputError(f"{path}, line {number}: not a JSON object")
                records.append(record)
    except UnicodeDecodeError as error:
        raise InputError(f"{path}, line {number}: not UTF-8 ({error.reason}); convert the file first") from error
    except json.JSONDecodeError as error:
        raise InputError(f"{path}, line {number}: not JSON ({error.msg})") from error
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: not a whole gzip file ({error}); copy it again") from error
    if not records:
        raise InputError(f"{path} is empty; copy it again")
    return records


def load_chats(corpora: Path) -> list[Chat]:
    """All chats of all corpora in the files' order; a record without an expected field is an InputError."""
    makers = {"sgd": sgd_chats, "topical-chat": topical_chats, "fairytaleqa": story_chats}
    chats: list[Chat] = []
    for corpus, file in FILES.items():
        for record in read_records(corpora / file):
            try:
                chats.extend(with_system(chat, SYSTEM[corpus]) for chat in makers[corpus](record))
            except (KeyError, TypeError, IndexError, AttributeError) as error:
                raise InputError(f"{corpora / file}: record {record.get('id', '?')!r} lacks {error}") from error
    return chats


def sgd_chats(record: dict) -> Iterator[Chat]:
    """Schema-Guided Dialogue: user → user, system → assistant."""
    split: Split = "val" if record["id"].startswith("dev:") else "train"
    roles = {"user": "user", "system": "assistant"}
    messages = tuple({"role": roles[turn["s"]], "content": turn["t"].strip()} for turn in record["turns"])
    yield Chat(f"sgd/{record['id']}", "sgd", split, messages)


def topical_chats(record: dict) -> Iterator[Chat]:
    """Topical-Chat: the first speaker is the user, the second the assistant."""
    split: Split = "val" if hash_percent(record["id"]) < HELD_OUT_PERCENT else "train"
    messages = tuple(
        {"role": "assistant" if index % 2 else "user", "content": text.strip()} for index, text in enumerate(record["turns"])
    )
    yield Chat(f"topical-chat/{record['id']}", "topical-chat", split, messages)


def story_chats(record: dict) -> Iterator[Chat]:
    """FairytaleQA: the story's start on request, each section continued from its first sentences, and its questions."""
    split: Split = "val" if record["split"] == "val" else "train"
    sections = [section.strip() for section in record["sections"]]
    title = re.sub(r"-story$", "", record["id"]).replace("-", " ").strip().lower()
    start = ({"role": "user", "content": f"Tell me the story of {title}."}, {"role": "assistant", "content": sections[0]})
    yield Chat(f"fairytaleqa/{record['id']}", "story-start", split, start)
    for index, section in enumerate(sections):
        name = f"fairytaleqa/{record['id']}#{index + 1}"
        opening, rest = cut_section(section, hash_percent(name))
        if rest:
            request = f"{CONTINUE[hash_percent(name) % len(CONTINUE)]}\n\n{opening}"
            yield Chat(name, "story", split, ({"role": "user", "content": request}, {"role": "assistant", "content": rest}))
        messages = question_messages(section, [qa for qa in record["qa"] if str(qa["sec"]) == str(index + 1)])
        if messages:
            yield Chat(f"{name}/qa", "story-qa", split, messages)


def cut_section(section: str, percent: int) -> tuple[str, str]:
    """(opening, rest) of a section, cut between sentences; the opening is the first 15 to 45 %, chosen by `percent`."""
    sentences = re.split(r"(?<=[.!?])(?=\s)|(?<=[.!?]['\"])(?=\s)", section)
    target = len(section) * (15 + 0.3 * percent) / 100
    opening = sentences[0]
    taken = 1
    while taken < len(sentences) and len(opening) + len(sentences[taken]) / 2 < target:
        opening += sentences[taken]
        taken += 1
    return opening.strip(), "".join(sentences[taken:]).strip()


def question_messages(section: str, questions: list[dict]) -> tuple[Message, ...]:
    """The section with its first question as the user's first message, further questions as further turns."""
    messages: list[Message] = []
    for index, qa in enumerate(questions):
        question = qa["q"].strip()
        messages.append({"role": "user", "content": question if index else f"{section}\n\n{question}"})
        messages.append({"role": "assistant", "content": qa["a"].strip()})
    return tuple(messages)


def with_system(chat: Chat, system: str) -> Chat:
    """The chat, for SYSTEM_PERCENT of the training ids with a system message in front."""
    if chat.split != "train" or hash_percent(f"system/{chat.id}") >= SYSTEM_PERCENT:
        return chat
    return Chat(chat.id, chat.task, chat.split, ({"role": "system", "content": system}, *chat.messages))
