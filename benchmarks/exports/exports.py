#!/usr/bin/env python3
"""Networks of PyTorch through both of its exporters, built by tcc and compared with ONNX Runtime.

usage: exports.py TCC PYTHON [--json FILE] [--keep FILE] [--budget MIN] [--only TEXT ...] [--form f32|f16|int8 ...]
       exports.py --list PYTHON

Each row is a network of networks.py, an exporter and a form of its numbers. PYTHON is the peers' interpreter that has
torch, torchvision, timm, transformers, onnxscript and onnxruntime (`tools/peers --exports`). A row is

  right     imported, built, and each output is within the tolerance of ONNX Runtime: 1e-4 of the output's largest
            value in f32, 1e-2 in f16, one step of 8 bits (1/127) in int8
  refused   tcc does not support something, and says so in a class of `tcc::graph::Refusal`
  wrong     outputs differ
  failed    anything else: another error, a crash, a hang
  no model  the exporter or the converter failed, or ONNX Runtime does not run what it made; the row does not count

--keep FILE has the finished rows: the same call goes on with the others. A row is measured again when tcc has changed
and the row was not right; --budget MIN begins no further row after that time.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(FOLDER))
import kept_rows  # noqa: E402

EXPORTERS = ("script", "dynamo")
TOLERANCE = {"f32": 1e-4, "f16": 1e-2, "int8": 1 / 127}
# Forms beside f32 are made of the TorchScript exports of these families' first networks.
SHORT_FORMS = {"torchvision": 8, "language": 6, "vision": 3}
EXPORT_SECONDS, VERIFY_SECONDS, MEMORY = 300, 300, 12 << 30


def limited():
    import resource
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))


def run(command, seconds):
    """Exit status (None: it took too long), standard output and error."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=seconds,
                              preexec_fn=limited, check=False)
        return done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired:
        return None, "", ""


def list_networks(python):
    status, out, err = run([python, "-B", "-c", "import networks, json; print(json.dumps("
                            "[f'{family}/{name}' for family, name, _ in networks.ROWS]))"], EXPORT_SECONDS)
    if status != 0:
        sys.exit(f"exports: error: {python} cannot list the networks: {err.strip().splitlines()[-1:]}\n"
                 "hint: tools/peers --exports makes an environment that can")
    return json.loads(out)


def rows_of(networks, forms):
    """(row name, network, exporter, form), those of one family side by side."""
    rows = []
    taken = {}
    for network in networks:
        family = network.split("/")[0]
        taken[family] = taken.get(family, 0) + 1
        for exporter in EXPORTERS:
            rows.append((network, exporter, "f32"))
        if taken[family] <= SHORT_FORMS.get(family, 0):
            rows += [(network, "script", "f16"), (network, "script", "int8")]
    return [(f"{n}.{e}.{f}", n, e, f) for n, e, f in rows if f in forms]


def refusal_class(text):
    found = re.search(r"limitation: ([a-z-]+) \(", text)
    return found[1] if found else ""


def measure(tcc, python, network, exporter, form):
    with tempfile.TemporaryDirectory(prefix="tcc-exports-") as folder:
        status, out, err = run([python, "-B", os.path.join(FOLDER, "export.py"), network, exporter, form, folder],
                               EXPORT_SECONDS)
        answer = None
        for line in reversed(out.strip().splitlines()):
            if line.startswith("{"):
                answer = json.loads(line)
                break
        if answer is None or not answer["ok"]:
            why = answer["why"] if answer else "took too long" if status is None else (err.strip() or "ended")[-300:]
            return {"result": "no model", "why": why}
        begin = time.monotonic()
        status, out, err = run([tcc, "verify", os.path.join(folder, "model.onnx"), "--against", "onnxruntime",
                                "--python", python, "--inputs", os.path.join(folder, "inputs.npz"), "--tolerance",
                                str(TOLERANCE[form]), "--json", "--quiet"], VERIFY_SECONDS)
        row = {"seconds": round(time.monotonic() - begin, 1)}
        if status is None:
            return {**row, "result": "failed", "why": "verify took too long"}
        if status == 0:
            report = json.loads(out)
            return {**row, "result": "right", "error": max(o["max_error"] for o in report["outputs"])}
        said = err.strip().replace(folder + "/", "")
        if "ONNX Runtime does not run" in said:
            return {**row, "result": "no model", "why": said[:1000]}
        kind = refusal_class(said)
        if kind:
            return {**row, "result": "refused", "class": kind, "why": said[:1000]}
        wrong = "does not compute what its model says" in said or status == 4
        return {**row, "result": "wrong" if wrong else "failed", "why": f"exit status {status}: {said[:1000]}"}


def summarize(rows, kept):
    families = {}
    for name, network, _, _ in rows:
        if name in kept:
            families.setdefault(network.split("/")[0], []).append(kept[name])
    families["all"] = [kept[name] for name, *_ in rows if name in kept]
    print(f"{'family':14} {'rows':>5} {'right':>6} {'refused':>8} {'wrong':>6} {'failed':>7} {'no model':>9} {'right %':>8}")
    table = []
    for family, results in families.items():
        count = {k: sum(r["result"] == k for r in results) for k in ("right", "refused", "wrong", "failed", "no model")}
        tried = len(results) - count["no model"]
        share = 100 * count["right"] / tried if tried else 0
        print(f"{family:14} {len(results):5} {count['right']:6} {count['refused']:8} {count['wrong']:6} "
              f"{count['failed']:7} {count['no model']:9} {share:8.1f}")
        table.append({"name": f"exports.{family}.right", "value": round(share, 2), "unit": "%",
                      "peer": f"of {tried} exports, agreeing with ONNX Runtime", "peer_value": None, "ratio": None})
        for kind in ("refused", "wrong", "failed", "no model"):
            if count[kind]:
                table.append({"name": f"exports.{family}.{kind.replace(' ', '_')}", "value": count[kind],
                              "unit": "exports", "peer": None, "peer_value": None, "ratio": None})
    return table


def main():
    parser = argparse.ArgumentParser(usage=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="+")
    kept_rows.add_options(parser)
    parser.add_argument("--form", action="append", choices=list(TOLERANCE))
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    os.environ["PYTHONPATH"] = FOLDER
    python = options.programs[-1]
    rows = rows_of(list_networks(python), options.form or list(TOLERANCE))
    rows = kept_rows.wanted(rows, options)
    if options.list:
        print("\n".join(r[0] for r in rows))
        return 0
    tcc = options.programs[0]

    def show(name, result):
        print(f"{name:56} {result['result']:9} {result.get('error', '')} {result.get('why', '').splitlines()[:1]}",
              flush=True)

    kept, left = kept_rows.measure_rows(rows, options, tcc, ("right", "no model"),
                                        lambda *row: measure(tcc, python, *row), show)
    kept_rows.finish("exports", summarize(rows, kept), left, options)
    return 1 if any(kept[r[0]]["result"] in ("wrong", "failed") for r in rows if r[0] in kept) else 0


if __name__ == "__main__":
    sys.exit(main())
