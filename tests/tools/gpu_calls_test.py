#!/usr/bin/env python3
"""The calls of gpu_check on the fake device: steps end by themselves, calls go on where they stopped.

Usage: gpu_calls_test.py PROGRAMS DRIVER FOLDER: the folder of tcc and tcc-gpu-check, the fake CUDA driver that runs
kernels, and a folder to write to.
"""

import json
import os
import shutil
import subprocess
import sys
import unittest

PROGRAMS, DRIVER, FOLDER = sys.argv[1:4]
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "gpu", "calls.py")


def call(number, out, settings, *words):
    """Runs a call; its exit status, results and what it printed."""
    out = os.path.join(FOLDER, out)
    ended = subprocess.run([sys.executable, "-B", SCRIPT, "--call", str(number), "--dry-run", "--driver", DRIVER,
                            "--programs", PROGRAMS, "--out", out, *words], capture_output=True, text=True,
                           env={**os.environ, "FAKE_CUDA": settings}, timeout=550)
    results = {"steps": {}, "rows": []}
    if os.path.exists(os.path.join(out, "results.json")):
        with open(os.path.join(out, "results.json")) as file:
            results = json.load(file)
    return ended.returncode, results, ended.stdout + ended.stderr


def states(results):
    return {name: step["state"] for name, step in results["steps"].items()}


class Calls(unittest.TestCase):
    def setUp(self):
        self.folder = "calls." + self._testMethodName
        shutil.rmtree(os.path.join(FOLDER, self.folder), ignore_errors=True)

    def test_a_hang_and_a_fault_end_their_own_steps_and_the_next_call_repeats_only_these(self):
        chosen = ["1.copy-rate", "1.probes", "1.products", "1.calibration", "1.elementwise", "1.memory-bound"]
        words = [w for name in chosen for w in ("--only", name)]
        code, results, text = call(1, self.folder, "arch=90,hang=products,crash=elementwise:700", *words,
                                   "--limit", "1.products=15")
        self.assertEqual(code, 1, text)
        self.assertEqual(states(results), {"1.copy-rate": "done", "1.probes": "done", "1.products": "hung",
                                           "1.calibration": "done", "1.elementwise": "failed",
                                           "1.memory-bound": "done"}, text)
        self.assertIn("did not end in 15 s", results["steps"]["1.products"]["reason"])
        rows = {r["name"]: r["value"] for r in results["rows"]}
        self.assertIn("copy", rows, text)
        self.assertEqual(rows.get("probe.clusters.4"), 26, text)  # of the fake device
        self.assertIn("probe.fence.membar.gl", rows, text)
        for name in ("copy_share", "l2_bytes_per_cycle", "special_per_cycle", "launch_seconds"):
            self.assertGreater(rows.get(f"calibration.{name}", 0), 0, text)
        code, results, text = call(1, self.folder, "arch=90", *words)
        self.assertEqual(code, 0, text)
        self.assertEqual(set(states(results).values()), {"done"}, text)
        began = [line[3:] for line in text.split("\n") if line.startswith("== ")]
        self.assertEqual(began, ["1.products", "1.elementwise"], text)
        self.assertIn("gemm.4096x4096x4096.f16", [r["name"] for r in results["rows"]], text)

    def test_a_pool_is_collected_and_a_cost_model_learns_from_it(self):
        code, results, text = call(7, self.folder, "arch=90")
        self.assertEqual(states(results), {"7.learn.mlp": "absent"}, text)
        code, results, text = call(6, self.folder, "arch=90")
        self.assertEqual((code, states(results).get("6.collect")), (0, "done"), text)
        code, results, text = call(7, self.folder, "arch=90", "--again")
        self.assertEqual((code, states(results).get("7.learn.mlp")), (0, "done"), text)
        rows = {r["name"]: r["value"] for r in results["rows"]}
        self.assertEqual(rows.get("collect.programs"), 24, text)  # three tasks
        self.assertGreater(rows.get("learn.mlp.samples", 0), 0, text)
        self.assertGreater(rows.get("learn.mlp.top1", 0), 0, text)

    def test_strategies_search_with_equal_trials_beside_what_is_built_without_records(self):
        code, results, text = call(8, self.folder, "arch=90")
        self.assertEqual(code, 0, text)
        ended = states(results)
        self.assertEqual([ended.get(f"8.strategies.mlp.{n}") for n in ("effort0", "evolutionary")], ["done"] * 2, text)
        self.assertIn(ended.get("8.strategies.mlp.moa-pruner"), ("done", "absent"), text)
        # Simulated times are not compared with the fake driver's.
        self.assertEqual(ended.get("8.strategies.mlp"), "absent", text)
        rows = {r["name"]: r["value"] for r in results["rows"]}
        self.assertGreater(rows["strategies.mlp.effort0.device"], 0, text)
        self.assertEqual(rows["strategies.mlp.evolutionary.trials"], 16, text)
        self.assertGreater(rows["strategies.mlp.evolutionary.kernels"], 0, text)

    def test_a_network_is_tuned_built_and_timed(self):
        names = [f"3.{what}.mlp.f32" for what in ("tune", "build", "bench", "peers")]
        code, results, text = call(3, self.folder, "arch=90", *[w for name in names for w in ("--only", name)])
        self.assertEqual(code, 0, text)
        ended = states(results)
        self.assertEqual([ended.get(n) for n in names[:3]], ["done"] * 3, text)
        self.assertIn(ended.get(names[3]), ("done", "absent"), text)
        rows = {r["name"]: r["value"] for r in results["rows"]}
        self.assertGreater(rows["tune.mlp.f32.measured"], 0, text)
        self.assertEqual(rows["tune.mlp.f32.wrong"], 0, text)
        self.assertGreater(rows["model.mlp.f32.device_warm"], 0, text)

    def test_libraries_take_turns_with_a_peer_which_may_end_at_any_case(self):
        # The fake PyTorch computes nothing: what is tested is that the libraries run in its process, on its tensors.
        os.environ.update(PYTHONPATH=os.path.join(os.path.dirname(os.path.abspath(__file__)), "fake_torch"),
                          TORCH_PEER_DEVICE="cpu", FAKE_TORCH_ENDS="softmax")
        code, results, text = call(2, self.folder, "arch=90", "--only", "2.peers.f16")
        for name in ("PYTHONPATH", "TORCH_PEER_DEVICE", "FAKE_TORCH_ENDS"):
            del os.environ[name]
        self.assertEqual(code, 1, text)
        self.assertEqual(states(results), {"2.build.f16": "done", "2.peers.f16": "failed"}, text)
        reason = results["steps"]["2.peers.f16"]["reason"]
        self.assertRegex(reason, r"^op\.softmax[^;]*: it ended the process$")
        rows = {r["name"]: r for r in results["rows"]}
        for name in ("gemm.4096.f16", "embedding.16384x1024.f16", "max_pool.32x64x112.f16"):
            row = rows[f"op.{name}.eager"]
            self.assertEqual(row["peer"], "torch eager")
            self.assertGreater(row["value"], 0)
            self.assertGreater(row["peer_value"], 0)

    def test_counters_are_skipped_with_a_reason_where_they_are_absent(self):
        code, results, text = call(4, self.folder, "arch=90")
        self.assertEqual(code, 0, text)
        reasons = [s["reason"] for name, s in results["steps"].items() if name.startswith("4.ncu.")]
        self.assertEqual(len(reasons), 2, text)
        for reason in reasons:
            self.assertRegex(reason, "not installed|needs a device")

    def test_without_a_device_nothing_begins(self):
        code, results, text = call(2, self.folder, "devices=0")
        self.assertEqual(code, 1, text)
        self.assertEqual(results["steps"], {}, text)
        self.assertEqual(text.count("gpu_check: error"), 1, text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
