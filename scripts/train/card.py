"""Writes models/demo/MODEL_CARD.md from the evaluation and the curves; no figure in it is typed by hand.

    python scripts/train/card.py
"""

import argparse
import json
from pathlib import Path

from errors import InputError, run
from evaluate import DEFAULT_RESULT
from export import DEFAULT_OUT, adapter_config
from files import write_atomically
from model import LlmConfig
from paths import REPOSITORY

DEFAULT_CARD = REPOSITORY / "models" / "demo" / "MODEL_CARD.md"

CARD = """# Brim demonstration model

A small Llama of {weights} weights and a HAT adapter of {adapter_weights}, both trained by this project from
scratch on a CPU, so that everything in this repository works offline. It speaks short assistant dialogues, small talk and
fairy tales; it is no source of facts: names, times, addresses and prices in its answers are made up.

| | |
|---|---|
| Architecture | LlamaForCausalLM, {layers} layers, width {hidden}, {heads} heads of {head_dim}, {kv_heads} key/value heads, SwiGLU {intermediate}, tied embeddings, RoPE {theta:.0f}, context {context} |
| Tokenizer | byte-level BPE, {vocab} tokens, digits one by one, no normalisation; ChatML template; stops at `<\\|im_end\\|>` |
| Files | `llm/`: Hugging Face layout, fp16 safetensors, {llm_mb:.1f} MB; `llm/adapter/`: fp16 safetensors, {adapter_mb:.2f} MB |
| Training | {tokens_m:.1f} million tokens seen ({epochs:.1f} passes), {minutes:.0f} minutes on two threads of a shared CPU, {rate:.0f} tokens/s on average; Muon for matrices, AdamW for the rest, linear decay to zero |
| Split | m = {split} of {layers} layers on the device |

## Training curve

![Loss, held-out perplexity and adapter agreement](../../docs/results/training/training.png)

The points are in `docs/results/training/llm-curve.json` and `adapter-curve.json`, the figures below in `evaluation.json`.

## Held-out perplexity

Per token of our tokenizer, role markers included; exported fp16 weights, hidden states rounded to fp16 at the two cuts;
at most 300 windows of 512 tokens of each kind.

| held-out text | tokens | perplexity |
|---|---|---|
{perplexity_rows}

SGD's dev part holds services that its train part has not, FairytaleQA's val part holds other stories, and 5 % of
Topical-Chat's conversations (by hash of the id) were held out. `story` is continuing a section, `story-qa` the section with
its questions and answers: most of its tokens are the section itself.

## Adapter: accept length

The adapter is HAT's Λ: one causal self-attention with 4·d² weights and no FFN. With s the residual stream after the first
layer, f_S = s + o_proj(Attention(RMSNorm(s))), which stands in for the last residual stream: draft logits = head(final norm(f_S)).
Trained for some {adapter_steps} steps with HAT Eq. 4 (w_ce = 0.1) on the training text and on the LLM's own answers to training
prompts, f being taken after the final norm (before it the states are large (rms about 19), and SmoothL1 would drown the CE term).

Greedy answers of at most 128 tokens to `test/fixtures/heldout-prompts.jsonl`, η = {eta}, at most {longest} drafted tokens; accept
length counts the bonus token (no drafting = 1.00), agreement is how often the draft model's first choice is the LLM's.

| prompts | answers | of them looping | tokens | agreement | accept length |
|---|---|---|---|---|---|
{drafting_rows}

Greedy story continuations soon repeat themselves, and most of the tokens above are theirs; an answer counts as looping when more than half of its
4-grams have occurred in it before. `without-loops` leaves those answers out and is the fairer figure.

## Samples

{samples}

## Data and licences

The weights are learnt from, and may repeat pieces of:

- **Schema-Guided Dialogue** (SGD), CC BY-SA 4.0. Abhinav Rastogi, Xiaoxue Zang, Srinivas Sunkara, Raghav Gupta, Pranav
  Khaitan: *Towards Scalable Multi-Domain Conversational Agents: The Schema-Guided Dialogue Dataset*, AAAI 2020.
  github.com/google-research-datasets/dstc8-schema-guided-dialogue. Changes: a subset; annotations dropped; formatted as chats.
- **Topical-Chat**, CDLA-Sharing-1.0. Karthik Gopalakrishnan et al.: *Topical-Chat: Towards Knowledge-Grounded Open-Domain
  Conversations*, Interspeech 2019. github.com/alexa/Topical-Chat. Changes: a subset; other fields dropped; formatted as chats.
- **FairytaleQA**, Apache-2.0. Ying Xu et al.: *Fantastic Questions and Where to Find Them: FairytaleQA – An Authentic
  Dataset for Narrative Comprehension*, ACL 2022. github.com/uci-soe/FairytaleQAData. The stories are Project Gutenberg texts.

Whoever redistributes the weights should keep this list.

## Limits

English only; {context} tokens of context; wrong or invented facts are the rule; stories drift and, decoded greedily, loop. The old tales and the
conversations carry the views of their authors. For tests, demonstrations and measurements, not for advice.

## Reproduce

`scripts/train/README.md`, step by step. The runs above were bounded by the clock; with `--tokens {tokens}` the LLM's run is
bounded by tokens instead. Two machines will not give the same bits, but the same curve within noise.
"""


def read_json(path: Path) -> dict | list:
    """A JSON file; InputError if missing or damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path} ({error}); run evaluate.py and plot.py first") from error


def quote(text: str) -> str:
    """Markdown block quote."""
    return "\n".join(f"> {line}".rstrip() for line in text.strip().splitlines())


def sample_text(sample: dict) -> str:
    """One sample in Markdown."""
    return (
        f"**{sample['id']}**\n\n{quote(sample['prompt'])}\n\ngreedy:\n\n{quote(sample['greedy'])}"
        f"\n\ntemperature 0.7:\n\n{quote(sample['sampled'])}\n"
    )


def card(evaluation: dict, llm: list[dict], adapter: list[dict], model: Path) -> str:
    """The card's Markdown."""
    stored = read_json(model / "config.json")
    config = LlmConfig(**{name: stored[name] for name in LlmConfig().to_dict()})
    drafting, last = evaluation["drafting"], llm[-1]
    rows = [(task, drafting[task]) for task in ("request", "story-qa", "story", "all", "without-loops")]
    return CARD.format(
        weights=f"{evaluation['weights']:,}",
        adapter_weights=f"{evaluation['adapterWeights']:,}",
        layers=config.num_hidden_layers,
        hidden=config.hidden_size,
        heads=config.num_attention_heads,
        head_dim=config.head_dim,
        kv_heads=config.num_key_value_heads,
        intermediate=config.intermediate_size,
        theta=config.rope_theta,
        context=config.max_position_embeddings,
        vocab=config.vocab_size,
        split=adapter_config(config)["split"],
        llm_mb=(model / "model.safetensors").stat().st_size / 1e6,
        adapter_mb=(model / "adapter" / "adapter.safetensors").stat().st_size / 1e6,
        tokens=last["tokens"],
        tokens_m=last["tokens"] / 1e6,
        epochs=last["tokens"] / evaluation["trainingTokens"],
        minutes=last["seconds"] / 60,
        rate=last["tokens"] / last["seconds"],
        adapter_steps=adapter[-1]["step"],
        eta=drafting["eta"],
        longest=drafting["longestDraft"],
        perplexity_rows="\n".join(f"| {task} | {row['tokens']:,} | {row['perplexity']:.2f} |" for task, row in evaluation["heldOut"].items()),
        drafting_rows="\n".join(
            f"| {task} | {row['answers']} | {row['loopingAnswers']} | {row['tokens']:,} | {row['agreement']:.3f} | {row['acceptLength']:.2f} |" for task, row in rows
        ),
        samples="\n".join(sample_text(sample) for sample in evaluation["samples"]),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=DEFAULT_OUT)
    parser.add_argument("--evaluation", type=Path, default=DEFAULT_RESULT)
    parser.add_argument("--out", type=Path, default=DEFAULT_CARD)
    args = parser.parse_args()
    folder = args.evaluation.parent
    curves = read_json(folder / "llm-curve.json"), read_json(folder / "adapter-curve.json")
    write_atomically(args.out, card(read_json(args.evaluation), *curves, args.model).encode())
    print(json.dumps({"written": args.out.name}))


if __name__ == "__main__":
    run(main)
