"""benchmarks/zoo_targets.py with a fake tcc: results, going on, the budget, the table."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks/zoo_targets.py"

# Two networks; one is wrong on the host and does not compile for h200.
TCC = """#!/usr/bin/env python3
import json, sys
if sys.argv[1] == "zoo":
    print(json.dumps({"models": [{"name": "good"}, {"name": "bad"}]}))
    sys.exit(0)
with open(sys.argv[0] + ".calls", "a") as calls:
    print(" ".join(sys.argv[1:3]), file=calls)
bad = sys.argv[2] == "zoo:bad"
if sys.argv[1] == "verify":
    print(json.dumps({"passed": not bad, "outputs": [{"max_error": 1e-6}, {"max_error": 3e-6}]}))
    sys.exit(4 if bad else 0)
if bad and "h200" in sys.argv:
    sys.exit("tcc: error: a kernel does not compile")
print(json.dumps({"kernels": [1, 2, 3]}))
"""


class ZooTargets(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.tcc = os.path.join(self.folder.name, "tcc")
        Path(self.tcc).write_text(TCC, encoding="utf-8")
        os.chmod(self.tcc, 0o755)
        self.keep = os.path.join(self.folder.name, "rows.json")

    def tearDown(self):
        self.folder.cleanup()

    def run_script(self, *words):
        return subprocess.run([sys.executable, "-B", str(SCRIPT), self.tcc, *words], capture_output=True, text=True,
                              check=False)

    def calls(self):
        path = Path(self.tcc + ".calls")
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def test_rows_have_one_of_three_results(self):
        done = self.run_script("--keep", self.keep, "--json", "-")
        self.assertEqual(done.returncode, 1, done.stderr)  # not all are right
        rows = json.loads(Path(self.keep).read_text(encoding="utf-8"))
        self.assertEqual({name: row["result"] for name, row in rows.items()},
                         {"good.host": "right", "good.a100": "right", "good.h200": "right", "bad.host": "wrong",
                          "bad.a100": "right", "bad.h200": "failed"})
        self.assertEqual(rows["good.host"]["error"], 3e-6)
        self.assertEqual(rows["good.a100"]["kernels"], 3)
        self.assertIn("does not compile", rows["bad.h200"]["why"])
        table = json.loads(done.stdout[done.stdout.index('{\n'):])
        peers = {row["name"]: row["peer"] for row in table["rows"]}
        self.assertTrue(peers["zoo.bad.host"].startswith("wrong, largest error 3e-06"), peers)
        self.assertTrue(peers["zoo.good.h200"].startswith("right, 3 kernels"), peers)

    def test_finished_rows_are_not_run_again(self):
        self.assertEqual(self.run_script("--keep", self.keep, "--target", "host", "--only", "good").returncode, 0)
        self.run_script("--keep", self.keep)
        self.assertEqual(self.calls().count("verify zoo:good"), 1)
        self.assertEqual(len(self.calls()), 6)
        # Another tcc may do more, but what was right stays so.
        with open(self.tcc, "a", encoding="utf-8") as tcc:
            tcc.write("# newer\n")
        self.run_script("--keep", self.keep)
        self.assertEqual(self.calls()[6:], ["verify zoo:bad", "build zoo:bad"])

    def test_no_row_begins_after_the_budget(self):
        done = self.run_script("--budget", "1e-12")
        self.assertEqual(self.calls(), [])
        self.assertIn("6 rows were not begun", done.stdout)


if __name__ == "__main__":
    unittest.main()
