"""Chats → token ids, with the tokens to train on marked."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from corpus import Message
from tokenizer import END_OF_TEXT, load_tokenizer, render


@dataclass(frozen=True)
class Encoder:
    """The tokenizer with the chat template of this project."""

    tokenizer: Tokenizer

    def count(self, text: str) -> int:
        """Tokens of a plain text."""
        return len(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def prompt(self, messages: Sequence[Message]) -> list[int]:
        """Ids of a chat that ends where the answer begins."""
        return self.tokenizer.encode(render(list(messages), True), add_special_tokens=False).ids

    def encode(self, messages: Sequence[Message], answers_from: int | None, given: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """(ids uint16 [tokens], learn bool [tokens]) of a chat, its <|endoftext|> included.

        The tokens to learn are those of the assistant's messages from index `answers_from` on, except the first `given`
        characters of each, and what the template writes after each (the stop token); with None all.
        """
        encoding = self.tokenizer.encode(render(list(messages)) + END_OF_TEXT, add_special_tokens=False)
        ids = np.asarray(encoding.ids, np.uint16)
        if answers_from is None:
            return ids, np.ones(len(ids), bool)
        learn = np.zeros(len(ids), bool)
        starts = np.asarray([start for start, _ in encoding.offsets])  # characters
        for index, message in enumerate(messages):
            if message["role"] == "assistant" and index >= answers_from:
                begin, end = render(list(messages[:index]), True), render(list(messages[: index + 1]))
                learn |= (starts >= len(begin) + given) & (starts < len(end))
        return ids, learn


def own_encoder(work: Path) -> Encoder:
    """The encoder of <work>/tokenizer.json."""
    return Encoder(load_tokenizer(work))
