"""Real Dask schedulers and workers, in processes of their own."""

import os
import re
import subprocess
import sys

import distributed


class Processes:
    """A scheduler and its workers; all of them end with the test."""

    def __init__(self, folder):
        self._folder, self._started = folder, []

    def start(self, *words, **environment):
        process = subprocess.Popen(
            [sys.executable, "-m", "distributed.cli." + words[0], *words[1:]],
            stderr=subprocess.PIPE, text=True, cwd=self._folder,
            env=os.environ | {"DASK_DISTRIBUTED__WORKER__DAEMON": "False"} | environment,
        )  # fmt: skip
        self._started.append(process)
        return process

    def scheduler(self, *words, **environment):
        self.process = self.start(
            "dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", *words, **environment
        )
        lines = (re.search(r"Scheduler at:\s+(\S+)", line) for line in self.process.stderr)
        self.address = next(found[1] for found in lines if found)
        return self.address

    def worker(self, *words, **environment):
        return self.start(
            "dask_worker", self.address, "--nthreads", "1", "--no-nanny", "--no-dashboard", *words, **environment
        )

    def wait_for(self, workers, **options):
        with distributed.Client(self.address, **options) as client:
            client.wait_for_workers(workers, timeout=60)

    def end(self):
        for process in self._started:
            process.kill()
            process.wait()
            process.stderr.close()
