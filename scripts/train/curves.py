"""The curve of a training run, <name>-curve.json: {"run": what it was started with, "points": figures over time}."""

import json
from dataclasses import dataclass, field
from pathlib import Path

from files import read_json, write_atomically


@dataclass(frozen=True)
class Curve:
    points: list[dict]
    run: dict = field(default_factory=dict)


def write_curve(path: Path, curve: Curve) -> None:
    """One point a line."""
    points = ",\n".join(json.dumps(point) for point in curve.points)
    write_atomically(path, f'{{"run": {json.dumps(curve.run)}, "points": [\n{points}\n]}}\n'.encode())


def read_curves(folder: Path) -> dict[str, Curve]:
    """{name: curve} of the runs of a folder that have points, by name, llm's first; InputError for a damaged file."""
    curves = {}
    for path in sorted(folder.glob("*-curve.json"), key=lambda path: (not path.name.startswith("llm"), path.name)):
        found = read_json(path)
        if found["points"]:
            curves[path.name.removesuffix("-curve.json")] = Curve(found["points"], found["run"])
    return curves


def curve_path(checkpoint: Path) -> Path:
    """Where the curve of a checkpoint's run stands."""
    return checkpoint.with_name(f"{checkpoint.stem}-curve.json")
