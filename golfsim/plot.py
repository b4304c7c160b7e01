"""Figures for notebooks: functions that take a DataFrame and return matplotlib Axes, without global side effects.

    import golfsim

    frame = golfsim.load("results/quickstart")
    ax = golfsim.plot.convergence(frame)

Figures with several panels return the first of their Axes; `ax.figure` has all of them.
"""

from golfsim.report.curves import convergence, messages, online, overlay, small_multiples, spent
from golfsim.report.distributions import differences, errors, reaching, spent_by_record
from golfsim.report.grids import bars, heatmap, learning_curve, lines, privacy_utility
from golfsim.report.judgement import confusion, roc, time_table
from golfsim.report.needed import needed
from golfsim.report.networks import animation, degrees, drawing, raster
from golfsim.report.numbers import time_to
from golfsim.report.pairwise import pairwise
from golfsim.report.scatter import plane_of, planes_of, scatter, scatters
from golfsim.report.style import save, styled

__all__ = [
    "animation", "bars", "confusion", "convergence", "degrees", "differences", "drawing", "errors", "heatmap",
    "learning_curve", "lines", "messages", "needed", "online", "overlay", "pairwise", "plane_of", "planes_of",
    "privacy_utility", "raster", "reaching", "roc", "save", "scatter", "scatters", "small_multiples", "spent",
    "spent_by_record", "styled", "time_table", "time_to",
]  # fmt: skip
