"""Atomic files: written beside their place and renamed, so that a reader sees the old or the new, never a half."""

import os
from pathlib import Path
from pickle import UnpicklingError

import torch

from errors import InputError


def write_atomically(path: Path, data: bytes) -> None:
    """Replaces `path` with `data`, synced to disk before the rename."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with open(beside, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)


def save_checkpoint(path: Path, state: dict) -> None:
    """Saves a checkpoint atomically; a killed run leaves the previous one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    torch.save(state, beside)
    with open(beside, "rb") as file:
        os.fsync(file.fileno())
    os.replace(beside, path)


def load_checkpoint(path: Path) -> dict:
    """Loads a checkpoint (tensors and plain values only). InputError if missing or cut short."""
    if not path.is_file():
        raise InputError(f"checkpoint {path} is missing; run the step that writes it first")
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, OSError, UnpicklingError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"checkpoint {path} is damaged ({reason}); delete it to start this step again") from error
