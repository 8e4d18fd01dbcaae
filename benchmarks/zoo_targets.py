#!/usr/bin/env python3
"""Every network of the zoo at its published size: verified on the host, compiled for GPUs.

usage: zoo_targets.py TCC [--json FILE] [--keep FILE] [--budget MIN] [--only TEXT ...] [--target NAME ...]

A row is a network and a target: host and, where NVRTC is, a100 and h200. On the host it is `tcc verify zoo:NAME`, for
a GPU `tcc build zoo:NAME --target T`, both without records. A row is

  right     host: the outputs are those of the reference in double. GPU: every kernel is lowered and compiled
  wrong     outputs differ
  failed    anything else: an error, a crash, more than SECONDS

--keep FILE has the finished rows: the same call goes on with the others. A row is measured again when tcc has changed
and the row was not right; --budget MIN begins no further row after that time.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import kept_rows

TARGETS = ("host", "a100", "h200")
SECONDS = 1800
# Options of networks that are published for another size than the zoo's default.
SIZES = {"inception_v3": ["--image", "299"]}


def run(command):
    """Exit status (None: it took too long), standard output and error, and what it took."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        begin = time.monotonic()
        with subprocess.Popen(command, stdout=out, stderr=err, text=True) as process:
            status = None
            while status is None and time.monotonic() - begin < SECONDS:
                pid, code, usage = os.wait4(process.pid, os.WNOHANG)
                if pid:
                    status = process.returncode = os.waitstatus_to_exitcode(code)
                else:
                    time.sleep(0.02)
            if status is None:
                process.kill()
                _, _, usage = os.wait4(process.pid, 0)
                process.returncode = -9
        out.seek(0)
        err.seek(0)
        took = {"seconds": round(time.monotonic() - begin, 1),
                "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 1), "megabytes": round(usage.ru_maxrss / 1024)}
        return status, out.read(), err.read(), took


def measure(tcc, network, target):
    with tempfile.TemporaryDirectory(prefix="tcc-zoo-") as folder:
        common = [f"zoo:{network}", "--json", "--quiet", *SIZES.get(network, [])]
        build = [tcc, "build", *common, "--target", target, "-o", os.path.join(folder, "out")]
        status, out, err, row = run([tcc, "verify", *common] if target == "host" else build)
    if status is None:
        return {**row, "result": "failed", "why": f"took more than {SECONDS} s"}
    try:
        report = json.loads(out)
    except ValueError:
        report = {}
    if target == "host" and "outputs" in report:
        row["error"] = max(o["max_error"] for o in report["outputs"])
    if target != "host":
        row["kernels"] = len(report.get("kernels", []))
    if status == 0:
        return {**row, "result": "right"}
    wrong = report.get("passed") is False
    return {**row, "result": "wrong" if wrong else "failed", "why": f"exit status {status}: {err.strip()[:1000]}"}


def summarize(rows, kept):
    """The rows of --json, and a table of the targets."""
    table = []
    print(f"{'target':8} {'networks':>9} {'right':>6} {'wrong':>6} {'failed':>7} {'CPU s':>9} {'slowest':>9}")
    for target in TARGETS:
        done = [(network, kept[name]) for name, network, t in rows if t == target and name in kept]
        if not done:
            continue
        count = {k: sum(r["result"] == k for _, r in done) for k in ("right", "wrong", "failed")}
        seconds = [r["cpu_seconds"] for _, r in done]
        print(f"{target:8} {len(done):9} {count['right']:6} {count['wrong']:6} {count['failed']:7} "
              f"{sum(seconds):9.1f} {max(seconds):9.1f}")
        for network, result in done:
            what = f"{result['kernels']} kernels" if "kernels" in result else "largest error " + \
                f"{result['error']:.2g}" if "error" in result else ""
            table.append({"name": f"zoo.{network}.{target}", "value": result["cpu_seconds"], "unit": "CPU s",
                          "peer": f"{result['result']}, {what}, {result['megabytes']} MB", "peer_value": None,
                          "ratio": None})
    return table


def main():
    parser = argparse.ArgumentParser(usage=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tcc")
    kept_rows.add_options(parser)
    parser.add_argument("--target", action="append", choices=TARGETS)
    options = parser.parse_args()
    # Without the user's records.
    with tempfile.TemporaryDirectory(prefix="tcc-zoo-data-") as data:
        os.environ["XDG_DATA_HOME"] = data
        return measure_all(options)


def measure_all(options):
    listed = json.loads(subprocess.run([options.tcc, "zoo", "--json"], capture_output=True, check=True).stdout)
    rows = [(f"{m['name']}.{t}", m["name"], t) for m in listed["models"] for t in options.target or TARGETS]
    rows = kept_rows.wanted(rows, options)
    kept, left = kept_rows.measure_rows(rows, options, options.tcc, ("right",),
                                        lambda network, target: measure(options.tcc, network, target),
                                        lambda name, result: print(f"{name:32} {result}", flush=True))
    kept_rows.finish("zoo", summarize(rows, kept), left, options)
    return 1 if any(kept[r[0]]["result"] != "right" for r in rows if r[0] in kept) else 0


if __name__ == "__main__":
    sys.exit(main())
