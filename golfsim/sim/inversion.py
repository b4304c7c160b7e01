"""The attack “inversion”: reconstruct the records of other nodes from models, or from published records.

The difference of two models is a multiple of yx, with noise if there is any (`golfsim.learning.exposure`). Its
direction is the record up to the sign; where features are not negative, their sum shows the sign, and so the label.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from golfsim.core import rng
from golfsim.core.metrics import Metric
from golfsim.learning.exposure import NOBODY, Exposure
from golfsim.protocol.records import Published, RawRecords
from golfsim.sim.attacks import SAMPLE, Metrics

if TYPE_CHECKING:
    from golfsim.network.world import World

CLOSE = 0.9  # the cosine similarity of a record that counts as reconstructed
METRICS = (
    Metric(
        "inversion.cosine",
        "The mean cosine similarity of reconstructed and true features, over the exposed records; 1 is the same "
        "direction.",
        "cosine from 0 to 1",
        "down",
    ),
    Metric(
        "inversion.close",
        f"The share of the exposed records whose reconstruction has a cosine similarity of more than {CLOSE}.",
        "share of records",
        "down",
    ),
    Metric(
        "inversion.label",
        "The share of the exposed records whose label is reconstructed correctly; only if no feature is negative.",
        "share of records",
        "down",
    ),
    Metric(
        "inversion.base",
        "The mean cosine similarity of the mean test record and the exposed records: a guess without any messages.",
        "cosine from 0 to 1",
    ),
    Metric(
        "inversion.exposed",
        "The share of other nodes' records that are exposed to an attacker: it has received what only one update, or "
        "the published record, has changed.",
        "share of records",
        "down",
    ),
)  # of layers that publish records, and of Golf and walks that learn from private ones


def groups(key: np.uint64, nodes: int, attackers: int | str, collude: bool) -> NDArray[np.int32]:
    """Return the group of each node: attackers are drawn at random, and form one group each unless they collude."""
    everyone = np.arange(nodes, dtype=np.int32)
    chosen = everyone if isinstance(attackers, str) else rng.sample(key, 0, everyone, attackers)
    group = np.full(nodes, NOBODY, np.int32)
    group[chosen] = 0 if collude else np.arange(chosen.size)
    return group


def memory(numbers: int, events: int, records: int, watching: int) -> int:
    """Return the bytes of what attackers know: three models per exposure, and per message of the moment."""
    return 3 * 8 * numbers * min(events, records * watching)


def of_models(exposure: Exposure, raw: RawRecords, guess: NDArray[np.float64] | None) -> Metrics:
    """Return how well each group reconstructs the records that were exposed to it.

    `guess` is what an attacker would guess without any message. Without exposed records only their share is returned.
    """
    group = exposure.group
    held = np.bincount(group[group != NOBODY], raw.capacity()[group != NOBODY], minlength=int(group.max()) + 1)
    pairs = float((raw.rows.label.size - held).sum())
    keys = sorted(exposure.found)
    metrics = {"inversion.exposed": len(keys) / pairs if pairs else 0.0}
    if not keys:
        return metrics
    records = np.array([record for _, record in keys])
    seen = np.stack([exposure.found[key].w for key in keys])
    x, label = reconstructed(seen, _not_negative(raw))
    return judged(x, label, raw, records, guess) | metrics


def of_published(published: Published[Any], raw: RawRecords, key: np.uint64, world: World, guess: Any) -> Metrics:
    """Return how close published records are to the true ones; every peer receives all of them."""
    there = raw.published_by(published)
    records = np.flatnonzero(there).astype(np.int32)
    chosen = rng.sample(key, world.cycle, records, SAMPLE).astype(np.int64)
    metrics = {"inversion.exposed": float(there.mean()) if there.size else 0.0}
    if not chosen.size:
        return metrics
    x, label = published.decoded(chosen)
    return judged(x.astype(np.float64), label if _not_negative(raw) else None, raw, chosen, guess) | metrics


def _not_negative(raw: RawRecords) -> bool:
    return raw.about.span is not None and raw.about.span[0] >= 0


def reconstructed(
    seen: NDArray[np.float64], not_negative: bool
) -> tuple[NDArray[np.float64], NDArray[np.int32] | None]:
    """Return records and labels from differences of models [records, models, features].

    The difference of model m is a positive multiple of ±x, with + for the class m. Features that are not negative have
    a positive sum, so the sign of the sum is that of x. Otherwise the longest difference is the record up to its sign,
    and the label is unknown.
    """
    if not not_negative:
        longest = np.square(seen).sum(axis=2).argmax(axis=1)
        return seen[np.arange(len(seen)), longest], None
    total = seen.sum(axis=2)
    x = (seen * np.where(total >= 0, 1.0, -1.0)[:, :, None]).sum(axis=1)
    label = total.argmax(axis=1) if total.shape[1] > 1 else total[:, 0] >= 0
    return x, label.astype(np.int32)


def judged(
    x: NDArray[np.float64],
    label: NDArray[np.int32] | None,
    raw: RawRecords,
    records: NDArray[np.int64],
    guess: NDArray[np.float64] | None,
) -> Metrics:
    """Compare reconstructed with true records.

    Parameters
    ----------
    x : array of float64, shape (records, features)
        The reconstructed features, up to the sign if labels are unknown.
    label : array of int32, shape (records,), or None
        The reconstructed labels; None: unknown.
    raw : RawRecords
        The true records.
    records : array of int64, shape (records,)
        Their numbers.
    guess : array of float64, shape (features,), or None
        What an attacker would guess without messages.
    """
    true = raw.rows.x[records].astype(np.float64)
    similar = cosines(x, true)
    similar = np.abs(similar) if label is None else similar
    found = {"inversion.cosine": float(similar.mean()), "inversion.close": float((similar > CLOSE).mean())}
    if label is not None:
        found["inversion.label"] = float((label == raw.rows.label[records]).mean())
    if guess is not None:
        base = cosines(np.broadcast_to(guess, true.shape), true)
        found["inversion.base"] = float((np.abs(base) if label is None else base).mean())
    return found


def cosines(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the cosine similarity of each row of two arrays; 0 for a row of zeros."""
    lengths = np.sqrt((one * one).sum(axis=1) * (other * other).sum(axis=1))
    return np.asarray((one * other).sum(axis=1) / np.where(lengths > 0, lengths, 1.0))
