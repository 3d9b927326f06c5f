"""The model card's prose; card.py puts the figures beside it."""

INTRO = """# Brim demonstration models

A small Llama, the drafters that a device runs in front of it, and three small models for the devices, all trained by this project
from scratch on a CPU, so that everything in this repository works offline. They speak short assistant dialogues, small talk and
fairy tales; they are no source of facts: names, times, addresses and prices in their answers are made up.

`llm/` is split after its first layer; in it `adapter/` is HAT's Λ with features, `adapter-paper/` the paper's plain Λ, `medusa/` four
Medusa heads with a tree of eight nodes. `slm-wide/` and `slm-deep/` share its tokenizer, `slm-other/` has one of its own. Every
folder has the Hugging Face layout: fp16 safetensors, byte-level BPE, digits one by one, ChatML template, tied embeddings."""

TRAINING = """![Training loss and held-out perplexity; distillation loss and agreement](../../docs/results/training/training.png)

Language models: Muon for the layers' matrices, AdamW for the rest; a run that is started from another takes its weights. Examples:
`tokens.npz` holds chats only, `tasks.npz` all tasks, `tasks-own.npz` all tasks with foresight and sketches made of the model's own
answers, `rollouts.npz` answers of the finished `llm`, which the drafters, distilled from it, learn eight times as often beside the other
examples. `llm` itself has no run: its weights are 0.4 of `llm-more`'s and 0.6 of `llm-long`'s (`average.py`). Copying: a window of shuffled tokens in every step, which teaches copying. "task × N": its examples count N times. "?": the run
did not record it. All on two cores of a shared CPU. Losses and mean perplexities of runs with other examples or settings cannot be
compared: a loss holds all that a run learnt by. All points of the curves are in `docs/results/training/<run>-curve.json`."""

EARLY_EXIT = """**The LLM was trained to be drafted for.** Beside its own loss it learnt an early-exit loss, weighted as the table says (as in LayerSkip,
arXiv:2404.16710): an adapter Λ on the first layer learns to say what the whole model says, and the first layer and the head learn with
it. This is meant to make the LLM easier to draft for than one trained as usual, above all by `adapter` and `adapter-paper`, which read just these states.
HAT takes a finished LLM as it is: compare the accept lengths here with the paper's with that in mind, and expect less of a model that
was not trained in this way. By how much has not been measured: there is no twin of this LLM trained without it."""

PERPLEXITY = """exp(mean loss) per token of each model's own tokenizer, fp16 weights in fp32 arithmetic, hidden states rounded to fp16 at the two cuts; packed
windows of 512 tokens, long tasks each example by itself. Of chats every token counts, role markers included; of made examples
(expansion, foresight, sketch) the answer alone. A sketch is asked for without its answer, so its perplexity is high by nature. Figures of
`slm-other` are per token of another tokenizer and cannot be compared with the rest."""

POSITIONS = """![Perplexity by position](../../docs/results/training/positions.png)

`packed`: chats in random order in windows of the model's context, so that every position has the same kind of text. Long tasks: whole
stories, each from position 0; their later parts are other text than their beginnings."""

DRAFTERS = """`adapter`: x_i = RMSNorm(s_i) + W·RMSNorm(f_{i−1}), f_S = s + Attention(x), where s are states after the first layer and f deep states, known only
for the last prompt position and the answer; key/value heads halved, so that it has HAT's 4·d² weights with W. `adapter-paper`: f_S = s +
Attention(RMSNorm(s)), HAT Eq. 4. `lookup`: prompt lookup. `adapter+lookup`: the adapter, and lookup where that is less sure than η. Measured by `brim
bench acceptance` on `test/fixtures/heldout-prompts.jsonl` (`docs/results/acceptance`, with rates by draft position and accept length by
position in the context)."""

TASKS_NOTE = """![Tasks and their targets](../../docs/results/training/tasks.png)

Greedy, one request at a time, held-out text, sources in equal parts; in brackets the 95 % bootstrap interval over answers. Error: |foreseen −
length| in tokens; foreseen is the median of what the model thinks of every number that it was taught, or the number that it writes. A model's own answer counts where it ends within the longest reply and does not repeat itself. ROUGE-1 on
lower-case words without stemming; content words are those that are no function words. Beside the models stands what needs none: the best constant
guess for just these answers, sketches made by `sketch.py` from the real answer, the bare line."""

DATA = """The weights are learnt from, and may repeat pieces of:

- **Schema-Guided Dialogue** (SGD), CC BY-SA 4.0. Abhinav Rastogi, Xiaoxue Zang, Srinivas Sunkara, Raghav Gupta, Pranav
  Khaitan: *Towards Scalable Multi-Domain Conversational Agents: The Schema-Guided Dialogue Dataset*, AAAI 2020.
  github.com/google-research-datasets/dstc8-schema-guided-dialogue. Changes: a subset; annotations dropped; formatted as chats.
- **Topical-Chat**, CDLA-Sharing-1.0. Karthik Gopalakrishnan et al.: *Topical-Chat: Towards Knowledge-Grounded Open-Domain
  Conversations*, Interspeech 2019. github.com/alexa/Topical-Chat. Changes: a subset; other fields dropped; formatted as chats.
- **FairytaleQA**, Apache-2.0. Ying Xu et al.: *Fantastic Questions and Where to Find Them: FairytaleQA – An Authentic
  Dataset for Narrative Comprehension*, ACL 2022. github.com/uci-soe/FairytaleQAData. The stories are Project Gutenberg texts.

Foresight, sketch and expansion examples are made from these by `scripts/train/tasks.py`. Held out: SGD's dev part, which holds services
that its train part has not, FairytaleQA's val part, other stories, and 5 % of Topical-Chat's conversations by hash of
the id. Whoever redistributes the weights should keep this list."""

LIMITS = """English only; invented facts are the rule; stories drift, and what is told in one sentence may be contradicted in the next. The small
models hold a conversation for a sentence or two. A sketch is written before there is an answer, so it names what an answer might hold, not what the
model will say when asked without it. Targets that are missed are marked above. The old tales and the conversations carry the views of
their authors. For tests, demonstrations and measurements, not for advice."""

REPRODUCE = """`scripts/train/README.md`, step by step. Runs bounded by the clock are repeated exactly only with `--tokens` or `--steps`; two
machines will not give the same bits, but the same curves within noise."""
