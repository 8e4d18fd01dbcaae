"""benchmarks/exports/exports.py with a fake exporter and a fake tcc: results, classes, going on, the budget, the table."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks/exports/exports.py"

# Lists three networks; the export of the last one fails.
PYTHON = """#!/usr/bin/env python3
import json, sys
if "-c" in sys.argv:
    print(json.dumps(["vision/right", "vision/refused", "speech/wrong", "speech/none"]))
elif sys.argv[-4].endswith("none"):
    print(json.dumps({"ok": False, "why": "TypeError: no"}))
else:
    open(sys.argv[-1] + "/model.onnx", "w").write(sys.argv[-4])
    print("a warning")
    print(json.dumps({"ok": True}))
"""
TCC = """#!/usr/bin/env python3
import json, sys
name = open(sys.argv[2]).read()
with open(sys.argv[0] + ".calls", "a") as calls:
    print(name, file=calls)
if name.endswith("right"):
    print(json.dumps({"outputs": [{"max_error": 1e-6}, {"max_error": 2e-6}]}))
elif name.endswith("refused"):
    sys.exit("tcc: error: a node\\n  limitation: run-time-shape (shapes must be known)")
else:
    sys.exit("tcc: error: m does not compute what its model says")
"""


class Exports(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        for name, text in (("python", PYTHON), ("tcc", TCC)):
            path = os.path.join(self.folder.name, name)
            Path(path).write_text(text, encoding="utf-8")
            os.chmod(path, 0o755)
        self.keep = os.path.join(self.folder.name, "rows.json")

    def tearDown(self):
        self.folder.cleanup()

    def run_script(self, *words):
        return subprocess.run([sys.executable, "-B", str(SCRIPT), self.folder.name + "/tcc", self.folder.name + "/python",
                               *words], capture_output=True, text=True, check=False)

    def calls(self):
        path = Path(self.folder.name + "/tcc.calls")
        return path.read_text(encoding="utf-8").split() if path.exists() else []

    def test_rows_have_one_of_five_results(self):
        done = self.run_script("--keep", self.keep, "--form", "f32", "--json", "-")
        self.assertEqual(done.returncode, 1, done.stderr)  # something is wrong
        rows = json.loads(Path(self.keep).read_text(encoding="utf-8"))
        self.assertEqual(len(rows), 8)
        self.assertEqual(rows["vision/right.script.f32"]["result"], "right")
        self.assertEqual(rows["vision/right.script.f32"]["error"], 2e-6)
        self.assertEqual(rows["vision/refused.dynamo.f32"]["class"], "run-time-shape")
        self.assertEqual(rows["speech/wrong.dynamo.f32"]["result"], "wrong")
        self.assertEqual(rows["speech/none.script.f32"]["result"], "no model")
        table = json.loads(done.stdout[done.stdout.index('{\n'):])
        values = {row["name"]: row["value"] for row in table["rows"]}
        self.assertEqual(values["exports.vision.right"], 50)
        self.assertEqual(values["exports.speech.wrong"], 2)
        self.assertEqual(values["exports.all.right"], 33.33)

    def test_finished_rows_are_not_run_again(self):
        self.run_script("--keep", self.keep, "--form", "f32", "--only", "vision/")
        self.assertEqual(len(self.calls()), 4)
        self.run_script("--keep", self.keep, "--form", "f32", "--only", "vision/")
        self.assertEqual(len(self.calls()), 4)
        # Another tcc may do more, but what was right stays so.
        with open(self.folder.name + "/tcc", "a", encoding="utf-8") as tcc:
            tcc.write("# newer\n")
        self.run_script("--keep", self.keep, "--form", "f32", "--only", "vision/")
        self.assertEqual(self.calls()[4:], ["vision/refused", "vision/refused"])

    def test_no_row_begins_after_the_budget(self):
        done = self.run_script("--form", "f32", "--budget", "1e-12")
        self.assertEqual(self.calls(), [])
        self.assertIn("8 rows were not begun", done.stdout)


if __name__ == "__main__":
    unittest.main()
