"""What the calls of gpu_check are made of: the results file, and finding, feeding and ending programs."""

import contextlib
import glob
import json
import os
import shutil
import signal
import subprocess
import threading


class Absent(Exception):
    """This machine, or this tcc, does not have what a step needs."""


class Failed(Exception):
    """A step did not do what it should."""


class Hung(Failed):
    """A step did not end in its time."""


class OutOfTime(Exception):
    """The call's time is used up."""


class Results:
    """results.json of the output folder: {suite, machine, steps: {name: {state, seconds, reason}}, rows}."""

    def __init__(self, path, suite):
        self.path, self.lock = path, threading.Lock()
        self.document = {"suite": suite, "machine": "", "steps": {}, "rows": []}
        with contextlib.suppress(OSError, ValueError), open(path) as file:
            old = json.load(file)
            if isinstance(old, dict) and old.get("suite") == suite:
                self.document.update(old)

    def row(self, name, value, unit="", peer=None, peer_value=None):
        ratio = value / peer_value if peer and peer_value else None
        new = {"name": name, "value": value, "unit": unit, "peer": peer, "peer_value": peer_value, "ratio": ratio}
        with self.lock:
            rows = self.document["rows"]
            at = next((i for i, r in enumerate(rows) if r["name"] == name), len(rows))
            rows[at:at + 1] = [new]

    def rows(self):
        with self.lock:
            return list(self.document["rows"])

    def end_step(self, name, state, seconds, reason=""):
        with self.lock:
            self.document["steps"][name] = {"state": state, "seconds": round(seconds, 2), "reason": reason}
        self.write()

    def state(self, name):
        return self.document["steps"].get(name, {}).get("state")

    def write(self):
        with self.lock:
            text = json.dumps(self.document, indent=1) + "\n"
            with open(self.path + ".part", "w") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(self.path + ".part", self.path)


def end_group(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def library_folders(python):
    """Where NVRTC, cuBLAS, cuDNN and CUPTI are besides the loader's own folders."""
    folders = ["/usr/local/cuda/lib64", "/usr/local/cuda/extras/CUPTI/lib64"]
    code = "import site, sys; print('\\n'.join(p for p in sys.path if p.endswith('-packages')))"
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        found = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=20).stdout.split("\n")
        for site in filter(None, found):
            folders += sorted(glob.glob(os.path.join(site, "nvidia", "*", "lib")))
    return [f for f in folders if os.path.isdir(f)]


def find_tool(name):
    """A program of the CUDA Toolkit: by PATH, or where its installers put it."""
    places = [shutil.which(name), f"/usr/local/cuda/bin/{name}",
              *sorted(glob.glob(f"/opt/nvidia/nsight-compute/*/{name}"), reverse=True)]
    return next((p for p in places if p and os.access(p, os.X_OK)), None)


def feed(pipe, text):
    with contextlib.suppress(BrokenPipeError):
        pipe.write(text)
        pipe.close()


def json_or_none(line):
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def last_json(text):
    """What a command printed with --json: the whole text, or its last line that is an object."""
    whole = json_or_none(text)
    if whole is not None:
        return whole
    found = [v for v in map(json_or_none, text.split("\n")) if v is not None]
    return found[-1] if found else {}
