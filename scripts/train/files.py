"""Atomic files: written under a temporary name and renamed, so that a reader sees the old or the new content."""

import io
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from pickle import UnpicklingError
from zipfile import BadZipFile

import numpy as np
import torch

from errors import InputError, is_out_of_memory


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary file to write. It is renamed to `path` when it is complete and on disk, and removed on failure."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield beside
        with open(beside, "rb") as file:
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def write_atomically(path: Path, data: bytes) -> None:
    """Replaces `path` with `data`."""
    with replacing(path) as beside:
        beside.write_bytes(data)


def read_json(path: Path, step: str = "the step that writes it") -> dict | list:
    """A JSON file; InputError, which names the `step` that makes it, if missing or damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path} ({error}); run {step} again") from error


def save_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Replaces an .npz file."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    write_atomically(path, buffer.getvalue())


def load_arrays(path: Path, step: str) -> dict[str, np.ndarray]:
    """All arrays of an .npz file; InputError, which names the `step` that makes it, if missing or truncated."""
    if not path.is_file():
        raise InputError(f"{path} is missing; run {step} first")
    try:
        with open(path, "rb") as file, np.load(file) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError, EOFError, BadZipFile) as error:
        raise InputError(f"{path} is damaged ({error}); delete it and run {step} again") from error


def save_checkpoint(path: Path, state: dict) -> None:
    """Saves a checkpoint atomically; a killed run leaves the previous one."""
    with replacing(path) as beside:
        try:
            torch.save(state, beside)
        except RuntimeError as error:
            raise InputError(f"cannot write checkpoint {path}; the previous one is unchanged. Check the free disk space") from error


def load_checkpoint(path: Path) -> dict:
    """Loads a checkpoint (tensors and plain values only). InputError if missing or truncated."""
    if not path.is_file():
        raise InputError(f"checkpoint {path} is missing; run the step that writes it first")
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, OSError, UnpicklingError) as error:
        if is_out_of_memory(error):
            raise
        reason = "not a checkpoint of this training code" if isinstance(error, UnpicklingError) else (str(error).splitlines() or ["cut short"])[0]
        raise InputError(f"checkpoint {path} is damaged ({reason}); delete it to restart this step") from error
