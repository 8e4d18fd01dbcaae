#!/usr/bin/env python3
"""Two promises of `tcc tune`, measured: the remaining time that it announces, and the latency that it reports.

usage: tune_estimates.py TCC [--runs N] [--time T] [--only left|latency] [--out FILE] MODEL...

left     N runs of each model with --time T. At the first progress event after a third of the command's wall time:
         remaining_seconds over the wall time from there to the end of the command.
latency  each model is tuned once, built from the records, and timed by `tcc bench` in a process of its own: the
         latency of tune's summary over the median of bench.

Prints a row a measurement and, with --out, writes them as JSON. The machine should be quiet.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time


def tune(tcc, model, limit, folder):
    """The events of a run with the wall time at which each came, and the run's wall time."""
    command = [tcc, "tune", model, "--time", limit, "--db", os.path.join(folder, "records.db"), "--json", "-q"]
    begin = time.monotonic()
    events = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            events.append((time.monotonic() - begin, json.loads(line)))
    if process.returncode not in (0, 5, 6):
        sys.exit(f"{' '.join(command)}: exit status {process.returncode}")
    return events, time.monotonic() - begin


def left_row(model, events, wall):
    """The remaining time that was announced after a third of the wall time, over the real one."""
    for at, event in events:
        if at < wall / 3 or event.get("remaining_seconds") is None:
            continue
        said, real = event["remaining_seconds"], wall - at
        return {"measures": "left", "model": model, "wall": wall, "at": at, "said": said, "real": real,
                "ratio": said / real}
    sys.exit(f"{model}: no event after a third of {wall:.1f} s says what is left")


def latency_row(tcc, model, events, folder, seconds):
    """The summary's latency beside that of `tcc bench`."""
    summary = events[-1][1]
    out = os.path.join(folder, "out")
    subprocess.run([tcc, "build", model, "--db", os.path.join(folder, "records.db"), "-o", out, "-q"], check=True,
                   stdout=subprocess.DEVNULL)
    library = next(os.path.join(out, name) for name in os.listdir(out) if name.endswith(".so"))
    answer = subprocess.run([tcc, "bench", library, "--seconds", str(seconds), "--json", "-q"], check=True,
                            stdout=subprocess.PIPE, text=True)
    said, real = summary["latency"]["after_seconds"], json.loads(answer.stdout)["seconds"]["median"]
    return {"measures": "latency", "model": model, "said": said, "real": real, "ratio": said / real}


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("tcc")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--time", default="1m")
    parser.add_argument("--bench-seconds", type=float, default=5)
    parser.add_argument("--only", choices=["left", "latency"])
    parser.add_argument("--out")
    a = parser.parse_args()
    rows = []
    for model in a.models:
        for run in range(a.runs if a.only != "latency" else 1):
            with tempfile.TemporaryDirectory() as folder:
                events, wall = tune(a.tcc, model, a.time, folder)
                if a.only != "latency":
                    rows.append(left_row(model, events, wall))
                if a.only != "left" and run == 0:
                    rows.append(latency_row(a.tcc, model, events, folder, a.bench_seconds))
            for row in rows[-2:] if a.only is None and run == 0 else rows[-1:]:
                print(" ".join(f"{name} {value:.4g}" if isinstance(value, float) else str(value)
                               for name, value in row.items()), flush=True)
            if a.out:
                with open(a.out, "w", encoding="utf-8") as file:
                    json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
