"""The prose of the model card and of the results' page; card.py adds the figures."""

INTRO = """# Brim demonstration models

A small Llama, drafters for it, and three small models for devices. This project trained all of them from scratch on a CPU, so that
everything in the repository works offline. They write short assistant dialogues and small talk, and long answers in a small made-up
world: guides (how to grow, cook, make, mend, clean, look after, learn or plan one of 96 things, somewhere, with someone, under some
circumstance) and tales. They are not a source of facts: names, times, addresses and prices in their answers are invented, and the
guides' advice is a matter of style.

`llm/` is split after its first layer. It contains `adapter/` (HAT's Λ with features), `adapter-paper/` (the paper's plain Λ) and
`medusa/` (four Medusa heads with a tree of eight nodes). `slm-wide/` and `slm-deep/` use the tokenizer of `llm/`, `slm-other/` has
its own. Every folder has the Hugging Face layout: fp16 safetensors, byte-level BPE with single digits, a ChatML template and tied
embeddings."""

LONG_FORMS_NOTE = """Foresight, sketch and expansion are measured on held-out guides and tales, with the LLM's own full greedy answer as the yardstick;
expansions against the real sentence. Held out are combinations of slots (subject, place, company, circumstance; hero, trait, place,
thing, helper, enemy, ending): every slot and nearly every sentence of such an answer was in the training text, the combination was not.
That is what makes them foreseeable for models of this size. On text whose course the prompt does not decide, such as the fairy tales and
small talk of the corpora, sketches hold less than a tenth of the answer's content words. [The results](../../docs/results/training/training.md) have these figures too,
with 95 % intervals, perplexities, the runs and more samples.

![Tasks and their targets](../../docs/results/training/tasks.png)"""

CARD_DRAFTERS = """Read the table by task: the long forms, and the story prompts, which the LLM continues in the made-up world, are nearly learned by heart,
so drafting gains far more there than on questions and requests, which are the fairer figure for open text. The LLM was trained with an
early exit, which makes it easier to draft for than a normal one. Drafters and setting are described in
[the results](../../docs/results/training/training.md).

The release before knew more by heart: its adapter had an accept length of 3.61 over all answers, and of 1.60 on requests. The drafters of
this one had 14 and 4 minutes beside other work.

Loops: before the long forms, 44 of 144 greedy answers of this benchmark repeated themselves. What changed is the training text: story prompts
have answers with an end (`story-tale`), sketches of the corpora's stories are fewer, and in recovery examples a repeated piece is followed by
what comes next, with only that trained on. With 2 % of these examples in place of 6 % a run of the same text looped twice as often (12 %)."""

PAGE_INTRO = """# Training of the demonstration models

Written by `scripts/train/card.py`, like [the model card](../../../models/demo/MODEL_CARD.md), from the files of this folder and of
[acceptance](../acceptance/acceptance.md). [scripts/train](../../../scripts/train/README.md) has the commands."""

LOOPS = """Answers of at most 128 tokens to `test/fixtures/heldout-prompts.jsonl` of which more than half of the 4-grams have occurred before, by PyTorch.
Each cell: looping / all. Prompts that leave no room in a model's context are left out."""

TRAINING = """![Training loss and held-out perplexity; distillation loss and agreement](training.png)

Language models are trained with Muon for the matrices of the layers and AdamW for the rest. A run that starts from another takes its
weights; `models/demo/…` is the model of a release before, which the runs with `first` in their names led to (`llm-chats`,
`llm-512`, `llm-copy`, `llm-more` and `llm-long` for the LLM, whose weights were 0.4 of `llm-more`'s plus 0.6 of `llm-long`'s: `before`).
`llm-forms`, `llm-end-…` and `llm-last-…` led to the release with long forms (`forms`), and `llm-real-1` to `llm-real-5` to this one;
`between-…` are means of two models.

- Examples: `tokens.npz` has chats only, `tasks.npz` all tasks, `tasks-own.npz` all tasks with foresight and sketches of the model's
  own answers, `rollouts.npz` answers of the finished `llm`.
- Taught by: half of the loss of these tasks is against the distribution of the model named.
- Copying: every step includes a window of shuffled tokens to copy. "task × N": the examples of a task count N times.

All runs used one or two shared cores. Losses and mean perplexities of runs with different examples or settings are not comparable,
because the loss covers all examples of a run. All points of the curves are in `<run>-curve.json`."""

EARLY_EXIT = """**The LLM was trained for drafting.** Besides its own loss it has an early-exit loss with the weight in the table (as in LayerSkip,
arXiv:2404.16710): an adapter Λ on the first layer learns the output of the whole model, and the first layer and the head are trained
with it. This should make the LLM easier to draft for than a normally trained one, above all by `adapter` and `adapter-paper`, which read
these states. HAT uses a finished LLM, so the accept lengths here are not directly comparable with the paper's; expect less of a model
that was trained normally. The size of this effect is not measured: no LLM was trained without the early exit for comparison."""

PERPLEXITY = """exp(mean loss) per token of each model's own tokenizer, with fp16 weights, fp32 arithmetic and hidden states rounded to fp16 at the two
cuts. The figures of the small models are of the scripts of commit b9ff4be0, which packed texts into windows of 512 tokens; `evaluate.py` now starts
every example at position 0. In chats every token counts, including role markers;
in generated examples (expansion, foresight, sketch) only the answer. Sketches have a high perplexity because the prompt does not contain the
answer. Figures of `slm-other` are per token of another tokenizer and are not comparable with the others."""

POSITIONS = """![Perplexity by position](positions.png)

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

TASKS_NOTE = """![Tasks and their targets](tasks.png)

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
- **Long forms**: guides and tales of `scripts/train/long_form.py`, written for this project, with the licence of the repository.
- **FairytaleQA**, Apache-2.0. Ying Xu et al.: *Fantastic Questions and Where to Find Them: FairytaleQA – An Authentic
  Dataset for Narrative Comprehension*, ACL 2022. github.com/uci-soe/FairytaleQAData. The stories are Project Gutenberg texts.

`scripts/train/tasks.py` makes the foresight, sketch and expansion examples from these texts. Held out are 5 % of the combinations of slots by hash, SGD's dev part, which has
services that its train part lacks, FairytaleQA's val part with other stories, and 5 % of Topical-Chat's conversations by hash of the id.
If you redistribute the weights, keep this list."""

LIMITS = """**Known by heart.** The guides and tales are made of sentences that each depend on one or two slots of the request, and nearly all of these
sentences were in the training text: what the LLM writes there is recited, with a perplexity of 1.1 to 1.2, and the figures of foresight, sketches,
expansions and drafts on them say how well Brim works, not how well the model writes. Story prompts get the same sentences.

**The other texts** are as good as before the long forms, or nearly (within 5 % in perplexity on the same kind of examples; the table of
[the training's page](../../scripts/train/README.md#the-recipe)): with only long forms in mind, the release before had become twice as bad on them.
Small models expand lines of the corpora's answers with a ROUGE-1 F of 0.14 to 0.19 (before, up to 0.42). Guides mix up their subjects' details:
every sentence is of the right kind, but a tool or a sign may belong to another subject. A constant guess of the answer's length would be better than
foresight (error 0.12 of the mean length), because the LLM's own answers differ less in length than they are asked to.

The models know only English, and long answers only of the kinds above: a request outside of them gets an answer of the nearest kind. They invent
facts. A story from elsewhere is continued in the made-up world, whatever its plot. A sketch is written before the answer; outside of
guides and tales it lists what an answer might contain, not what the model would write without it. Missed targets are marked above. The old tales and the conversations contain the views of their authors. The models
are meant for tests, demonstrations and measurements, not for advice."""

REPRODUCE = """Follow `scripts/train/README.md`. Runs with a time limit are repeated exactly only with `--tokens` or `--steps`. Two machines give the same curves
within noise, but not the same bits."""
