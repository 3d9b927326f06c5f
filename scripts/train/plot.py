"""Plots every training run and the measured figures into docs/results/training/, and copies the curves there.

    python scripts/train/plot.py [--work DIR …] [--out DIR]

Curves: each <work>/<name>-curve.json of a language model or a drafter → <name>-curve.json and training.png. Figures: the
output of evaluate.py and evaluate_tasks.py in --out → positions.png and tasks.png. Missing input is omitted and reported.
"""

import argparse
import json
import statistics
from itertools import pairwise
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from curves import Curve, read_curves, write_curve
from errors import InputError, run
from evaluate import BUCKETS
from files import read_json, replacing
from paths import DEFAULT_WORK, RESULTS

WIDTH, DPI = 8, 120  # inches: text of 8 to 9 points is readable at 800 pixels
SMOOTH = 9  # training losses are shown as the mean of so many points
# Goals: figure of tasks-<name>.json → (title, target, whether it is a lower bound). The yardstick is the model's own full
# answer; the same figures against the reference answer are held against the same targets.
TARGETS = {
    ("foresight", "errorOfOwn"): ("foresight: mean error / mean length\nof the own answers", 0.3, False),
    ("foresight", "relativeErrorOfOwn"): ("foresight: mean of error / length\nof the own answers", 0.3, False),
    ("sketch", "shareOfTokensOfOwn"): ("sketch: share of the tokens\nof the own answer", 0.4, False),
    ("sketch", "contentRecallOfOwn"): ("sketch: recall of content words\nof the own answer", 0.6, True),
    ("expansion", "rougeF"): ("expansion: ROUGE-1 F\nagainst the real sentence", 0.5, True),
    ("foresight", "error"): ("foresight: mean error / mean length\nof the reference answers", 0.3, False),
    ("foresight", "relativeError"): ("foresight: mean of error / length\nof the reference answers", 0.3, False),
    ("sketch", "shareOfTokens"): ("sketch: share of the tokens\nof the reference answer", 0.4, False),
    ("sketch", "contentRecall"): ("sketch: recall of content words\nof the reference answer", 0.6, True),
}
LEVELLED, LEVELS = ("sketch", "expansion"), ("1", "2", "3")
ERRORS = ("error", "errorOfOwn", "relativeError", "relativeErrorOfOwn")
REFERENCES = {"rougeF": "rougeFOfLine"} | {error: f"{error}OfBestConstant" for error in ERRORS}


def read_all(folder: Path, prefix: str) -> dict[str, dict]:
    """{name: content} of the files <prefix><name>.json of a folder, by name; the LLM's first."""
    names = sorted(path.stem.removeprefix(prefix) for path in folder.glob(f"{prefix}*.json"))
    names.sort(key=lambda name: not name.startswith("llm"))
    return {name: read_json(folder / f"{prefix}{name}.json") for name in names}


def with_figure(curves: dict[str, Curve], figure: str) -> dict[str, Curve]:
    """The curves that have a figure."""
    return {name: curve for name, curve in curves.items() if any(figure in point for point in curve.points)}


def smooth(values: list[float]) -> list[float]:
    """Means of up to SMOOTH values around each."""
    half = SMOOTH // 2
    windows = (values[max(0, at - half) : at + half + 1] for at in range(len(values)))
    return [sum(window) / len(window) for window in windows]


def plot_models(left: Axes, right: Axes, curves: dict[str, Curve]) -> None:
    """Left: training loss over minutes. Right: held-out perplexity, geometric mean over the tasks."""
    for colour, (name, curve) in enumerate(curves.items()):
        losses = [point for point in curve.points if "loss" in point]
        left.plot([p["seconds"] / 60 for p in losses], smooth([p["loss"] for p in losses]), f"C{colour}", lw=1.2, label=name)
        held_out = [point for point in curve.points if point.get("heldOutPerplexity")]
        values = [statistics.geometric_mean(p["heldOutPerplexity"].values()) for p in held_out]
        right.plot([p["seconds"] / 60 for p in held_out], values, f"C{colour}", lw=1.2, marker="o", ms=3, label=name)
    left.set(xlabel="minutes of training", ylabel="loss (nats per token)", title="language models: training loss")
    right.set(xlabel="minutes of training", yscale="log", title="held-out perplexity, mean of tasks")
    plain_log_axis(right)


def plain_log_axis(panel: Axes) -> None:
    """Marks a logarithmic y axis at 1, 2 and 5 of every decade, in plain numbers."""
    panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    panel.yaxis.set_major_formatter("{x:g}")
    panel.yaxis.set_minor_locator(NullLocator())


def plot_drafters(left: Axes, right: Axes, curves: dict[str, Curve]) -> None:
    """Left: distillation loss over minutes. Right: how often the first choice is the LLM's; of later tokens dashed."""
    for colour, (name, curve) in enumerate(curves.items()):
        minutes = [point["seconds"] / 60 for point in curve.points]
        left.plot(minutes, smooth([point["loss"] for point in curve.points]), f"C{colour}", lw=1.2, label=name)
        rows = [point["agreement"] if isinstance(point["agreement"], list) else [point["agreement"]] for point in curve.points]
        for ahead, values in enumerate(zip(*rows, strict=True)):
            style = {"lw": 1.2, "label": name} if ahead == 0 else {"lw": 0.7, "ls": "--"}
            right.plot(minutes, smooth(list(values)), f"C{colour}", **style)
    left.set(xlabel="minutes of training", ylabel="loss", title="drafters: distillation loss")
    right.set(xlabel="minutes of training", ylim=(0, 1), title="agreement (dashed: further ahead)")


def plot_training(models: dict[str, Curve], drafters: dict[str, Curve], path: Path) -> None:
    """A row of panels each for language models and drafters, where there are any."""
    rows = [(plot, curves) for plot, curves in ((plot_models, models), (plot_drafters, drafters)) if curves]
    figure, panels = plt.subplots(len(rows), 2, figsize=(WIDTH, 3 * len(rows)), layout="constrained", squeeze=False)
    for (plot, curves), (left, right) in zip(rows, panels, strict=True):
        plot(left, right, curves)
        left.legend(fontsize=7, frameon=False, ncols=2)
    save(figure, path)


def plot_positions(name: str, evaluation: dict, path: Path) -> None:
    """Perplexity of a model's long kinds of text by position."""
    figure, panel = plt.subplots(figsize=(WIDTH, 3.4), layout="constrained")
    for text, rows in evaluation["heldOutByPosition"].items():
        places = [BUCKETS.index(row["from"]) for row in rows]
        panel.plot(places, [row["perplexity"] for row in rows], marker="o", ms=4, lw=1.2, label=text)
    spans = list(pairwise(BUCKETS))
    panel.set_xticks(range(len(spans)), [f"{start}–{end - 1}" for start, end in spans])
    panel.set(xlabel="position in the context", ylabel="perplexity", yscale="log", title=f"{name}: held-out perplexity by position")
    plain_log_axis(panel)
    panel.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    save(figure, path)


def bars_of(tasks: dict[str, dict], group: str, key: str) -> list[tuple[str, float, list[float], float | None]]:
    """(label, value, interval, reference) of each bar: a bar per model, for sketches and expansions one per model and level."""
    levels = LEVELS if group in LEVELLED else ("",)
    bars = []
    for name, figures in tasks.items():
        for level in levels:
            of = figures[f"{group}-{level}" if level else group]
            if key in of:
                label = f"{name} {level}".strip()
                bars.append((label, of[key], of[f"{key}Interval"], of.get(REFERENCES.get(key, ""))))
    return bars


def is_asked(name: str, group: str) -> bool:
    """Whether a task applies to a model: foresight and sketches to the LLM, expansions to the small models."""
    return name.startswith("llm") == (group != "expansion")


def plot_tasks(tasks: dict[str, dict], path: Path) -> None:
    """A panel for every target: bars with 95 % intervals, the target as a line, the baseline as a dash."""
    figure, panels = plt.subplots(3, 3, figsize=(WIDTH, 8), layout="constrained")
    for panel, ((group, key), (title, target, at_least)) in zip(panels.flat, TARGETS.items(), strict=True):
        bars = bars_of({name: figures for name, figures in tasks.items() if is_asked(name, group)}, group, key)
        values = [value for _, value, _, _ in bars]
        spans = [[value - low for _, value, (low, _), _ in bars], [high - value for _, value, (_, high), _ in bars]]
        met = [value >= target if at_least else value <= target for value in values]
        colours = ["C0" if good else "0.7" for good in met]
        panel.bar(range(len(bars)), values, yerr=spans, color=colours, width=0.6, error_kw={"lw": 0.8, "capsize": 2})
        for place, (_, _, _, reference) in enumerate(bars):
            if reference is not None:
                panel.hlines(reference, place - 0.4, place + 0.4, "C1", lw=1.5)
        panel.axhline(target, color="C2", ls="--", lw=1)
        panel.set_xticks(range(len(bars)), [label for label, _, _, _ in bars], fontsize=7, rotation=90 if len(bars) > 4 else 20)
        panel.set_title(f"{title} {'≥' if at_least else '≤'} {target}", fontsize=8)
        panel.tick_params(axis="y", labelsize=8)
        panel.set_ylim(0)
    note = "blue: target (green line) met · grey: missed · orange: best constant guess, or the bare line"
    figure.supxlabel(note, fontsize=8)
    save(figure, path)


def save(figure: Figure, path: Path) -> None:
    """A PNG, replaced in one step."""
    with replacing(path) as beside:
        figure.savefig(beside, format="png", dpi=DPI, metadata={"Software": None})
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    work_help = "folders of the runs (default: .cache/train in the repository)"
    parser.add_argument("--work", type=Path, nargs="+", default=[DEFAULT_WORK], help=work_help)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder (default: docs/results/training)")
    args = parser.parse_args()
    curves = {name: curve for folder in args.work for name, curve in read_curves(folder).items()}
    models = with_figure(curves, "heldOutPerplexity")  # of train_llm.py
    drafters = with_figure(curves, "agreement")  # of distil.py
    evaluations, tasks = read_all(args.out, "evaluation-"), read_all(args.out, "tasks-")
    if not (models or drafters or evaluations or tasks):
        raise InputError(f"neither {args.work[0]} nor {args.out} has anything to plot; run the training steps first")
    for name, curve in (models | drafters).items():
        write_curve(args.out / f"{name}-curve.json", curve)
    plots = {
        "training.png": (models or drafters, lambda path: plot_training(models, drafters, path)),
        "positions.png": (evaluations, lambda path: plot_positions(*next(iter(evaluations.items())), path)),
        "tasks.png": (tasks, lambda path: plot_tasks(tasks, path)),
    }
    for name, (wanted, draw) in plots.items():
        if wanted:
            draw(args.out / name)
    written = [name for name, (wanted, _) in plots.items() if wanted]
    missing = [name for name, (wanted, _) in plots.items() if not wanted]
    print(json.dumps({"curves": list(models | drafters), "plots": written, "nothingFor": missing}))


if __name__ == "__main__":
    run(main)
