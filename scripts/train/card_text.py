"""The model card's prose; card.py adds the figures."""

INTRO = """# Brim demonstration models

A small Llama, drafters for it, and three small models for devices. This project trained all of them from scratch on a CPU, so that
everything in the repository works offline. They write short assistant dialogues, small talk and fairy tales. They are not a source
of facts: names, times, addresses and prices in their answers are invented.

`llm/` is split after its first layer. It contains `adapter/` (HAT's Λ with features), `adapter-paper/` (the paper's plain Λ) and
`medusa/` (four Medusa heads with a tree of eight nodes). `slm-wide/` and `slm-deep/` use the tokenizer of `llm/`, `slm-other/` has
its own. Every folder has the Hugging Face layout: fp16 safetensors, byte-level BPE with single digits, a ChatML template and tied
embeddings."""

TRAINING = """![Training loss and held-out perplexity; distillation loss and agreement](../../docs/results/training/training.png)

Language models are trained with Muon for the matrices of the layers and AdamW for the rest. A run that starts from another takes its
weights. `llm` is not a run: its weights are 0.4 of `llm-more`'s plus 0.6 of `llm-long`'s (`average.py`).

- Examples: `tokens.npz` has chats only, `tasks.npz` all tasks, `tasks-own.npz` all tasks with foresight and sketches of the model's
  own answers, `rollouts.npz` answers of the finished `llm`. The drafters are distilled from `llm` and see `rollouts.npz` eight times
  as often as the other examples.
- Copying: every step includes a window of shuffled tokens to copy. "task × N": the examples of a task count N times. "?": not recorded.

All runs used two cores of a shared CPU. Losses and mean perplexities of runs with different examples or settings are not comparable,
because the loss covers all examples of a run. All points of the curves are in `docs/results/training/<run>-curve.json`."""

EARLY_EXIT = """**The LLM was trained for drafting.** Besides its own loss it has an early-exit loss with the weight in the table (as in LayerSkip,
arXiv:2404.16710): an adapter Λ on the first layer learns the output of the whole model, and the first layer and the head are trained
with it. This should make the LLM easier to draft for than a normally trained one, above all by `adapter` and `adapter-paper`, which read
these states. HAT uses a finished LLM, so the accept lengths here are not directly comparable with the paper's; expect less of a model
that was trained normally. The size of this effect is not measured: no LLM was trained without the early exit for comparison."""

PERPLEXITY = """exp(mean loss) per token of each model's own tokenizer, with fp16 weights, fp32 arithmetic and hidden states rounded to fp16 at the two
cuts. Texts are packed into windows of 512 tokens; long tasks are evaluated one by one. In chats every token counts, including role markers;
in generated examples (expansion, foresight, sketch) only the answer. Sketches have a high perplexity because the prompt does not contain the
answer. Figures of `slm-other` are per token of another tokenizer and are not comparable with the others."""

POSITIONS = """![Perplexity by position](../../docs/results/training/positions.png)

`packed`: chats in random order in windows of the model's context, so that every position has the same kind of text. Long tasks: whole
stories from position 0, whose later parts differ from their beginnings."""

DRAFTERS = """- `adapter`: x_i = RMSNorm(s_i) + W·RMSNorm(f_{i−1}), f_S = s + Attention(x). s are states after the first layer, f deep states, which are known
  only for the last prompt position and the answer. It has half as many key and value heads, so that with W it has HAT's 4·d² weights.
- `adapter-paper`: f_S = s + Attention(RMSNorm(s)), HAT Eq. 4. `lookup`: prompt lookup. `adapter+lookup`: the adapter, or lookup where the
  adapter's confidence is below η.

`adapter` reads deep states of the LLM, which the paper's drafter does not. The paper's own form, `adapter-paper`, does not beat Medusa on
this LLM.

Measured by `brim bench acceptance` on `test/fixtures/heldout-prompts.jsonl`. `docs/results/acceptance` also has rates by draft position and
accept lengths by position in the context."""

TASKS_NOTE = """![Tasks and their targets](../../docs/results/training/tasks.png)

Greedy decoding, one request at a time, on held-out text with equal shares of the sources; brackets give the 95 % bootstrap interval over
answers. The error of foresight is |predicted − actual length| in tokens. The prediction is either the median of the model's distribution over
the numbers it was trained on, or the number that it writes. A model's own answer is included if it ends within the longest reply and does not
repeat itself. ROUGE-1 uses lower-case words without stemming; content words exclude function words. Baselines without a model are the best
constant guess for these answers, sketches that `sketch.py` makes from the real answer, and the bare line."""

DATA = """The weights are trained on, and may reproduce pieces of:

- **Schema-Guided Dialogue** (SGD), CC BY-SA 4.0. Abhinav Rastogi, Xiaoxue Zang, Srinivas Sunkara, Raghav Gupta, Pranav
  Khaitan: *Towards Scalable Multi-Domain Conversational Agents: The Schema-Guided Dialogue Dataset*, AAAI 2020.
  github.com/google-research-datasets/dstc8-schema-guided-dialogue. Changes: a subset; annotations dropped; formatted as chats.
- **Topical-Chat**, CDLA-Sharing-1.0. Karthik Gopalakrishnan et al.: *Topical-Chat: Towards Knowledge-Grounded Open-Domain
  Conversations*, Interspeech 2019. github.com/alexa/Topical-Chat. Changes: a subset; other fields dropped; formatted as chats.
- **FairytaleQA**, Apache-2.0. Ying Xu et al.: *Fantastic Questions and Where to Find Them: FairytaleQA – An Authentic
  Dataset for Narrative Comprehension*, ACL 2022. github.com/uci-soe/FairytaleQAData. The stories are Project Gutenberg texts.

`scripts/train/tasks.py` makes the foresight, sketch and expansion examples from these corpora. Held out are SGD's dev part, which has
services that its train part lacks, FairytaleQA's val part with other stories, and 5 % of Topical-Chat's conversations by hash of the id.
If you redistribute the weights, keep this list."""

LIMITS = """The models know only English. They invent facts; stories drift and may contradict themselves from one sentence to the next. The small models
stay coherent for a sentence or two. A sketch is written before the answer, so it lists what an answer might contain, not what the model would
write without the sketch. Missed targets are marked above. The old tales and the conversations contain the views of their authors. The models
are meant for tests, demonstrations and measurements, not for advice."""

REPRODUCE = """Follow `scripts/train/README.md`. Runs with a time limit are repeated exactly only with `--tokens` or `--steps`. Two machines give the same curves
within noise, but not the same bits."""
