"""What is not ours is not run, not loaded and not believed: code, pickles, archives, names."""

import ast
import json
import os
import re
import stat
import tarfile
import zlib
from pathlib import Path

import pytest
import tomlkit
from helpers import HERE, archive_of, command, tree

from golfsim.core import paths
from golfsim.core.provenance import ROOTS
from golfsim.data.fetch import CHUNK, Damaged, NotFetched, copy_member, first_rows
from golfsim.runs import batch
from golfsim.runs.single import Task
from golfsim.scenario.messages import ScenarioError
from golfsim.scenario.model import Scenario
from golfsim.scenario.source import Source
from golfsim.scenario.sweep import points

MINE = (
    "from golfsim.protocol import Protocol\n\nopen(__file__ + '.ran', 'w').close()\n\nclass Mine(Protocol):\n    pass\n"
)


@pytest.fixture
def folders(tmp_path):
    """A scenario's folder, and code outside and inside it; the code leaves a trace when it is run."""
    for place in ("outside", "inside", "inside/below"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "mine.py").write_text(MINE)
    return tmp_path


def written(folders, use):
    file = folders / "inside" / "s.toml"
    file.write_text(tomlkit.dumps(tree({"name": "mine", "use": use}, nodes=3, cycles=1)))
    return file


@pytest.mark.parametrize("use", ["mine.py:Mine", "below/mine.py:Mine", "./below/../mine.py:Mine"])
def test_code_of_the_scenarios_folder_is_run(folders, use):
    Scenario.load(written(folders, use))
    assert list((folders / "inside").rglob("*.ran"))


@pytest.mark.parametrize(
    "use", ["../outside/mine.py:Mine", "{}/outside/mine.py:Mine", "link.py:Mine", "linked/mine.py:Mine"]
)
def test_code_from_elsewhere_is_refused_before_it_is_run_unless_it_is_allowed(folders, use):
    (folders / "inside/link.py").symlink_to(folders / "outside/mine.py")
    (folders / "inside/linked").symlink_to(folders / "outside")
    file = written(folders, use.format(folders))
    with pytest.raises(ScenarioError, match=r"s\.toml:10: mine\.use: .*outside/mine\.py is outside the folder"):
        Scenario.load(file)
    assert not list(folders.rglob("*.ran"))
    Scenario.load(file, allow_code=True)
    assert (folders / "outside/mine.py.ran").exists()


def test_a_scenario_reached_by_a_link_still_finds_its_code(folders):
    written(folders, "mine.py:Mine")
    (folders / "door").symlink_to(folders / "inside")
    assert Scenario.load(folders / "door/s.toml").code_files() == [folders / "inside/mine.py"]


@pytest.mark.parametrize("words", [["run", "--out", "r"], ["check"], ["run", "--out", "r", "--workers", "2"]], ids=len)
def test_commands_refuse_code_from_elsewhere_and_tell_which_code_they_run(folders, words, capsys, monkeypatch):
    monkeypatch.chdir(folders)
    file = written(folders, "../outside/mine.py:Mine")
    file.write_text("runs = 2\n" + file.read_text())
    code, _, err = command(capsys, monkeypatch, words[0], file, *words[1:])
    assert code == 2
    assert "--allow-code" in err
    code, _, err = command(capsys, monkeypatch, words[0], file, *words[1:], "--allow-code")
    assert code == 0
    assert f"this scenario runs code from {folders}/outside/mine.py\n" in err
    for told in folders.glob("r/*/run.json"):
        assert json.loads(told.read_text())["code_files"] == [f"{folders}/outside/mine.py"]


def test_a_set_that_names_code_from_elsewhere_is_refused_too(folders):
    file = written(folders, "mine.py:Mine")
    with pytest.raises(ScenarioError, match="is outside the folder of the scenario"):
        Scenario.load(file, [f"mine.use={folders}/outside/mine.py:Mine"])
    with pytest.raises(ScenarioError, match="is outside the folder of the scenario"):
        Scenario.load(file).change({"mine.use": "../outside/mine.py:Mine"})


def modules():
    return [path for root in ROOTS for path in sorted(root.rglob("*.py"))]


def imported(path):
    """The modules that a source imports, also inside functions."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return plain | {node.module for node in nodes if isinstance(node, ast.ImportFrom)}


def test_nothing_of_ours_loads_a_pickle():
    """Only somebody else's data set comes as one: checksummed, and nothing but arrays is made of it."""
    using = {}
    for path in modules():
        names = {
            alias.name
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Import)
            for alias in node.names
        }
        names |= {node.module for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)}
        if names & {"pickle", "cloudpickle", "dill", "shelve", "marshal", "joblib", "multiprocessing"}:
            using[path.name] = names
        assert "allow_pickle=True" not in path.read_text()
    assert set(using) == {"fetch.py"}


def test_a_task_survives_its_way_to_a_worker_as_json(folders):
    table = tree({"name": "peers", "use": "newscast", "view": 3}, nodes=5, sweep={"peers.view": [3, 4], "seed": [1]})
    file = folders / "s.toml"
    file.write_text(tomlkit.dumps(table))
    for point in points(Scenario.load(file, ["cycles=4"])):
        task = Task(point, 1, "abc", folders / "r", 2, 7.0, True)
        back = Task.unpacked(json.loads(json.dumps(task.packed())))
        assert back == task
        assert back.point.scenario.essence() == point.scenario.essence()
        assert back.point.scenario._source == point.scenario._source


def test_dates_and_strange_numbers_survive_as_json_too():
    import tomllib

    text = "a = 1979-05-27\nb = 07:32:00\nc = 1979-05-27T07:32:00Z\nd = [nan, inf, -0.0]\n'e.f' = 9223372036854775807"
    source = Source("f", HERE, tomllib.loads(text), {("d", 0): 4}, ("a",), {("d",): "--set d"}, True)
    assert repr(Source.unpacked(source.packed())) == repr(source)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no users here")
def test_folders_of_what_is_loaded_again_are_private(tmp_path, monkeypatch):
    monkeypatch.setenv("GOLFSIM_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache" / "kernels").mkdir(parents=True, mode=0o777)
    (tmp_path / "cache" / "kernels").chmod(0o777)
    folder = paths.private("kernels", "hash")
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, folder.parent)] == [0o700, 0o700]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only the superuser can give a folder away")
def test_a_folder_of_somebody_else_is_not_trusted(tmp_path, monkeypatch):
    monkeypatch.setenv("GOLFSIM_CACHE", str(tmp_path))
    (tmp_path / "kernels").mkdir()
    os.chown(tmp_path / "kernels", 12345, 12345)
    with pytest.raises(PermissionError, match="belongs to another user"):
        paths.private("kernels", "hash")


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE])
def test_an_archive_writes_where_we_say_and_only_plain_files(tmp_path, kind):
    link = tarfile.TarInfo("package/data")
    link.type, link.linkname = kind, "../../etc/passwd"
    with pytest.raises(NotFetched, match="is not a regular file"):
        copy_member(archive_of((link, b"")), "package/data", tmp_path / "data")
    assert not list(tmp_path.iterdir())
    copy_member(archive_of((tarfile.TarInfo("../../escaped"), b"x")), "../../escaped", tmp_path / "data")
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_no_card_names_a_file_outside_its_folder_and_what_is_fetched_has_a_checksum():
    from golfsim.data.loading import cards

    for card in cards().values():
        for file in card.files:
            assert Path(file["name"]).name == file["name"]
            assert "sha256" in file or "rows" in file  # of the first rows of a larger file none is published
        for source in card.sources if card.kind == "fetched" else ():
            assert source["kind"] != "pypi" or "sha256" in source


def test_zips_are_read_by_member_and_never_unpacked():
    for path in modules():
        assert not {".extractall(", "tar.extract(", "unpack_archive("} & set(
            re.findall(r"\w*\.?\w+\(", path.read_text())
        )


def test_a_packed_file_that_unfolds_without_end_is_given_up():
    packer = zlib.compressobj(wbits=31)
    bomb = iter(lambda: packer.compress(b"1" * (CHUNK * 1000)) + packer.flush(zlib.Z_SYNC_FLUSH), b"")
    with pytest.raises(Damaged, match="lines of more than"):
        first_rows(bomb, 3)


HOSTILE = "</script><img src=x onerror=alert(1)>'\"&"


def test_a_page_escapes_names_of_every_kind(tmp_path, capsys, monkeypatch):
    table = tree(
        {"name": "peers", "use": "newscast", "view": 3}, nodes=10, cycles=2, case=[{"label": HOSTILE, "cycles": 2}]
    )
    folder = tmp_path / "r<img src=x onerror=alert(2)>"
    batch.run(Scenario.of(table | {"name": HOSTILE}, HERE), folder, batch.Execution())
    code, _, err = command(capsys, monkeypatch, "report", folder, "--title", HOSTILE, "--out", tmp_path / "p.html")
    assert code == 0, err
    page = (tmp_path / "p.html").read_text()
    assert "onerror=alert" in page
    assert "<img src=x" not in page
    assert "</script><img" not in page
