"""Writes models/demo/MODEL_CARD.md and docs/results/training/training.md, which has the tables of runs and samples, from the JSON
files of docs/results; every figure comes from these files.

    python scripts/train/card.py [--results docs/results] [--models models/demo] [--out FILE]

Read from training/: <name>-curve.json, evaluation-<name>.json, tasks-<name>.json; from acceptance/: acceptance.json of
`brim bench acceptance`. A section whose file is missing is omitted and reported.
"""

import argparse
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path

from card_text import (
    CARD_DRAFTERS,
    DATA,
    DRAFTERS,
    EARLY_EXIT,
    INTRO,
    LIMITS,
    LONG_FORMS_NOTE,
    LOOPS,
    PAGE_INTRO,
    PERPLEXITY,
    POSITIONS,
    REPRODUCE,
    TASKS_NOTE,
    TRAINING,
)
from curves import Curve, read_curves
from errors import run
from evaluate import BUCKETS
from files import read_json, write_atomically
from paths import REPOSITORY, RESULTS
from plot import LEVELLED, LEVELS, TARGETS, is_asked, read_all

DEFAULT_MODELS = REPOSITORY / "models" / "demo"
DRAFTER_ORDER = ("adapter+lookup", "adapter", "adapter-paper", "lookup", "medusa", "none")
ADAPTER_TARGET, MOST_LOOPING = 2.6, 0.1  # without looping answers; share of the answers
GOAL_MB = 40


@dataclass(frozen=True)
class Facts:
    """The input of the card."""

    curves: dict[str, Curve]
    evaluations: dict[str, dict]
    tasks: dict[str, dict]
    acceptance: dict
    files: dict[str, float]  # folder or file under models/demo → MB


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines)


def quote(text: str) -> str:
    """Markdown block quote."""
    return "\n".join(f"> {line}".rstrip() for line in text.strip().splitlines()) or "> (nothing)"


def number(value: float | None, digits: int = 2) -> str:
    """A figure, or a dash if it is missing."""
    return "–" if value is None else f"{value:.{digits}f}"


def models_section(facts: Facts) -> str:
    rows = []
    largest = max(evaluation["weights"] for evaluation in facts.evaluations.values())
    for name, evaluation in facts.evaluations.items():
        c, share = evaluation["config"], largest / evaluation["weights"]
        shape = f"{c['num_hidden_layers']} layers, width {c['hidden_size']}, {c['num_attention_heads']} heads of {c['head_dim']}"
        kv = f"{c['num_key_value_heads']} for keys and values, SwiGLU {c['intermediate_size']}"
        size = f"{evaluation['weights']:,}" + (f" (1/{share:.1f})" if share > 1 else "")
        megabytes = number(facts.files.get(name), 1)
        rows.append((f"`{name}`", size, f"{shape}, {kv}", c["max_position_embeddings"], f"{c['vocab_size']:,}", megabytes))
    head = ("model", "weights", "shape", "context", "vocabulary", "MB, all files")
    total = f"All of `models/demo`: {sum(facts.files.values()):.1f} MB (goal: at most {GOAL_MB})." if facts.files else ""
    return f"{table(head, rows)}\n\n{total}"


def settings_cells(run: dict) -> tuple[str, str, str, str]:
    """(started from, examples, context, other settings) of a run; values of successive phases are joined in order."""
    phases = run.get("phases", [run])

    def each(name: str) -> str:
        return " → ".join(dict.fromkeys(str(phase[name]) for phase in phases))

    parts = [f"batch {each('batch')}"]
    if run.get("earlyExit"):
        parts.append(f"early exit {run['earlyExit']:g}")
    if run.get("copying"):
        parts.append("copying")
    parts += [f"{task} × {times}" for task, times in run.get("repeat", {}).items()]
    parts += [f"taught by `{teacher}`: {' '.join(tasks)}" for teacher, *tasks in run.get("teachers", [])]
    if run.get("peak", 1) != 1:
        parts.append(f"rates × {run['peak']:g}")
    return (f"`{run['start']}`" if run.get("start") else "–", each("examples"), each("context"), ", ".join(parts))


def training_section(facts: Facts) -> str:
    rows = []
    for name, curve in facts.curves.items():
        last = curve.points[-1]
        tokens = f"{last['tokens'] / 1e6:.1f}" if "tokens" in last else "–"
        loss = next((point["loss"] for point in reversed(curve.points) if "loss" in point), None)
        reached = (number(last["seconds"] / 60, 1), tokens, f"{last['step']:,}", number(loss))
        rows.append((f"`{name}`", *settings_cells(curve.run), *reached))
    head = ("run", "started from", "examples", "context", "settings", "minutes", "million tokens trained", "steps", "last training loss")
    return f"{TRAINING}\n\n{table(head, rows)}\n\n{EARLY_EXIT}"


def perplexity_section(facts: Facts) -> str:
    names = list(facts.evaluations)
    tasks = list(dict.fromkeys(task for e in facts.evaluations.values() for task in e["heldOut"] if e["heldOut"][task]))
    rows = []
    for task in tasks:
        found = [facts.evaluations[name]["heldOut"].get(task) or {} for name in names]
        rows.append((task, f"{max(row.get('tokens', 0) for row in found):,}", *(number(row.get("perplexity")) for row in found)))
    return f"{PERPLEXITY}\n\n{table(('held-out text', 'tokens', *names), rows)}"


def positions_section(facts: Facts) -> str:
    name, evaluation = next(iter(facts.evaluations.items()))
    texts = evaluation["heldOutByPosition"]
    rows = []
    for start, end in pairwise(BUCKETS):
        found = [next((row for row in rows_ if row["from"] == start), {}) for rows_ in texts.values()]
        cells = (f"{number(row.get('perplexity'))} ({row.get('tokens', 0):,})" for row in found)
        rows.append((f"{start}–{end - 1}", *cells))
    return f"{POSITIONS}\n\n`{name}`, perplexity (tokens):\n\n{table(('position', *texts), rows)}"


def accept_length(runs: Sequence[dict]) -> float | None:
    """Tokens per verification, bonus included: all tokens but the first of each answer, over the rounds; None without rounds."""
    rounds = [run["verifications"] for run in runs]
    tokens = sum(run["answerTokens"] - 1 for run, count in zip(runs, rounds, strict=True) if count)
    return tokens / sum(rounds) if sum(rounds) else None


def drafters_table(facts: Facts) -> str:
    """Accept lengths by task and in all, with the setting."""
    runs, conditions = facts.acceptance["runs"], facts.acceptance["conditions"]
    kinds = [kind for kind in DRAFTER_ORDER if any(run["drafter"] == kind for run in runs)]

    def row(title: str, wanted: Callable[[dict], bool]) -> tuple[str, ...]:
        own = {kind: [run for run in runs if run["drafter"] == kind and wanted(run)] for kind in kinds}
        return (title, str(len(own[kinds[0]])), *(number(accept_length(own[kind])) for kind in kinds))

    rows = [row(task, lambda run, task=task: run["task"] == task) for task in dict.fromkeys(run["task"] for run in runs)]
    rows.append(row("**all**", lambda run: True))
    rows.append(row("without answers that repeat themselves", lambda run: not run["looping"]))
    setting = (
        f"Greedy answers of at most {conditions['maxTokens']} tokens, η = {conditions['threshold']}, at most "
        f"{conditions['draftLimit']} drafted tokens, weights as `{conditions['format']}`. Accept length counts the bonus token; without drafting it is 1.00."
    )
    return f"{setting}\n\n{table(('prompts', 'answers', *kinds), rows)}"


def loops_section(facts: Facts) -> str:
    """Greedy answers that repeat themselves, by model and task."""
    tasks = list(dict.fromkeys(task for evaluation in facts.evaluations.values() for task in evaluation.get("greedy", {})))
    rows = []
    for name, evaluation in facts.evaluations.items():
        found = evaluation.get("greedy", {})
        counts = [found.get(task, {"answers": 0, "looping": 0}) for task in tasks]
        total = {key: sum(row[key] for row in counts) for key in ("looping", "answers")}
        rows.append((f"`{name}`", *(f"{row['looping']}/{row['answers']}" for row in (*counts, total))))
    return f"{LOOPS}\n\n{table(('model', *tasks, 'all'), rows)}"


def interval(figures: dict, key: str) -> str:
    """A figure with its 95 % interval."""
    if key not in figures:
        return "–"
    low, high = figures[f"{key}Interval"]
    return f"{figures[key]:.2f} ({low:.2f}–{high:.2f})"


def foresight_table(tasks_of: dict[str, dict]) -> str:
    """All definitions of the error, with the best constant guess."""
    rows = []
    guesses = {"foresight": "median", "foresight-written": "written"}
    for (name, tasks), (group, guess) in product(tasks_of.items(), guesses.items()):
        f = tasks[group]
        for suffix, of in (("", "the reference answer"), ("OfOwn", "its own answer")):
            answers = f["ownAnswers"] if suffix else f["answers"]
            cells = [interval(f, f"error{suffix}"), number(f.get(f"error{suffix}OfBestConstant"))]
            cells += [interval(f, f"relativeError{suffix}"), number(f.get(f"relativeError{suffix}OfBestConstant"))]
            rows.append((f"`{name}`", guess, of, answers, *cells))
    head = ("model", "guess", "against", "answers", "mean error / mean length", "best constant", "mean of error / length", "best constant")
    return table(head, rows)


def sketch_table(tasks_of: dict[str, dict]) -> str:
    """Length and content of sketches."""
    rows = []
    for name, tasks in tasks_of.items():
        for level in LEVELS:
            s = tasks[f"sketch-{level}"]
            for suffix, of, answers in (("", "reference", s["answers"]), ("OfOwn", "its own", s["ownAnswers"])):
                rows.append((f"`{name}`", level, of, answers, interval(s, f"shareOfTokens{suffix}"), interval(s, f"contentRecall{suffix}")))
    s = next(iter(tasks_of.values()))
    for level in LEVELS:
        row = s[f"sketch-{level}"]
        made = interval(row, "shareOfTokensByProgram"), interval(row, "contentRecallByProgram")
        rows.append(("`sketch.py`", level, "reference", row["answers"], *made))
    return table(("by", "level", "answer", "answers", "share of the tokens", "recall of content words"), rows)


def expansion_table(tasks_of: dict[str, dict]) -> str:
    """ROUGE-1 F of expansions and of the bare line."""
    rows = []
    for name, tasks in tasks_of.items():
        for level in LEVELS:
            e = tasks[f"expansion-{level}"]
            rows.append((f"`{name}`", level, e["sentences"], interval(e, "rougeF"), interval(e, "rougeFOfLine")))
    return table(("model", "level", "sentences", "ROUGE-1 F", "of the bare line"), rows)


def tasks_section(facts: Facts) -> str:
    corpora = {name: tasks["corpora"] for name, tasks in facts.tasks.items() if "corpora" in tasks}
    parts = [TASKS_NOTE]
    for title, tasks in (("guides and tales", facts.tasks), ("the three corpora", corpora)):
        if tasks:
            parts += [f"**Foresight, {title}**", foresight_table(tasks), f"**Sketch, {title}**", sketch_table(tasks)]
            parts += [f"**Expansion, {title}**", expansion_table(tasks)]
    return "\n\n".join(parts)


def verdict(value: float | None, target: float, at_least: bool) -> str:
    """Whether a target is met."""
    if value is None:
        return "not measured"
    return "met" if (value >= target if at_least else value <= target) else "**missed**"


def targets_section(facts: Facts) -> str:
    rows: list[tuple[str, str, str, str]] = []

    def add(title: str, values: Sequence[float | None], target: float, at_least: bool = True) -> None:
        """The values of all levels; the worst decides."""
        known = [value for value in values if value is not None]
        worst = (min if at_least else max)(known) if len(known) == len(values) else None
        measured = " / ".join(number(value) for value in values)
        rows.append((title, f"{'≥' if at_least else '≤'} {target:g}", measured, verdict(worst, target, at_least)))

    if facts.acceptance:
        summary, answers = facts.acceptance["summary"], facts.acceptance["conditions"].get("answers")
        without = summary.get("acceptLengthAdapterWithoutLoops")
        add("accept length, `adapter`, without looping answers", [without], ADAPTER_TARGET)
        adapter = summary["acceptLengthAdapter"]
        for rival, key in (("prompt lookup", "acceptLengthLookup"), ("Medusa", "acceptLengthMedusa")):
            if (other := summary.get(key)) is not None:
                add(f"`adapter` above {rival}, all answers", [adapter], round(other, 2))
        if answers:
            add("greedy answers that loop, share of all, `llm`", [summary["loopingAnswers"] / answers], MOST_LOOPING, False)
    for name, tasks in facts.tasks.items():
        for (group, key), (title, target, at_least) in TARGETS.items():
            if is_asked(name, group) and (key.endswith("OfOwn") or group == "expansion"):
                levels = [f"{group}-{level}" for level in LEVELS] if group in LEVELLED else [group]
                plain = title.replace("\n", " ") + (", levels 1 / 2 / 3" if group in LEVELLED else "")
                add(f"{plain}, `{name}`", [tasks[level].get(key) for level in levels], target, at_least)
    return f"{LONG_FORMS_NOTE}\n\n{table(('target', 'goal', 'measured', ''), rows)}"


def sample_text(sample: dict) -> str:
    """A sample with its request, both shortened."""
    prompt = sample["prompt"] if len(sample["prompt"]) < 700 else f"{sample['prompt'][:300]} […] {sample['prompt'][-200:]}"
    real = f"\n\nreference answer:\n\n{quote(sample['answer'])}" if "answer" in sample else ""
    return f"**{sample['task']}**, last message:\n\n{quote(prompt)}\n\ngreedy:\n\n{quote(sample['greedy'])}{real}"


def first_samples(evaluation: dict) -> dict[str, dict]:
    """The first sample of every task."""
    return {sample["task"]: sample for sample in reversed(evaluation["samples"])}


def samples_section(facts: Facts) -> str:
    samples = first_samples(next(iter(facts.evaluations.values())))
    return "\n\n".join(sample_text(sample) for sample in samples.values())


def card_samples_section(facts: Facts) -> str:
    """What PICE uses: a guide and a sketch by the LLM, an expansion by the first small model."""
    llm, *small = (first_samples(evaluation) for evaluation in facts.evaluations.values())
    shown = [(f"`{task}` by the LLM", llm[task]) for task in ("guide", "long-form-sketch-2") if task in llm]
    shown += [("`expansion` by a small model", each["long-form-expansion"]) for each in small[:1] if "long-form-expansion" in each]
    texts = ("Line ends as /.", *(f"{title}: *{in_a_line(sample['prompt'])}*\n\n{quote(in_a_line(sample['greedy']))}" for title, sample in shown))
    return "\n\n".join(texts)


def in_a_line(text: str) -> str:
    """A text without line ends."""
    return " / ".join(line for line in text.splitlines() if line.strip())


# (title, the facts that it needs, its text)
Sections = tuple[tuple[str, Callable[[Facts], object], Callable[[Facts], str]], ...]
CARD: Sections = (
    ("Models", lambda facts: facts.evaluations, models_section),
    ("Targets", lambda facts: facts.acceptance or facts.tasks, targets_section),
    ("Drafters: accept length", lambda facts: facts.acceptance, lambda facts: f"{CARD_DRAFTERS}\n\n{drafters_table(facts)}"),
    ("Samples", lambda facts: facts.evaluations, card_samples_section),
    ("Data and licences", lambda _: True, lambda _: DATA),
    ("Limits", lambda _: True, lambda _: LIMITS),
    ("Reproduce", lambda _: True, lambda _: REPRODUCE),
)
PAGE: Sections = (
    ("Runs", lambda facts: facts.curves, training_section),
    ("Held-out perplexity", lambda facts: facts.evaluations, perplexity_section),
    ("Perplexity by position", lambda facts: facts.evaluations, positions_section),
    ("Greedy answers that repeat themselves", lambda facts: facts.evaluations, loops_section),
    ("Drafters: accept length", lambda facts: facts.acceptance, lambda facts: f"{DRAFTERS}\n\n{drafters_table(facts)}"),
    ("Foresight, sketch, expansion", lambda facts: facts.tasks, tasks_section),
    ("Samples", lambda facts: facts.evaluations, samples_section),
)


def written(intro: str, sections: Sections, facts: Facts) -> tuple[str, list[str]]:
    """(Markdown, titles of the omitted sections)."""
    present = [(title, text(facts)) for title, needs, text in sections if needs(facts)]
    missing = [title for title, needs, _ in sections if not needs(facts)]
    return intro + "".join(f"\n\n## {title}\n\n{text.strip()}" for title, text in present) + "\n", missing


def card(facts: Facts) -> tuple[str, list[str]]:
    """(the card's Markdown, titles of the omitted sections)."""
    return written(INTRO, CARD, facts)


def page(facts: Facts) -> tuple[str, list[str]]:
    """(the Markdown of the results' page, titles of the omitted sections)."""
    return written(PAGE_INTRO, PAGE, facts)


def optional(path: Path) -> dict:
    """A JSON file; {} if it does not exist."""
    return read_json(path) if path.is_file() else {}


def megabytes(models: Path) -> dict[str, float]:
    """{folder: MB of all its files} for each model."""
    folders = sorted(path for path in models.glob("*") if path.is_dir())
    return {folder.name: sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6 for folder in folders}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS.parent, help="folder of the result files; default: docs/results")
    parser.add_argument("--models", type=Path, default=DEFAULT_MODELS, help="folder of the models; default: models/demo")
    parser.add_argument("--out", type=Path, default=DEFAULT_MODELS / "MODEL_CARD.md", help="the card; default: models/demo/MODEL_CARD.md")
    args = parser.parse_args()
    training = args.results / "training"
    facts = Facts(
        curves=read_curves(training),
        evaluations=read_all(training, "evaluation-"),
        tasks=read_all(training, "tasks-"),
        acceptance=optional(args.results / "acceptance" / "acceptance.json"),
        files=megabytes(args.models),
    )
    missing: list[str] = []
    for path, (text, left_out) in ((args.out, card(facts)), (training / "training.md", page(facts))):
        write_atomically(path, text.encode())
        missing += left_out
    print(json.dumps({"written": [args.out.name, "training.md"], "leftOut": missing}))


if __name__ == "__main__":
    run(main)
