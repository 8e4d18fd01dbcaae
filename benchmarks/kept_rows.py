"""Rows of a table that takes long: each is kept in a file when it is finished, and a later call goes on with the others."""
import hashlib
import json
import os
import sys
import time


def add_options(parser):
    parser.add_argument("--json", default="")
    parser.add_argument("--keep", default="")
    parser.add_argument("--budget", type=float, default=0)
    parser.add_argument("--only", action="append", default=[])


def wanted(rows, options):
    """Those of the rows, tuples that begin with a name, that --only names."""
    return [r for r in rows if not options.only or any(text in r[0] for text in options.only)]


def measure_rows(rows, options, tcc, final, measure, show):
    """What is known of the rows, by name, after measuring the others, and how many --budget left out.

    measure(*row[1:]) gives a row as a dictionary with its "result". One whose result is in `final` is not measured
    again, another one only with another binary `tcc`. show(name, result) tells what was measured.
    """
    with open(tcc, "rb") as binary:
        version = hashlib.sha256(binary.read()).hexdigest()[:16]
    kept = {}
    if options.keep and os.path.exists(options.keep):
        with open(options.keep, encoding="utf-8") as file:
            kept = json.load(file)
    begin = time.monotonic()
    left = 0
    for name, *row in rows:
        known = kept.get(name)
        if known and (known["result"] in final or known["tcc"] == version):
            continue
        if options.budget and time.monotonic() - begin > 60 * options.budget:
            left += 1
            continue
        kept[name] = {**measure(*row), "tcc": version}
        show(name, kept[name])
        if options.keep:
            with open(options.keep + ".new", "w", encoding="utf-8") as file:
                json.dump(kept, file, indent=1)
            os.replace(options.keep + ".new", options.keep)
    return kept, left


def finish(suite, table, left, options):
    """Says what is left, and writes the table to --json."""
    if left:
        print(f"{left} rows were not begun, --budget ended; the same call with --keep goes on")
    if not options.json:
        return
    text = json.dumps({"suite": suite, "machine": {"cores": os.cpu_count()}, "rows": table}, indent=1) + "\n"
    if options.json == "-":
        sys.stdout.write(text)
    else:
        with open(options.json, "w", encoding="utf-8") as file:
            file.write(text)
