"""The results of `golfsim bench` as benchmarks of asv, which records their history.

cd benchmarks && asv run -E existing --set-commit-hash $(git rev-parse HEAD) && asv publish -E existing && asv preview
"""

from golfsim import bench
from golfsim.bench.gossip import SIZES
from golfsim.bench.start import MANY
from golfsim.learning.loading import installed

LONGEST = 3600  # seconds


class Section:
    """Results of one section. All are measured once for all classes: asv knows a setup by its place in the code."""

    timeout = LONGEST

    def setup_cache(self):
        return [{"section": name} | row for name in bench.SECTIONS for row in bench.measure([name])]

    setup_cache.timeout = LONGEST

    def value(self, rows, number, **where):
        """Return a number of the only row with these values."""
        where["section"] = self.section
        (row,) = (row for row in rows if all(row.get(key) == wanted for key, wanted in where.items()))
        return row[number]


class Memory(Section):
    section = "memory"

    def track_copy(self, rows):
        return self.value(rows, "GB/s", name="memory copy")

    track_copy.unit = "GB/s"


class Protocols(Section):
    section = "protocols"
    params = (["Newscast", "Golf", "Golf over Newscast"], SIZES)
    param_names = ("protocol", "nodes")

    def track_rate(self, rows, name, nodes):
        return self.value(rows, "node-cycles/s", name=name, nodes=nodes)

    track_rate.unit = "node-cycles/s"

    def track_share_of_bare_loops(self, rows, name, nodes):
        return self.value(rows, "share", name=name, nodes=nodes)


class TwoThreads(Section):
    section = "protocols"
    params = SIZES
    param_names = ("nodes",)

    def track_of_one_thread(self, rows, nodes):
        return self.value(rows, "× one thread", name="Golf over Newscast, two threads", nodes=nodes)


class Faults(Section):
    section = "faults"
    params = SIZES[:2]
    param_names = ("nodes",)

    def track_share_of_faultless(self, rows, nodes):
        return self.value(rows, "of faultless", nodes=nodes)


class Averages(Section):
    section = "averages"
    params = ("averaging", "push_sum")
    param_names = ("protocol",)

    def track_rate(self, rows, name):
        return self.value(rows, "node-cycles/s", name=f"{name}, 8 numbers")

    track_rate.unit = "node-cycles/s"


class Messages(Section):
    section = "messages"
    params = ("token accounts", "ten parts", "largest tenth", "8 bits")
    param_names = ("messages",)

    def track_rate(self, rows, name):
        return self.value(rows, "node-cycles/s", name=f"Golf, {name}")

    track_rate.unit = "node-cycles/s"


class Overlays(Section):
    section = "overlays"
    params = ("CYCLON, view 20", "T-Man, view 20", "HyParView", "broadcast")
    param_names = ("protocol",)

    def track_rate(self, rows, name):
        return self.value(rows, "node-cycles/s", name=name)

    track_rate.unit = "node-cycles/s"


class Models(Section):
    section = "models"
    params = (1, 2)
    param_names = ("threads",)

    def track_share_of_memory_copy(self, rows, threads):
        return self.value(rows, "of memory copy", threads=threads)


class Observing(Section):
    section = "observing"

    def track_seconds(self, rows):
        return self.value(rows, "seconds")

    track_seconds.unit = "s"


class Strategies(Section):
    section = "strategies"

    def track_gradient_steps(self, rows):
        return self.value(rows, "updates/s", name="gradient steps, no noise")

    track_gradient_steps.unit = "updates/s"

    def track_gradient_steps_of_sklearn(self, rows):
        return self.track_gradient_steps(rows) / self.value(rows, "updates/s", name="scikit-learn SGDClassifier")

    def track_noisy_steps(self, rows):
        return self.value(rows, "updates/s", name="gradient steps, Laplace")

    track_noisy_steps.unit = "updates/s"

    def track_published(self, rows):
        return self.value(rows, "numbers/s", name="published numbers")

    track_published.unit = "numbers/s"

    def track_published_by_response(self, rows):
        return self.value(rows, "symbols/s", name="published symbols, ε = 10")

    track_published_by_response.unit = "symbols/s"

    def track_published_as_subsets(self, rows):
        return self.value(rows, "symbols/s", name="published symbols, ε = 1")

    track_published_as_subsets.unit = "symbols/s"

    def track_fits_of_sklearn(self, rows):
        return next(row["× sklearn"] for row in rows if "× sklearn" in row)


class Learners(Section):
    section = "learners"
    params = tuple(installed())
    param_names = ("learner",)

    def track_rate(self, rows, name):
        return self.value(rows, "node-cycles/s", name=f"Golf, {name}")

    track_rate.unit = "node-cycles/s"


class Starts(Section):
    section = "starts"
    params = ("golfsim --help", "quickstart, warm")
    param_names = ("command",)

    def track_seconds(self, rows, command):
        return self.value(rows, "seconds", name=command)

    track_seconds.unit = "s"


class Views(Section):
    section = "growth"
    params = (5, 10, 20, 30, 40, 60, 100)
    param_names = ("view",)

    def track_newscast(self, rows, view):
        return self.value(rows, "ns per node", view=view)

    track_newscast.unit = "ns per node"


class Large(Section):
    section = "large"
    params = (["Newscast", "Golf"], [MANY // 10, MANY])
    param_names = ("protocol", "nodes")

    def track_rate(self, rows, name, nodes):
        return self.value(rows, "node-cycles/s", name=f"{name}, alone", nodes=nodes)

    track_rate.unit = "node-cycles/s"

    def track_share_of_random_rows(self, rows, name, nodes):
        return self.value(rows, "share", name=f"{name}, alone", nodes=nodes)

    def track_memory(self, rows, name, nodes):
        return self.value(rows, "GiB", name=f"{name}, alone", nodes=nodes)

    track_memory.unit = "GiB"
