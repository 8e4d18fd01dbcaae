"""How a call of gpu_check runs its steps: programs with a limit of time, one step of the device at a time, and results that
are written after each step."""

import concurrent.futures
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time

from call_parts import Absent, Failed, Hung, OutOfTime, Results, end_group, feed, library_folders

END_SECONDS = 5  # kept at the end of a call
# Children that are killed together, but go with this process's session.
OWN_GROUP = {"process_group": 0} if sys.version_info >= (3, 11) else {"start_new_session": True}


class Step:
    def __init__(self, name, run, seconds, after=(), device=True):
        self.name, self.run, self.seconds, self.after, self.device = name, run, seconds, tuple(after), device


class StepRunner:
    """Runs the steps of a call and keeps what they found. An error ends its step only. first_words() of a subclass: the
    program that says whether the device is usable."""

    def __init__(self, options):
        self.options, self.start = options, time.monotonic()
        self.small = options.dry_run
        os.makedirs(options.out, exist_ok=True)
        self.results = Results(os.path.join(options.out, "results.json"),
                               "gpu_check.calls.dry_run" if self.small else "gpu_check.calls")
        self.log_file = open(os.path.join(options.out, "log.txt"), "a")
        self.log_lock = threading.Lock()
        self.processes, self.libraries = set(), {}
        self.limits = dict(options.limit)
        self.scratch = tempfile.mkdtemp(prefix="gpu_check.")
        self.cores = max((os.cpu_count() or 2) - 1, 1)
        self.environment = dict(os.environ)
        folders = library_folders(options.python)
        if self.small:  # the fake driver is found as the system's
            folders.insert(0, os.path.dirname(os.path.abspath(options.driver)))
            self.environment.setdefault("FAKE_CUDA", "arch=90")
            self.environment["XDG_CACHE_HOME"] = os.path.join(self.scratch, "cache")
        old = self.environment.get("LD_LIBRARY_PATH")
        self.environment["LD_LIBRARY_PATH"] = ":".join(folders + ([old] if old else []))
        self.environment["PYTHONDONTWRITEBYTECODE"] = "1"

    def seconds_left(self):
        return self.options.minutes * 60 - END_SECONDS - (time.monotonic() - self.start)

    def program(self, name):
        for folder in (self.options.programs, os.path.join(self.options.programs, "..", "tests")):
            if os.access(os.path.join(folder, name), os.X_OK):
                return os.path.join(folder, name)
        raise Absent(f"{name} is not in {self.options.programs}")

    def path(self, *parts):
        path = os.path.join(self.scratch, *parts)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def log(self, text):
        with self.log_lock:
            self.log_file.write(text if text.endswith("\n") else text + "\n")
            self.log_file.flush()

    def child(self, words, seconds, good=(0,), stdin=None, on_line=None):
        """Runs a program in a process group of its own; its standard output. Its lines go to on_line as they come."""
        limit = min(seconds, self.seconds_left())
        if limit <= 1:
            raise OutOfTime()
        self.log(f"$ {' '.join(words)}")
        errors = tempfile.TemporaryFile("w+")
        process = subprocess.Popen(words, stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=errors, text=True, env=self.environment,
                                   cwd=self.scratch, **OWN_GROUP)
        self.processes.add(process)
        timed_out = threading.Event()
        timer = threading.Timer(limit, lambda: (timed_out.set(), end_group(process)))
        timer.start()
        lines = []
        try:
            if stdin is not None:
                feeder = threading.Thread(target=feed, args=(process.stdin, stdin), daemon=True)
                feeder.start()
            for line in process.stdout:
                lines.append(line)
                if on_line is not None:
                    on_line(line)
            process.wait()
        finally:
            timer.cancel()
            end_group(process)
            self.processes.discard(process)
            errors.seek(0)
            said = errors.read()
            self.log("".join(lines[-200:]) + said[-20000:] + f"-> {process.returncode}")
        if timed_out.is_set():
            if limit < seconds:
                raise OutOfTime()
            raise Hung(f"{os.path.basename(words[0])} did not end in {limit:.0f} s")
        if process.returncode not in good:
            last = [line.strip() for line in said.strip().split("\n") if line.strip()][-3:]
            raise Failed(f"{os.path.basename(words[0])} ended with {process.returncode}: {' | '.join(last)[:500]}")
        return "".join(lines)

    # --- running the steps ---------------------------------------------------------------------------------------------

    def wanted(self, steps):
        """Those to do. What a host step builds is gone with its call: it is done again for steps that need it."""
        only, again = self.options.only, self.options.again
        todo = {s.name for s in steps if (again or self.results.state(s.name) != "done") and
                (not only or s.name in only)}
        needed = {a for s in steps if s.name in todo for a in s.after}
        return [s for s in steps if s.name in todo or (not s.device and s.name in needed)]

    def perform(self, step):
        begin = time.monotonic()
        state, reason, late = "done", "", ("late", "the call's time was used up")
        if self.seconds_left() <= 1:
            state, reason = late
        else:
            print(f"== {step.name}", flush=True)
            step.seconds = self.limits.get(step.name, step.seconds)
            try:
                step.run(step)
            except Absent as error:
                state, reason = "absent", str(error)
            except OutOfTime:
                state, reason = late
            except Hung as error:
                state, reason = "hung", str(error)
            except Failed as error:
                state, reason = "failed", str(error)
            except Exception as error:  # an error of this script ends its step only
                state, reason = "failed", f"{type(error).__name__}: {error}"
        seconds = time.monotonic() - begin
        self.results.end_step(step.name, state, seconds, reason)
        print(f"-- {step.name}: {state} after {seconds:.1f} s{': ' + reason if reason else ''}", flush=True)

    def ready(self):
        """Says once what no step can do without: a device, a driver, a compiler that knows it, the programs."""
        try:
            _ = self.program("tcc"), self.program("tcc-worker")
            self.child(self.first_words(), 60)
            return True
        except (Absent, Failed, OutOfTime) as error:
            print(f"gpu_check: error: {error}", file=sys.stderr)
            return False

    def run(self, steps):
        """Device steps in order, one at a time; host steps beside them. A step whose predecessors ended begins."""
        todo = self.wanted(steps)
        names = {s.name for s in todo}
        pending = {s.name: {a for a in s.after if a in names} for s in todo}
        waiting, running = {s.name: s for s in todo}, {}
        with concurrent.futures.ThreadPoolExecutor(max_workers=4) as pool:
            while waiting or running:
                for step in list(waiting.values()):
                    device_busy = any(s.device for s in running.values())
                    if pending[step.name] or (step.device and device_busy):
                        continue
                    del waiting[step.name]
                    running[pool.submit(self.perform, step)] = step
                finished, _ = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
                for future in finished:
                    ended = running.pop(future).name
                    for names_left in pending.values():
                        names_left.discard(ended)
        states = {s.name: self.results.state(s.name) for s in steps}
        print("gpu_check: " + ", ".join(f"{n} {state}" for n, state in states.items()))
        print(f"gpu_check: results in {self.results.path}, after {time.monotonic() - self.start:.0f} s")
        if any(state in ("failed", "hung") for state in states.values()):
            return 1
        return 3 if "late" in states.values() else 0

    def stop(self, number, _):
        for process in list(self.processes):
            end_group(process)
        self.clean()
        os._exit(128 + number)

    def clean(self):
        shutil.rmtree(self.scratch, ignore_errors=True)
