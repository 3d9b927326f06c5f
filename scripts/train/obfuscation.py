"""AloePri's covariant obfuscation (arXiv 2603.01499) of the demonstration LLM, and an attacker who knows it and the public weights.

    nice -n 10 python scripts/train/obfuscation.py --noise 0 0.5 1 2

A server runs a whole model that was obfuscated for one client, who sends permuted tokens: rows of the embedding are permuted, embedding
and weights are multiplied by a secret key, hidden units are permuted, and there is noise on the embedding (tied to the head). The key
is orthogonal here, so that RMSNorm needs no estimate. Keys and permutations cost nothing; what the noise costs is measured on the model itself.

`counts`: the attacker ranks tokens by how often they occur in other texts, and the secret ones by how often they are sent. `weights`:
sorted products of embedding and gate depend neither on the key nor on any permutation. Matched, they give pairs of rows, from which least squares give
the key; then rows are matched themselves. Prints JSON lines.
"""

import argparse
import json
import math

import torch
from torch import Tensor
from torch.nn import functional as F

from dataset import IGNORE, Batches, load_groups, some_of
from errors import run
from export import load_llm_checkpoint
from model import Llama
from paths import REPOSITORY, add_seed, add_threads, add_work

ROUNDS, MATCHED = 12, 1500  # of matching and estimating the key, and the tokens that they read
HELD_OUT_TOKENS, CONTEXT, BATCH = 2000, 256, 8


def obfuscate(embedding: Tensor, gate: Tensor, noise: float) -> tuple[Tensor, Tensor, Tensor]:
    """(embedding, gate, order) as the server has them: row i of the embedding is of token order[i]."""
    key, _ = torch.linalg.qr(torch.randn(embedding.shape[1], embedding.shape[1]))
    order = torch.randperm(len(embedding))
    noisy = embedding + noise * embedding.square().mean().sqrt() * torch.randn_like(embedding)
    return noisy[order] @ key, gate[torch.randperm(len(gate))] @ key, order


def nearest(rows: Tensor, known: Tensor) -> Tensor:
    """For each row the index of the known one with the least distance."""
    return torch.cdist(rows, known).argmin(1)


def procrustes(plain: Tensor, sent: Tensor) -> Tensor:
    """The orthogonal matrix that takes rows to others with the least squares."""
    u, _, vh = torch.linalg.svd(plain.T @ sent)
    return u @ vh


def deobfuscate(embedding: Tensor, gate: Tensor, secret: Tensor, secret_gate: Tensor) -> Tensor:
    """For each row of the secret embedding the token that it is taken for."""
    matches = nearest((secret @ secret_gate.T).sort(1).values, (embedding @ gate.T).sort(1).values)
    clearest = secret.norm(dim=1).argsort(descending=True)[:MATCHED]  # these differ most from each other
    for _ in range(ROUNDS):
        key = procrustes(embedding[matches[clearest]], secret[clearest])
        matches = nearest(secret @ key.T, embedding)
    return matches


def by_counts(sent: Tensor, texts: Tensor, vocab: int) -> Tensor:
    """For each secret token the one of the same rank in other texts."""
    guess = torch.empty(vocab, dtype=torch.long)
    guess[sent.bincount(minlength=vocab).argsort(descending=True)] = texts.bincount(minlength=vocab).argsort(descending=True)
    return guess


@torch.no_grad()
def cost(model: Llama, noisy: Llama, batches: Batches) -> dict[str, float]:
    """What the noise costs on held-out text."""
    worse = same = tokens = 0.0
    for _ in range(len(batches.batches)):
        inputs, targets = batches.next()
        plain, other = (one(inputs).flatten(0, 1) for one in (model, noisy))
        losses = [F.cross_entropy(logits, targets.flatten(), ignore_index=IGNORE, reduction="sum").item() for logits in (plain, other)]
        learnt = targets.flatten() != IGNORE
        worse += losses[1] - losses[0]
        same += (plain.argmax(-1) == other.argmax(-1))[learnt].sum().item()
        tokens += learnt.sum().item()
    return {"perplexityRatio": round(math.exp(worse / tokens), 3), "sameTokens": round(same / tokens, 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_work(parser)
    parser.add_argument("--llm", default=str(REPOSITORY / "models" / "demo" / "llm"), help="exported folder (default: models/demo/llm)")
    parser.add_argument("--noise", type=float, nargs="+", default=[0.0, 0.5, 1.0, 2.0], help="on the embedding, over its root mean square")
    add_seed(parser)
    add_threads(parser)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    model = load_llm_checkpoint(args.work, args.llm)
    embedding, vocab = model.model.embed_tokens.weight, model.config.vocab_size
    layer = model.model.layers[0]
    gate = layer.mlp.gate_proj.weight * layer.post_attention_layernorm.weight
    groups = {split: load_groups(args.work, split, CONTEXT + 1) for split in ("train", "val")}
    ids = {split: torch.tensor([abs(id_) for one in groups[split]["sgd"] for id_ in one.tolist()]) for split in groups}
    held_out = [one for group in groups["val"].values() for one in some_of(group, HELD_OUT_TOKENS)]
    for noise in args.noise:
        torch.manual_seed(args.seed)
        secret, secret_gate, order = obfuscate(embedding, gate, noise)
        place = order.argsort()  # of each token
        sent = place[ids["val"]]
        found = {"weights": deobfuscate(embedding, gate, secret, secret_gate), "counts": by_counts(sent, ids["train"], vocab)}
        shares = {name: round((guess[sent] == ids["val"]).float().mean().item(), 3) for name, guess in found.items()}
        noisy = load_llm_checkpoint(args.work, args.llm)
        noisy.model.embed_tokens.weight.add_(noise * embedding.square().mean().sqrt() * torch.randn_like(embedding))
        print(json.dumps({"noise": noise, "tokens": len(sent), "found": shares, **cost(model, noisy, Batches(held_out, CONTEXT, BATCH, 0))}), flush=True)


if __name__ == "__main__":
    run(main)
