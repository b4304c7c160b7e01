"""Metadata of a pack: RO-Crate, citation, licence."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from golfsim._version import __version__
from golfsim.share.readme import Content

METADATA = "ro-crate-metadata.json"
PROFILE = "https://w3id.org/ro/crate/1.1"
FORMATS = {
    ".toml": "application/toml", ".json": "application/json", ".md": "text/markdown", ".html": "text/html",
    ".parquet": "application/vnd.apache.parquet", ".png": "image/png", ".svg": "image/svg+xml",
    ".pdf": "application/pdf", ".py": "text/x-python", ".csv": "text/csv", ".sqlite": "application/vnd.sqlite3",
    ".cff": "application/yaml", ".lock": "text/plain", ".txt": "text/plain", ".whl": "application/zip",
}  # fmt: skip
Entity = dict[str, Any]


def ro_crate(content: Content, sizes: Mapping[str, int], authors: Iterable[str], licence: str | None) -> str:
    """Return the RO-Crate metadata of the files of a pack, given by path with their sizes."""
    people = [{"@id": f"#author-{n}", "@type": "Person", "name": name} for n, name in enumerate(authors, 1)]
    date = max(str(run.about.get("written", ""))[:10] for run in content.results.runs)
    scenario = content.experiment.place_of_scenario
    results = sorted(path for path in sizes if path.startswith("results/"))
    terms = f"https://spdx.org/licenses/{licence}" if licence else "LICENSE"
    root: Entity = {
        "@id": "./",
        "@type": "Dataset",
        "name": content.title,
        "description": f"The scenario and the results of simulations of gossip protocols: {content.title}",
        "datePublished": date,
        "license": {"@id": terms},
        "hasPart": _ids(map(_uri, sorted(sizes))),
        "mainEntity": {"@id": _uri(scenario)},
        "mentions": {"@id": "#runs"},
    } | ({"author": _ids(str(person["@id"]) for person in people)} if people else {})
    made = {
        "@id": "#runs",
        "@type": "CreateAction",
        "name": f"golfsim run {scenario}",
        "endTime": max(str(run.about.get("written", "")) for run in content.results.runs),
        "instrument": {"@id": "#golfsim"},
        "object": {"@id": _uri(scenario)},
        "result": _ids(map(_uri, results)),
    }
    software = {
        "@id": "#golfsim",
        "@type": "SoftwareApplication",
        "name": "golfsim",
        "softwareVersion": str(content.about.get("code", __version__)),
    }
    about = {
        "@id": METADATA,
        "@type": "CreativeWork",
        "about": {"@id": "./"},
        "conformsTo": {"@id": PROFILE},
    }
    spdx = [{"@id": terms, "@type": "CreativeWork", "name": licence}] if licence else []
    graph = [about, root, made, software, *spdx, *people]
    graph += [_file(path, size) for path, size in sorted(sizes.items())]
    return json.dumps({"@context": f"{PROFILE}/context", "@graph": graph}, indent=2, ensure_ascii=False) + "\n"


def _ids(names: Iterable[str]) -> list[Entity]:
    return [{"@id": name} for name in names]


def _uri(path: str) -> str:
    """Return the path of a file as a relative URI."""
    return quote(path, safe="/=,+")


def _file(path: str, size: int) -> Entity:
    kind = FORMATS.get(Path(path).suffix)
    found = {"@id": _uri(path), "@type": "File", "name": Path(path).name, "contentSize": str(size)}
    return found | ({"encodingFormat": kind} if kind else {})


def citation(content: Content, authors: Iterable[str], licence: str | None) -> str:
    """Return a CITATION.cff for the results; texts are written as JSON, which YAML contains."""
    names = list(authors) or ["The authors of this experiment"]
    lines = [
        "cff-version: 1.2.0",
        "message: If you use these results, please cite them as below.",
        "type: dataset",
        f"title: {_quoted(content.title)}",
        "authors:",
        *(f"  - name: {_quoted(name)}" for name in names),
        *([f"license: {licence}"] if licence else []),
        "references:",
        "  - type: software",
        "    title: golfsim",
        f"    version: {_quoted(__version__)}",
        "    authors:",
        "      - name: The golfsim developers",
    ]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def licence_note(content: Content, licence: str | None) -> str:
    """Return a note about the licences of scenario, results, golfsim and data."""
    own = (
        f"under the licence {licence} (https://spdx.org/licenses/{licence})" if licence else "not stated by the authors"
    )
    lines = [f"Scenario and results: {own}.", "golfsim: MIT.", "Packages of requirements.lock: their own licences."]
    lines += [f"Data set {card.name}, not included: {card.licence}." for card in content.cards]
    return "\n".join(lines) + "\n"
