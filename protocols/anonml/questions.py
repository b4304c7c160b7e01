"""The questions of an aggregator to each peer, and the cost of each answer (Cyphers 2017, sections 6.1 and 7.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from golfsim.protocol.records import Rows
from protocols.anonml import histograms
from protocols.anonml.coding import Coder
from protocols.anonml.histograms import Perturbation, Plan, attribute_epsilon, record_epsilon
from protocols.anonml.votes import Ensemble

Accounting = Literal["sum", "attribute-maximum"]


@dataclass(frozen=True)
class Costs:
    """The ε of each answer of a record: `cuts` answers about cuts, all in one message, and `strings` strings."""

    cuts: int
    strings: int
    of_cut: float
    of_string: float

    @staticmethod
    def split(epsilon: float, cuts: int, strings: int, accounting: Accounting, cut_share: float | None) -> Costs:
        """Divide ε among answers: all cost the same (ε_e = ε_h in the source), or cuts have a share of the sum.

        `attribute-maximum` is the published budget: the label is in every string, a feature is in one string and one
        answer about a cut.
        """
        if cut_share is not None and cuts:
            return Costs(cuts, strings, cut_share * epsilon / cuts, (1 - cut_share) * epsilon / strings)
        answers = strings + cuts if accounting == "sum" else max(strings, 2 if cuts else 1)
        return Costs(cuts, strings, epsilon / answers, epsilon / answers)

    @property
    def of_record(self) -> float:
        """The ε of all answers of a record."""
        return record_epsilon([self.of_string] * self.strings, dict.fromkeys(range(self.cuts), self.of_cut))

    def of_attribute(self, subsets: Sequence[NDArray[np.int32]], numeric: NDArray[np.int64]) -> float:
        """Return the largest ε of the label or a single feature, for peers asked for these subsets (equation 7.4)."""
        cuts = {int(column): self.of_cut for column in numeric[: self.cuts]}
        return attribute_epsilon([self.of_string] * self.strings, [s.tolist() for s in subsets], cuts)


@dataclass(frozen=True)
class Questions:
    """The requested histograms: question part · each + number is about subset `number` of a partition."""

    coder: Coder
    part: NDArray[np.int32]  # the partition of each peer
    subsets: list[NDArray[np.int32]]  # the features of each question
    each: int  # the number of questions per peer

    @staticmethod
    def draw(key: np.uint64, peers: int, coder: Coder, partitions: int, size: int, number: int | None) -> Questions:
        """Draw partitions and subsets from a committed seed.

        Parameters
        ----------
        key : uint64
            The key of the draws.
        peers : int
            The number of peers.
        coder : Coder
            The columns.
        partitions : int
            The number of partitions.
        size : int
            The number of features per subset.
        number : int or None
            The number of subsets per partition; None: as many as fit without overlap.
        """
        subsets = histograms.draw_subsets(key, 0, partitions, len(coder.names), size, number)
        part = histograms.partition(key, 1, peers, partitions)
        return Questions(coder, part, [subset for of_part in subsets for subset in of_part], len(subsets[0]))

    @property
    def sizes(self) -> list[int]:
        """The length m of the string of each question."""
        return [histograms.cells(self.coder.alphabets[subset], 2) for subset in self.subsets]

    def of_partitions(self) -> list[list[NDArray[np.int32]]]:
        """Return the subsets of each partition."""
        return [self.subsets[first : first + self.each] for first in range(0, len(self.subsets), self.each)]

    def cells(
        self, rows: Rows, record: NDArray[np.int64], question: NDArray[np.int64], cuts: NDArray[np.float64]
    ) -> NDArray[np.int32]:
        """Return the cell of each record in the histogram of its question."""
        codes, label = self.coder.codes(rows.x, cuts, record), rows.label[record]
        out = np.empty(record.size, np.int32)
        for number in np.unique(question):
            mine, subset = question == number, self.subsets[number]
            alphabets = self.coder.alphabets[subset]
            out[mine] = histograms.encode(codes[mine][:, subset], label[mine], alphabets, 2)
        return out

    def ensemble(self, table: NDArray[np.float64], score: NDArray[np.float64]) -> Ensemble:
        """Return the ensemble of all questions with these tables and scores."""
        strides = [histograms.strides(self.coder.alphabets[subset]) for subset in self.subsets]
        sizes = np.array(self.sizes) // 2
        return Ensemble(
            start=np.cumsum([0, *map(len, self.subsets)], dtype=np.int64),
            feature=np.concatenate(self.subsets).astype(np.int32),
            stride=np.concatenate(strides),
            first=np.cumsum(sizes) - sizes,
            table=table,
            score=score,
        )


def rms_errors(
    perturbations: Sequence[Perturbation],
    plan: Plan,
    cell: NDArray[np.int64],
    arrived: NDArray[np.int64],
    *estimates: list[NDArray[np.float64]],
) -> NDArray[np.float64]:
    """Return root mean squares over histograms of the L2 error of shares: the expected one, and that of each estimate.

    `cell` has the true cells of all answers that arrived, numbered over all histograms.
    """
    true = np.split(np.bincount(cell, minlength=int(plan.first[-1])), plan.first[1:-1])
    some = np.flatnonzero(arrived)
    expected = [perturbations[int(h)].rms_error(int(arrived[h])) ** 2 for h in some]
    measured = [[np.sum((each[h] - true[h]) ** 2) / arrived[h] ** 2 for h in some] for each in estimates]
    return np.asarray(np.sqrt([np.mean(expected), *(np.mean(each) for each in measured)]), np.float64)
