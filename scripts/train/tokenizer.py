"""Trains the byte-level BPE tokenizer and reads it back.

    python scripts/train/tokenizer.py [--corpora DIR] [--work DIR] [--vocab 4096]
    python scripts/train/tokenizer.py --data chats.jsonl --work own      # from a user's own chats, see tasks.py
"""

import argparse
import json
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from corpus import Message, load_chats
from errors import InputError, run
from files import write_atomically
from paths import add_texts, add_work

END_OF_TEXT, IM_START, IM_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"  # ids 0, 1, 2
SPECIAL = (END_OF_TEXT, IM_START, IM_END)
# Words with their leading space, single digits, runs of punctuation, white space; written without (?i:) so that
# JavaScript's regular expressions read it too.
PATTERN = (
    r"'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]"
    r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def render(messages: tuple[Message, ...] | list[Message], add_generation_prompt: bool = False) -> str:
    """The result of CHAT_TEMPLATE; a test compares the two."""
    text = "".join(f"{IM_START}{message['role']}\n{message['content']}{IM_END}\n" for message in messages)
    return text + (f"{IM_START}assistant\n" if add_generation_prompt else "")


def train_tokenizer(texts: list[str], vocab: int) -> Tokenizer:
    """Byte-level BPE without normalisation, so that decode(encode(text)) == text for any text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PATTERN), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab,
        special_tokens=[AddedToken(token, special=True, normalized=False) for token in SPECIAL],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def tokenizer_config(context: int) -> dict:
    """tokenizer_config.json of the exported model."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": None,
        "eos_token": IM_END,
        "pad_token": END_OF_TEXT,
        "unk_token": None,
        "additional_special_tokens": [IM_START],
        "add_bos_token": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": context,
        "chat_template": CHAT_TEMPLATE,
    }


def load_tokenizer(work: Path) -> Tokenizer:
    """The trained tokenizer of a work directory; InputError if missing or damaged."""
    path = work / "tokenizer.json"
    if not path.is_file():
        raise InputError(f"{path} is missing; run tokenizer.py first")
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise InputError(f"{path} is damaged ({error}); run tokenizer.py again") from error


def stop_tokens(tokenizer: Tokenizer) -> set[int]:
    """Ids that end an answer."""
    return {tokenizer.token_to_id(IM_END), tokenizer.token_to_id(END_OF_TEXT)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_texts(parser)
    add_work(parser)
    parser.add_argument("--vocab", type=int, default=4096, help="vocabulary size, including special tokens (default: 4096)")
    args = parser.parse_args()
    from tasks import user_chats  # tasks.py reads this file too

    chats = user_chats(args.data) if args.data else load_chats(args.corpora)
    texts = [message["content"] for chat in chats if chat.split == "train" for message in chat.messages]
    tokenizer = train_tokenizer(texts, args.vocab)
    write_atomically(args.work / "tokenizer.json", tokenizer.to_str(pretty=True).encode())
    print(json.dumps({"vocab": tokenizer.get_vocab_size(), "texts": len(texts)}))


if __name__ == "__main__":
    run(main)
