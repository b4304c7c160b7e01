"""Tables with columns that are neither numbers nor text, and labels that no machine number holds."""

import datetime
import decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from golfsim.core.errors import UserError
from golfsim.data.config import DataConfig
from golfsim.data.loading import load

RECORDS = 40
DAY = datetime.date(2020, 1, 1)
VALUES = {
    "list": pa.array([[1.0, 2.0]] * RECORDS),
    "dict": pa.array([{"x": 1, "y": "k"}] * RECORDS),
    "map": pa.array([[("k", 1)]] * RECORDS, type=pa.map_(pa.string(), pa.int64())),
    "nested": pa.array([[{"x": [1]}]] * RECORDS),
    "bytes": pa.array([b"\xff\x00"] * RECORDS),
    "decimal": pa.array([decimal.Decimal("1.5")] * RECORDS),
    "timestamp": pa.array([datetime.datetime(2020, 1, 1)] * RECORDS),
    "zoned": pa.array([datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)] * RECORDS),
    "date": pa.array([DAY] * RECORDS),
    "time": pa.array([datetime.time(1)] * RECORDS),
    "duration": pa.array([datetime.timedelta(1)] * RECORDS),
    "null": pa.nulls(RECORDS),
    "category without a value": pa.array([None, "y"] * (RECORDS // 2)).dictionary_encode(),
}


def written(folder, **columns):
    pq.write_table(pa.table({"a": pa.array(range(RECORDS)), **columns}), folder / "d.parquet")
    return DataConfig(file="d.parquet", label="label", test=0.2)


@pytest.mark.parametrize("kind", VALUES)
def test_a_column_of_another_kind_is_refused_by_its_name(tmp_path, kind):
    config = written(tmp_path, odd=VALUES[kind], label=pa.array([0, 1] * (RECORDS // 2)))
    with pytest.raises(
        UserError, match=r"column “odd” (is neither numbers nor text|has no value in record 1)"
    ) as caught:
        load(config, 1, tmp_path)
    assert caught.value.key == "data.file"
    assert caught.value.hint


@pytest.mark.parametrize("kind", VALUES)
def test_a_label_of_another_kind_is_refused_by_its_record(tmp_path, kind):
    config = written(tmp_path, label=VALUES[kind])
    with pytest.raises(UserError, match=r"record 1 has (no label|a label that is neither a number nor text \(\w+\))"):
        load(config, 1, tmp_path)


def test_categories_are_read_like_text(tmp_path):
    towns = pa.array(["x", "y"] * (RECORDS // 2))
    labels = pa.array([0, 1] * (RECORDS // 2))
    plain = load(written(tmp_path, town=towns, label=labels), 1, tmp_path)
    packed = load(written(tmp_path, town=towns.dictionary_encode(), label=labels), 1, tmp_path)
    assert plain.features == packed.features == ("a", "town=x", "town=y")
    assert (plain.x == packed.x).all()


def csv(folder, *labels):
    lines = [f"{i},{labels[i % len(labels)]}\n" for i in range(RECORDS)]
    (folder / "d.csv").write_text("a,label\n" + "".join(lines))
    return load(DataConfig(file="d.csv", label="label", test=0.2), 1, folder)


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (("10000000000000000000000", "0"), ("0", "10000000000000000000000")),
        (
            ("10000000000000000000000", "10000000000000000000001"),
            ("10000000000000000000000", "10000000000000000000001"),
        ),
        ((str(2**64), "1"), ("1", str(2**64))),
        ((str(2**63), "1"), ("1", str(2**63))),
        ((str(-(2**63)), "1"), (str(-(2**63)), "1")),
        (("1e22", "0"), ("0", "10000000000000000000000")),
        (("x\x1b[31m", "y"), ("x\x1b[31m", "y")),
        (("1", "z"), ("1", "z")),
    ],
)
def test_labels_of_any_size_and_text_are_classes(tmp_path, labels, classes):
    assert csv(tmp_path, *labels).classes == classes


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        (("nan", "1"), "record 1 has no label"),
        (("", "1"), "record 1 has no label"),
        (("inf", "1"), "record 1 has an infinite label"),
        (("1e400", "1"), "record 1 has an infinite label"),
        (("-0.0", "0.0"), "all records belong to one class"),
        (("0.5", "1"), "the label is a quantity"),
    ],
)
def test_labels_that_are_no_classes_are_refused(tmp_path, labels, says):
    with pytest.raises(UserError, match=says):
        csv(tmp_path, *labels)


def test_a_small_file_that_repeats_a_long_text_is_refused_before_it_is_expanded(tmp_path):
    """Expanded, the column would need 160 GB; the file has less than 1 MB."""
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 200_000, pa.int32()), pa.array(["x" * 200_000]))
    number = pa.array([n % 7 for n in range(200_000)])
    pq.write_table(pa.table({"a": number, "text": text, "label": number}), tmp_path / "d.parquet", store_schema=False)
    assert (tmp_path / "d.parquet").stat().st_size < 10**6
    with pytest.raises(UserError, match=r"d\.parquet expands to 149 GiB; .* of memory are available"):
        load(DataConfig(file="d.parquet", label="label", test=0.2), 1, tmp_path)
