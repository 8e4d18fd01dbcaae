#!/usr/bin/env python3
"""Kernels that fault or hang end their own step of gpu_check, and the steps behind them run.

Usage: gpu_check_test.py PROGRAM DRIVER FOLDER: tcc-gpu-check, the fake CUDA driver that runs kernels, and a folder to
write to.
"""

import json
import os
import subprocess
import sys
import unittest

PROGRAM, DRIVER, FOLDER = sys.argv[1:4]


def check(name, settings, *words):
    """Runs gpu_check with the fake driver; its exit status, rows by name and what it said."""
    out = os.path.join(FOLDER, name + ".json")
    ended = subprocess.run([PROGRAM, "--driver", DRIVER, "--out", out, *words], capture_output=True, text=True,
                           env={**os.environ, "FAKE_CUDA": "arch=90," + settings}, timeout=300)
    with open(out) as file:
        rows = {r["name"]: r["value"] for r in json.load(file)["rows"]}
    return ended.returncode, rows, ended.stdout + ended.stderr


class Isolation(unittest.TestCase):
    def test_a_fault_and_a_hang_end_their_own_steps(self):
        code, rows, text = check("faults", "crash=elementwise:700,hang=gemm", "--limit", "gemm=12",
                                 "--from", "elementwise", "--to", "memory-bound")
        self.assertEqual(code, 1, text)
        self.assertEqual(rows.get("step.elementwise.lost"), 700, text)
        self.assertGreaterEqual(rows.get("step.gemm.hung", 0), 12, text)
        self.assertLess(rows["step.gemm.hung"], 60, text)
        for step in ("products", "memory-bound"):
            self.assertEqual(rows.get(f"step.{step}.failures"), 0, text)
            self.assertGreater(rows.get(f"step.{step}.checks", 0), 0, text)

    def test_the_rows_of_a_step_that_was_mended_are_its_new_ones(self):
        _, rows, text = check("mended", "crash=elementwise:719", "--from", "elementwise", "--to", "elementwise")
        self.assertEqual(rows.get("step.elementwise.lost"), 719, text)
        code, rows, text = check("mended", "devices=1", "--from", "elementwise", "--to", "elementwise")
        self.assertEqual(code, 0, text)
        self.assertNotIn("step.elementwise.lost", rows)
        self.assertEqual(rows.get("step.elementwise.failures"), 0, text)

    def test_what_no_step_can_do_without_is_said_once(self):
        for words, said in ((["--nvrtc", "/nonexistent/libnvrtc.so"], "NVRTC is not available"),
                            (["--driver", "/nonexistent/libcuda.so"], "no gpu test ran")):
            ended = subprocess.run([PROGRAM, "--driver", DRIVER, "--out", os.path.join(FOLDER, "none.json"), *words],
                                   capture_output=True, text=True, timeout=60)
            self.assertEqual(ended.returncode, 1, ended.stderr)
            self.assertEqual(ended.stderr.count(said), 1, ended.stderr)
            self.assertNotIn("== copy-rate", ended.stdout)

    def test_memory_that_runs_out_is_a_failure_of_its_own_step(self):
        code, rows, text = check("memory", "memory=4096", "--from", "elementwise", "--to", "memory-bound")
        self.assertEqual(code, 1, text)
        self.assertIn("step.memory-bound.seconds", rows, text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
