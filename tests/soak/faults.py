"""Disturb running simulations: kills, Ctrl-C, a lost Dask worker, a full disk, a jumping clock, damaged files."""

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

MARK = "GOLFSIM_SOAK_CASE"  # in the environment of all processes of a case
CODE = f"import os; from golfsim.cli import main; open(os.environ[{MARK!r}] + '/begun', 'w').close(); main()"
SECONDS = 300  # that one command may take
CLOCKS = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
JUMPS = ["-400d", "+400d", "-1h", "+0", "-20y"]
PATCHED = """
import os, time
real, units = time.time, {"y": 31536000, "d": 86400, "h": 3600}
def jumping():
    with open(os.environ["FAKETIME_TIMESTAMP_FILE"]) as file:
        jump = file.read()
    return real() + units.get(jump[-1:], 0) * int(jump.strip("ydh") or 0)
time.time = jumping
"""


class Failed(Exception):
    """Something happened that golfsim promises not to happen."""


class Case:
    """One scenario, an undisturbed and a disturbed folder of results, and everything that is started for them."""

    def __init__(self, folder, rng, words):
        self.folder, self.rng, self.words = folder, rng, words
        self.out, self.errors = folder / "disturbed", folder / "stderr.txt"
        self.hits = 0  # disturbances that found a running process
        self.mounted = False
        (folder / "tmp").mkdir()
        self.environment = os.environ | {MARK: str(folder), "TMPDIR": str(folder / "tmp")}

    def start(self, *words, out=None, more=(), environment=(), **how):
        """Start `golfsim run` with random words about workers, threads and checkpoints, or with these."""
        words = ["run", self.folder / "s.toml", "--out", out or self.out, *(words or self.words), *more]
        return self.golfsim(*words, environment=environment, **how)

    def golfsim(self, *words, environment=(), **how):
        command = [sys.executable, "-c", CODE, *map(str, words)]
        with self.errors.open("ab") as errors:
            errors.write(f"$ golfsim {' '.join(command[3:])}\n".encode())
            errors.flush()
            return subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=errors, env=self.environment | dict(environment), **how
            )

    def ended(self, run, *allowed):
        """Wait for the end of a command, which must have one of the allowed exit statuses."""
        try:
            run.wait(SECONDS)
        except subprocess.TimeoutExpired:
            raise Failed(f"a command has not ended after {SECONDS} seconds") from None
        if run.returncode not in allowed:
            raise Failed(f"exit status {run.returncode}, expected {' or '.join(map(str, allowed))}")

    def until_it_runs(self, run):
        """Wait for a random time: since the start of a command, or since its first new checkpoint."""
        known = set(self.out.rglob("checkpoint-*"))
        limit = time.monotonic() + 60
        if self.rng.random() < 0.7:
            while run.poll() is None and time.monotonic() < limit and set(self.out.rglob("checkpoint-*")) <= known:
                time.sleep(0.01)
            time.sleep(0.5 * self.rng.random())
        else:
            time.sleep(3 * self.rng.random())

    def processes(self):
        """Return the ids of all living processes of this case."""
        found, mark = [], f"{MARK}={self.folder}\0".encode()
        for place in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if mark in (place / "environ").read_bytes() + b"\0" and place.name != str(os.getpid()):
                    found.append(int(place.name))
        return found

    def kill(self, *processes):
        """SIGKILL; a process that has ended already does not count."""
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
                self.hits += 1

    def close(self):
        """End what was left; return its processes."""
        limit = time.monotonic() + 30
        while (left := self.processes()) and time.monotonic() < limit:
            time.sleep(0.1)
        for process in left:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        if self.mounted:  # what is in memory only is copied, for a look at it
            shutil.copytree(self.out, self.folder / "copy")
            subprocess.run(["umount", "-l", self.out], check=True)
            self.out.rmdir()
            (self.folder / "copy").rename(self.out)
        return left


def kill_master(case):
    for _ in range(case.rng.randint(1, 4)):
        run = case.start()
        case.until_it_runs(run)
        case.kill(run.pid) if run.poll() is None else None
        case.ended(run, -signal.SIGKILL, 0)


def kill_worker(case):
    run = case.start("--workers", 2, "--threads", 1, "--checkpoint-every", 0)
    for _ in range(case.rng.randint(1, 2)):  # the third death of its worker is a failure of a run
        case.until_it_runs(run)
        workers = []
        while run.poll() is None and not workers:
            workers = [process for process in case.processes() if process != run.pid]
        case.kill(*case.rng.sample(workers, min(1, len(workers))))
    case.ended(run, 0)


def kill_both(case):
    for _ in range(case.rng.randint(1, 3)):
        run = case.start("--workers", 2, "--checkpoint-every", 0)
        case.until_it_runs(run)
        processes = case.processes()
        case.rng.shuffle(processes)
        case.kill(*processes)
        case.ended(run, -signal.SIGKILL, 0)


def interrupt(case):
    for _ in range(case.rng.randint(1, 3)):
        (case.folder / "begun").unlink(missing_ok=True)
        run = case.start()
        while run.poll() is None and not (case.folder / "begun").exists():
            time.sleep(0.01)  # Python itself answers earlier with a traceback
        case.until_it_runs(run)
        for _ in range(case.rng.randint(1, 2)):
            if run.poll() is None:
                run.send_signal(signal.SIGINT)
                case.hits += 1
                time.sleep(0.3 * case.rng.random())
        case.ended(run, 130, 0, -signal.SIGINT)  # the last: while Python ends


def kill_dask_worker(case):
    folder = case.folder / "dask"  # a killed worker leaves temporary files there
    folder.mkdir()
    environment = case.environment | {"TMPDIR": str(folder)}

    def start(name, *words):
        command = [sys.executable, "-m", f"distributed.cli.{name}", *words]
        return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, cwd=folder)

    scheduler = start("dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard")
    address = next(m[1] for m in (re.search(r"Scheduler at:\s+(tcp://\S+)", line) for line in scheduler.stderr) if m)
    options = (address, "--nthreads", "1", "--no-nanny", "--no-dashboard")
    workers = [start("dask_worker", *options) for _ in range(2)]
    try:
        run = case.start("--scheduler", address, "--checkpoint-every", 0)
        case.until_it_runs(run)
        case.kill(workers[0].pid)
        case.ended(run, 0)
    finally:
        for process in (*workers, scheduler):
            process.kill()
            process.wait()


def full_disk(case):
    """Write results to a small file system in memory, or let no process write a large file, in the cache neither."""
    case.out.mkdir()
    limit = case.rng.choice([f"size={case.rng.randint(1, 40) * 4}k", f"nr_inodes={case.rng.randint(2, 12)}", ""])
    case.mounted = bool(limit) and _mount(f"-o{limit}", "-ttmpfs", "soak", case.out)
    size = case.rng.randint(1, 30) * 1000
    run = case.start(
        preexec_fn=None if case.mounted else lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    )
    case.ended(run, 0, 1, 2)
    case.hits += run.returncode > 0
    if case.mounted and not _mount("-oremount,size=200m,nr_inodes=10000", case.out):
        raise Failed("the file system cannot be enlarged")


def _mount(*words):
    """Mount a file system, if we may; return whether it is mounted."""
    try:
        return subprocess.run(["mount", *words], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def jump_clock(case):
    """Let the clock go forwards and backwards while a run is going on, and kill the run in half of the cases."""
    clock = case.folder / "clock"
    clock.write_text("+0")
    environment = {"FAKETIME_TIMESTAMP_FILE": clock, "FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    if CLOCKS:
        environment["LD_PRELOAD"] = CLOCKS[0]
    else:
        (case.folder / "patch").mkdir()
        (case.folder / "patch/sitecustomize.py").write_text(PATCHED)
        environment["PYTHONPATH"] = f"{case.folder / 'patch'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    for _ in range(case.rng.randint(1, 2)):
        run = case.start(environment={key: str(value) for key, value in environment.items()})
        moment = time.monotonic() + 5 * case.rng.random() if case.rng.random() < 0.5 else float("inf")
        while run.poll() is None:
            aside = case.folder / "clock.new"
            aside.write_text(case.rng.choice(JUMPS))
            aside.replace(clock)
            case.hits += 1
            time.sleep(0.1)
            if time.monotonic() > moment:
                case.kill(run.pid)
                break
        case.ended(run, 0, -signal.SIGKILL)


def damage(case):
    """Damage some files of a results folder, after the end of its runs or in their middle."""
    run = case.start()
    if case.rng.random() < 0.5:
        case.until_it_runs(run)
        case.kill(run.pid) if run.poll() is None else None
    case.ended(run, 0, -signal.SIGKILL)
    files = sorted(path for path in case.out.rglob("*") if path.is_file())
    for file in case.rng.sample(files, min(len(files), case.rng.randint(1, 4))):
        _damage(case.rng, file)
        case.hits += 1
    case.ended(case.golfsim("status", case.out, "--verify"), 0, 2)


def _damage(rng, file):
    content = bytearray(file.read_bytes())
    kind = rng.choice(["flip", "flip", "truncate", "insert", "empty", "delete"])
    place = rng.randrange(len(content) or 1)
    if kind == "flip" and content:
        content[place] ^= 1 << rng.randrange(8)
    elif kind == "insert":
        content[place:place] = rng.randbytes(rng.randint(1, 50))
    elif kind in ("truncate", "empty"):
        del content[place if kind == "truncate" else 0 :]
    file.unlink() if kind == "delete" else file.write_bytes(content)


FAULTS = {
    fault.__name__: fault
    for fault in (kill_master, kill_worker, kill_both, interrupt, kill_dask_worker, full_disk, jump_clock, damage)
}
SEVERAL = {"kill_worker", "kill_both", "kill_dask_worker"}  # need more than one run
