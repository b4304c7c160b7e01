"""Write runs as event files of TensorBoard, one folder per run. TensorBoard stores numbers of 32 bits."""

from __future__ import annotations

import re
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from golfsim.share.exported import SUMMARY, Exported, Group, Sent, imported

EXTRA = "tensorboard"


def export(group: Group, logdir: Path) -> Sent:
    """Write the runs of a group, and its figures as images, to a folder of its name below the given one."""
    imported("tensorboard.compat.proto.event_pb2", EXTRA)
    root = logdir / _safe(group.name)
    folders = {root / f"{_safe(run.name)}-{run.hash[:8]}": run for run in group.runs}
    new = {folder: run for folder, run in folders.items() if not folder.is_dir()}
    for folder, run in new.items():
        with _events(folder) as add:
            _add(add, run)
    with _events(root / SUMMARY) as add:
        for file in group.figures:
            if file.suffix == ".png":
                add(0, file.stem, image=_image(file))
    return Sent(len(new), len(group.runs) - len(new))


def _safe(name: str) -> str:
    return re.sub(r"^\.+|[^\w.=,+ -]+", "_", name).encode()[:150].decode(errors="ignore")


def _add(add: Any, run: Exported) -> None:
    hparams = imported("tensorboard.plugins.hparams.summary_v2", EXTRA)
    own = {key: value for key, value in run.settings.items() if key in run.run.point or key == "seed"}
    start = hparams.hparams_pb({key: _simple(value) for key, value in own.items()}, start_time_secs=run.times[0])
    for value in start.value:
        add(0, value.tag, tensor=value.tensor, metadata=value.metadata)
    for title, table in (("settings", run.settings), ("golfsim", run.tags)):
        add(0, title, **_text(_markdown(table)))
    for cycle, found in run.metrics():
        for name, number in found.items():
            add(cycle, name, simple_value=number)


def _simple(value: Any) -> Any:
    return value if isinstance(value, bool | int | float | str) else str(value)


def _markdown(table: dict[str, Any]) -> str:
    rows = [f"| {key} | {value} |" for key, value in table.items()]
    return "\n".join(["| key | value |", "|---|---|", *rows])


def _text(text: str) -> dict[str, Any]:
    """Return the parts of a summary that TensorBoard shows as text."""
    about, util = imported("tensorboard.plugins.text.metadata", EXTRA), imported("tensorboard.util.tensor_util", EXTRA)
    return {"tensor": util.make_tensor_proto([text.encode()]), "metadata": about.create_summary_metadata("", "")}


def _image(file: Path) -> Any:
    proto = imported("tensorboard.compat.proto.summary_pb2", EXTRA)
    content = file.read_bytes()
    width, height = struct.unpack(">II", content[16:24])
    return proto.Summary.Image(height=height, width=width, colorspace=4, encoded_image_string=content)


@contextmanager
def _events(folder: Path) -> Iterator[Any]:
    """Write an event file under a temporary name and rename its folder; an existing folder is replaced."""
    writing = imported("tensorboard.summary.writer.event_file_writer", EXTRA)
    event = imported("tensorboard.compat.proto.event_pb2", EXTRA)
    proto = imported("tensorboard.compat.proto.summary_pb2", EXTRA)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".golfsim-") as aside:
        writer = writing.EventFileWriter(str(Path(aside) / "new"))

        def add(step: int, tag: str, **parts: Any) -> None:
            value = proto.Summary.Value(tag=tag, **parts)
            writer.add_event(event.Event(step=step, summary=proto.Summary(value=[value])))

        yield add
        writer.close()
        if folder.exists():
            folder.rename(Path(aside) / "old")
        (Path(aside) / "new").rename(folder)
