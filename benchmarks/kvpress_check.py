"""Compare the scores of our baselines with kvpress's own on the same tensors.

kvpress needs transformers before 5.3 and memdecay a later one, so this script runs twice: in an
environment of kvpress's own it records what its presses score, then in memdecay's it computes the
same with our policies and writes ``docs/kvpress-agreement.md``. ``benchmarks/kvpress_check.sh``
makes the environment and does both:

    python benchmarks/kvpress_check.py record scores.pt     # kvpress's environment
    python benchmarks/kvpress_check.py compare scores.pt    # memdecay's environment

The tensors are the keys and the attention of a random Llama of three layers, on random tokens.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

NUM_TOKENS = 96
WINDOW_QUERIES = 32
POOL_WIDTH = 5
REPORT = Path(__file__).parents[1] / "docs" / "kvpress-agreement.md"


def tiny_llama() -> Any:
    """Return a random Llama; its eager attention gives probabilities."""
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=3,
        num_attention_heads=8,
        num_key_value_heads=4,
        vocab_size=128,
        max_position_embeddings=512,
        initializer_range=0.3,
        attn_implementation="eager",
    )
    return LlamaForCausalLM(config).eval()


def random_ids() -> Tensor:
    """Return ``(1, NUM_TOKENS)`` tokens."""
    return torch.randint(128, (1, NUM_TOKENS), generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def record(path: Path) -> None:
    """Write what kvpress's presses score, with the keys and the attention that they saw."""
    import kvpress
    import transformers

    presses = {
        "h2o": kvpress.ObservedAttentionPress(0.5),
        "tova": kvpress.TOVAPress(0.5),
        "snapkv": kvpress.SnapKVPress(0.5, window_size=WINDOW_QUERIES, kernel_size=POOL_WIDTH),
        "keydiff": kvpress.KeyDiffPress(0.5),
        "knorm": kvpress.KnormPress(0.5),
    }
    model = tiny_llama()
    scores: dict[str, list[Tensor]] = {name: [] for name in presses}
    keys: list[Tensor] = []
    attentions: list[Tensor] = []

    def hook(module: Any, _args: Any, kwargs: dict[str, Any], output: Any) -> None:
        layer = kwargs["past_key_values"].layers[module.layer_idx]
        keys.append(layer.keys)
        attentions.append(output[1])
        for name, press in presses.items():
            score = press.score(
                module, kwargs["hidden_states"], layer.keys, layer.values, output[1], kwargs
            )
            scores[name].append(score)

    for layer in model.model.layers:
        # kvpress reads the rotary embedding from the attention module.
        layer.self_attn.rotary_emb = model.model.rotary_emb
        layer.self_attn.register_forward_hook(hook, with_kwargs=True)
    model(random_ids(), use_cache=True)
    versions = {"kvpress": _version("kvpress"), "transformers": transformers.__version__}
    versions["torch"] = str(torch.__version__)
    data = {"scores": scores, "keys": keys, "attentions": attentions, "versions": versions}
    # Versions of transformers may draw the weights in another order.
    torch.save(data | {"weights": model.state_dict()}, path)


@torch.no_grad()
def compare(path: Path) -> None:
    """Compute the same with our policies and methods, and write the report.

    Raises:
        SystemExit: A score differs by more than rounding.
    """
    from memdecay.classifier.storage import write_text_atomically

    data = torch.load(path)
    rows = [*_shared_rows(data), *_headwise_rows(data)]
    lines = [_HEAD.format(versions=_listed(data["versions"]), ours=_our_versions())]
    lines += ["| policy | compared | largest difference | same order |", "|---|---|---:|---|"]
    lines += [f"| `{name}` | {what} | {gap:.1e} | {order} |" for name, what, gap, order in rows]
    write_text_atomically(REPORT, "\n".join(lines) + "\n" + _FOOT)
    for name, what, gap, order in rows:
        print(f"{name:18} {gap:.1e} {order:4} {what}")
    if any(gap > 1e-5 or order != "yes" for _, _, gap, order in rows):
        raise SystemExit("the scores differ by more than rounding")


def _shared_rows(data: dict[str, Any]) -> list[tuple[str, str, float, str]]:
    """Compare our policies with kvpress's scores, averaged over layers and heads."""
    from memdecay.runtime.attach import attach
    from memdecay.runtime.cache import DecayCache
    from memdecay.runtime.config import CacheConfig

    rows = []
    for name, theirs in data["scores"].items():
        model = tiny_llama()
        model.load_state_dict(data["weights"])
        model.set_attn_implementation("sdpa")
        cache = DecayCache(model.config, CacheConfig(2 * NUM_TOKENS, num_recent=0, policy=name))
        with attach(model, cache):
            model(random_ids(), cache=cache)
        keys = tuple(layer.keys for layer in cache.layers)
        ours = cache.policy.score(cache.slots, keys)[0]
        mean = torch.stack(theirs).mean(dim=(0, 2))[0]
        chosen, note = _comparable(name)
        if name == "h2o":
            # kvpress divides by the number of queries that see a key; the method adds up.
            mean = mean * torch.arange(NUM_TOKENS, 0, -1)
        rows.append((name, f"mean over layers and heads{note}", *_gap(ours[chosen], mean[chosen])))
    return rows


def _headwise_rows(data: dict[str, Any]) -> list[tuple[str, str, float, str]]:
    """Compare the methods that select for each head with kvpress's scores, head by head."""
    from memdecay.runtime.bench.caches.headwise_methods import HEADWISE

    rows = []
    for name, method in HEADWISE.items():
        policy = name.partition("-")[0]
        chosen, note = _comparable(policy)
        gaps = []
        for keys, probs, theirs in zip(
            data["keys"], data["attentions"], data["scores"][policy], strict=True
        ):
            attention = torch.zeros(keys.shape[:3])
            if method.blend is not None:
                attention = method.observe(attention, probs)
            num_recent = WINDOW_QUERIES if policy == "snapkv" else 0
            ours = method.score(attention, keys, num_recent)
            if policy == "h2o":
                ours = ours / torch.arange(NUM_TOKENS, 0, -1)
            gaps.append(_gap(ours[..., chosen], theirs[..., chosen]))
        order = "yes" if all(same == "yes" for _, same in gaps) else "no"
        rows.append((name, f"each layer and head{note}", max(gap for gap, _ in gaps), order))
    return rows


def _comparable(name: str) -> tuple[slice, str]:
    """Return the tokens whose scores mean the same in both, and what to say of the others."""
    if name == "snapkv":
        return slice(0, NUM_TOKENS - WINDOW_QUERIES), "; before the window, which stays in both"
    if name == "tova":
        return slice(0, NUM_TOKENS - 1), "; without the newest token, which stays in both"
    if name == "h2o":
        return slice(0, NUM_TOKENS // 2), "; the older half, the newer one stays in ours"
    return slice(0, NUM_TOKENS), ""


def _gap(ours: Tensor, theirs: Tensor) -> tuple[float, str]:
    """Return the largest difference, and whether both rank alike but for rounding."""
    gap = float((ours - theirs).abs().max())
    in_our_order = theirs.gather(-1, ours.argsort(dim=-1))
    is_same = bool((in_our_order.diff(dim=-1) >= -1e-5).all())
    return gap, "yes" if is_same else "no"


def _version(name: str) -> str:
    from importlib.metadata import version

    return version(name)


def _listed(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in versions.items())


def _our_versions() -> str:
    return _listed({name: _version(name) for name in ("memdecay", "transformers", "torch")})


_HEAD = """# Agreement with kvpress

The baselines of the benchmark compute what kvpress computes. `benchmarks/kvpress_check.sh` lets
both score the same tokens of the same random Llama and compares the scores.

kvpress's side: {versions}. Ours: {ours}.
"""
_FOOT = """
The product's cache keeps one set of tokens a row, so its policies average what kvpress has for each
layer and head; the bench-only methods with `-per-head` or `-per-layer` in their names keep a set
for each, as published. Where the two differ on purpose:

- `h2o` adds attention up, as its paper does; kvpress's `ObservedAttentionPress` divides by the
  number of queries that see a token. The comparison undoes the division.
- kvpress scores a prompt once. Ours goes on through the session: `tova` takes each newest query,
  `snapkv` a window that moves, `h2o` all queries since the beginning.
- Sinks and the newest tokens are protected in all of ours, which makes the baselines stronger.
"""


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("record", "compare"):
        raise SystemExit(__doc__)
    {"record": record, "compare": compare}[sys.argv[1]](Path(sys.argv[2]))
