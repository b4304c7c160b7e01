"""The pages of the manual that are shipped with golfsim, and the line of an error message that names one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from golfsim.core.errors import UserError, nearest
from golfsim.core.paths import shipped
from golfsim.scenario.pages import GENERAL

METRICS = "metrics"
GENERATED = {GENERAL: "Scenario reference", METRICS: "Metrics"}  # pages that come from the code
# What the pages use of LaTeX, for a terminal. A test fails where a page uses more.
SYMBOLS = {
    "alpha": "α", "approx": "≈", "cdot": "·", "cos": "cos", "delta": "δ", "det": "det", "ell": "ℓ", "eta": "η",
    "exp": "exp",
    "ge": "≥", "in": "∈", "int": "∫", "kappa": "κ", "lambda": "λ", "lceil": "⌈", "ldots": "…", "le": "≤",
    "leftarrow": "←", "lfloor": "⌊", "ln": "ln", "max": "max", "mid": "|", "min": "min", "mu": "μ", "nabla": "∇",
    "ne": "≠", "notin": "∉", "nu": "ν", "otimes": "⊗", "pi": "π", "pm": "±", "prod": "Π", "qquad": "  ", "rceil": "⌉",
    "rfloor": "⌋", "setminus": "∖", "sigma": "σ", "sim": "~", "square": "□", "sum": "Σ", "tau": "τ", "times": "×",
    "top": "T",
    "varepsilon": "ε", "varphi": "φ", "Delta": "Δ", "Lambda": "Λ", "Phi": "Φ", "Pr": "Pr", "Sigma": "Σ",
}  # fmt: skip
ACCENTS = {"bar": "\u0304", "hat": "\u0302", "tilde": "\u0303"}  # marks above a letter
DROPPED = re.compile(r"\\(?:left|right)(?![A-Za-z])|&|\\(?:begin|end)\{aligned\}")
RAISED = str.maketrans("0123456789+-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻")
LOWERED = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
CODE = re.compile(r"(^```.*?^```$|^ {4}[^\n]*$|`[^`\n]*`)", re.MULTILINE | re.DOTALL)
GROUP = r"\{([^{}]*)\}"


def pages() -> dict[str, Path]:
    """Return the pages by name. Pages that come from the code are generated on each request."""
    folder = shipped("docs")
    found = {path.stem: path for path in folder.glob("*.md")}
    return dict(sorted((found | {name: folder / f"{name}.md" for name in GENERATED}).items())) if found else {}


def titles() -> list[dict[str, Any]]:
    """Return names and titles of all pages."""
    return [{"name": name, "about": _title(path), "settings": []} for name, path in pages().items()]


def _title(path: Path) -> str:
    if path.stem in GENERATED:
        return GENERATED[path.stem]
    with path.open(encoding="utf-8") as lines:
        return next((line.lstrip("# ").strip() for line in lines if line.startswith("# ")), path.stem)


def text_of(name: str) -> str:
    """Return a page as Markdown, with its formulas in Unicode."""
    found = pages()
    if name not in found:
        raise UserError(f"the manual has no page “{name}”", hint=nearest(name, found))
    if name == GENERAL:
        from golfsim.scenario import reference

        return reference.page()
    if name == METRICS:
        from golfsim.sim import metric_catalogue

        return metric_catalogue.page()
    return without_latex(found[name].read_text(encoding="utf-8"))


def more(page: str | None) -> str:
    """Return the line that refers to a page; an empty text where there is no such page."""
    return f"\n    more: golfsim help {page}" if page in pages() else ""


def without_latex(page: str) -> str:
    """Return a page with its formulas in Unicode; those with their own lines become blocks of code."""
    parts = CODE.split(page)
    parts[::2] = [_without_latex(part) for part in parts[::2]]
    return "".join(parts)


def _without_latex(text: str) -> str:
    text = re.sub(r"\$\$(.+?)\$\$", lambda found: _displayed(found[1]), text, flags=re.DOTALL)
    return re.sub(r"\$([^$]+)\$", lambda found: unicode_of(found[1]), text)


def _displayed(tex: str) -> str:
    lines = [re.sub(r"\s+(?=[.,;]$)", "", " ".join(line.split())) for line in unicode_of(tex).splitlines()]
    return "\n".join(["```text", *lines, "```"])


def unicode_of(tex: str) -> str:
    """Return a formula in Unicode, as far as lines of text allow: n_i and e^(ε/2) stay as they are."""
    tex = DROPPED.sub("", " ".join(tex.split())).strip().replace("\\\\", "\n")
    tex = re.sub(r"\\lVert\s*|\s*\\rVert", "‖", re.sub(r"\\[,; ]", " ", tex))
    tex = re.sub(r"\\([A-Za-z]+)(?![A-Za-z{])", lambda found: SYMBOLS.get(found[1], found[0]), tex)
    accents = "|".join(ACCENTS)
    tex = re.sub(rf"\\({accents})\s*(\w)", lambda found: found[2] + ACCENTS[found[1]], tex)
    before = ""
    while tex != before:  # from the innermost braces outwards
        before = tex
        tex = re.sub(rf"\\[dt]?frac{GROUP}{GROUP}", lambda found: f"{_product(found[1])}/{_divisor(found[2])}", tex)
        tex = re.sub(rf"\\binom{GROUP}{GROUP}", lambda found: f"C({found[1]}, {found[2]})", tex)
        tex = re.sub(rf"\\widehat{GROUP}", lambda found: f"est({found[1]})", tex)
        tex = re.sub(rf"\\sqrt{GROUP}", lambda found: f"√{_symbol(found[1])}", tex)
        tex = re.sub(rf"\\(?:text|mathrm|operatorname){GROUP}", lambda found: found[1], tex)
        tex = re.sub(rf"\^{GROUP}", lambda found: f"^{_symbol(found[1])}", tex)
        tex = re.sub(rf"_{GROUP}", lambda found: f"_{_product(found[1])}", tex)
        tex = re.sub(rf"(?<![\w}}]){GROUP}", lambda found: found[1], tex)
    tex = re.sub(r"\^(-?\d+|\(-\d+\))", lambda found: found[1].strip("()").translate(RAISED), tex)
    tex = re.sub(r"_(\d)", lambda found: found[1].translate(LOWERED), tex)
    return re.sub(" +", " ", tex).replace("-", "−")


def _symbol(text: str) -> str:
    """Return what may stand behind “^” or “√”: in parentheses unless it is a number or a letter."""
    return text if re.fullmatch(r"[\d.]+|\w", text) else f"({text})"


def _divisor(text: str) -> str:
    """Return what may stand behind “/”: in parentheses unless it is a number or a letter, with an index or a root."""
    return text if re.fullmatch(r"[\d.]+|√?\w(_\w+)?'?|√\([^()]*\)", text) else f"({text})"


def _product(text: str) -> str:
    """Return what may stand before “/”, or as an index: in parentheses if it has a sum or a space outside of them."""
    return f"({text})" if re.search(r"[-+\s=]", re.sub(r"\([^()]*\)", "", text)) else text
