"""The figures of `golfsim bench`, for asv to keep their history.

cd benchmarks && asv run -E existing --set-commit-hash $(git rev-parse HEAD) && asv publish -E existing && asv preview
"""

from golfsim import bench

NUMBERS = ("GB/s", "node-cycles/s", "share", "× one thread", "of faultless", "of memory copy", "seconds", "GiB")
LONGEST = 3600  # seconds


class Figures:
    """One series for each number of each row: ratios where a row has one, rates and seconds besides."""

    params = (list(bench.SECTIONS), list(range(12)), list(NUMBERS))
    param_names = ("section", "row", "number")
    timeout = LONGEST

    def setup_cache(self):
        return {name: list(bench.measure([name])) for name in bench.SECTIONS}

    setup_cache.timeout = LONGEST

    def track(self, found, section, row, number):
        rows = found[section]
        return rows[row].get(number, float("nan")) if row < len(rows) else float("nan")
