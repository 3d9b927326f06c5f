"""Tiny tokenizers with the pipelines of real checkpoints: byte-level BPE (Llama 3, Qwen2) and sentencepiece BPE (Vicuna, Mistral)."""

import json
from collections import Counter

from corpus import training_text
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

LLAMA3_SPLIT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2_SPLIT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def special(token: str) -> AddedToken:
    return AddedToken(token, special=True, normalized=False)


def train(tokenizer: Tokenizer, vocab_size: int, **options) -> None:
    tokenizer.train_from_iterator(training_text(), trainers.BpeTrainer(vocab_size=vocab_size, show_progress=False, **options))


def byte_level(split: str, vocab_size: int, specials: list[str], ignore_merges: bool) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(split), behavior="isolated", invert=False),
            pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    train(tokenizer, vocab_size - len(specials), initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    # Real checkpoints number their special tokens after the vocabulary.
    tokenizer.add_special_tokens([special(token) for token in specials])
    return tokenizer


def llama3() -> Tokenizer:
    names = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
    tokenizer = byte_level(LLAMA3_SPLIT, 512, names, ignore_merges=True)
    bos = tokenizer.token_to_id("<|begin_of_text|>")
    template = processors.TemplateProcessing(
        single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|> $B", special_tokens=[("<|begin_of_text|>", bos)]
    )
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
    return tokenizer


def qwen2() -> Tokenizer:
    tokenizer = byte_level(QWEN2_SPLIT, 500, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], ignore_merges=False)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.post_processor = processors.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    return tokenizer


def sentencepiece(vocab_size: int, extra: list[str], legacy: bool) -> Tokenizer:
    """legacy: Llama 2's own tokenizer.json (Prepend, Replace); otherwise Metaspace, as newer conversions write it."""
    first = ["<unk>", "<s>", "</s>", *extra]
    bytes_ = [f"<0x{value:02X}>" for value in range(256)]
    trained = Tokenizer(models.BPE(unk_token="<unk>"))
    trained.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    counts = Counter("".join(training_text()).replace(" ", "▁"))
    # The trainer's own choice among equally common characters changes from run to run.
    alphabet = sorted(counts, key=lambda character: (-counts[character], character))[:90]
    train(trained, vocab_size, special_tokens=[*first, *bytes_], initial_alphabet=alphabet, limit_alphabet=90)
    model = json.loads(trained.to_str())["model"]
    tokenizer = Tokenizer(
        models.BPE(
            vocab=model["vocab"],
            merges=[tuple(merge) for merge in model["merges"]],
            unk_token="<unk>",
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    tokenizer.add_special_tokens([special(token) for token in first])
    if legacy:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(content=" ", left=1)]
    )
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    return tokenizer


def vicuna() -> Tokenizer:
    return sentencepiece(512, [], legacy=True)


def mistral() -> Tokenizer:
    return sentencepiece(480, ["[INST]", "[/INST]"], legacy=False)
