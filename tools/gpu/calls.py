#!/usr/bin/env python3
"""What gpu_check does with an hour of a GPU: eight calls of at most 9.5 minutes, each a list of steps.

Each step is a process of its own with a limit of time. The steps of one device run one after the other; steps that only
need the host's cores (building libraries) run beside them. The results are written after each step, and a step that is
done is not repeated by the next call with the same folder.

Exit status: 0 all steps are done, 1 a step failed, 2 usage, 3 out of time with valid results.
"""

import argparse
import concurrent.futures
import contextlib
import json
import os
import signal
import sys
import time

import operator_list
from call_parts import Absent, Failed, find_tool, json_or_none, last_json
from step_runner import Step, StepRunner

HERE = os.path.dirname(os.path.abspath(__file__))
MOST_MINUTES = 9.5
SMALL_SECONDS = 8  # of tuning, in a dry run
TYPES = ("f16", "bf16", "f32")
# Whole networks: (zoo's name, its flags, inputs as PyTorch takes them, its call). Precisions besides f32 need a tcc
# that has --precision.
NETWORKS = [
    ("resnet50", ["--batch", "32"], [["x", "{p}", [32, 3, 224, 224], "random"]], "network('resnet50', '{p}')(x[0])"),
    ("bert-base", ["--batch", "8"], [["ids", "i64", [8, 128], "below:30522"]],
     "network('bert-base', '{p}')(x[0]).last_hidden_state"),
    ("mobilenet_v2", [], [["x", "{p}", [1, 3, 224, 224], "random"]], "network('mobilenet_v2', '{p}')(x[0])"),
]
PRECISIONS = ("f16", "f32")
NCU_SECTIONS = ("SpeedOfLight", "MemoryWorkloadAnalysis", "Occupancy", "WarpStateStats", "ComputeWorkloadAnalysis")
WORST = 15  # operators that ncu looks at
# Programs of these networks' tasks are collected, and these cost models learn from them.
COLLECTED = ("zoo:resnet50", "zoo:mobilenet_v2", "zoo:bert-base", "zoo:bert-tiny", "zoo:resnet18")
COST_MODELS = ("mlp", "pacm", "mamba")
# Strategies that are compared with what is built without records, with equal trials, on these networks.
STRATEGIES = ("evolutionary", "moa-pruner")
COMPARED = (("resnet50", ["--batch", "32"]), ("bert-base", ["--batch", "8"]))
STRATEGY_TRIALS = 500
SANITIZER_TOOLS = ("memcheck", "racecheck")


class Call(StepRunner):
    # --- call 1: the device ----------------------------------------------------------------------------------------------

    def first_words(self):
        return self.check_words("device-facts")

    def check_words(self, step):
        return [self.program("tcc-gpu-check"), "--only", step, "--out", self.path("check.json"), "--minutes",
                str(max(self.seconds_left(), 1) / 60)]

    def take_check_rows(self):
        with contextlib.suppress(OSError, ValueError), open(self.path("check.json")) as file:
            document = json.load(file)
            self.results.document["machine"] = document["machine"]
            for r in document["rows"]:
                self.results.row(r["name"], r["value"], r["unit"], r["peer"], r["peer_value"])

    def check(self, name, before=()):
        def run(step):
            try:
                self.child([*before, *self.check_words(name)], step.seconds, good=(0,))
            finally:
                self.take_check_rows()
        return run

    def facts(self, step):
        query = "name,driver_version,memory.total,clocks.max.sm,clocks.max.memory,power.limit,temperature.gpu"
        with contextlib.suppress(OSError, Failed):
            self.child(["nvidia-smi", f"--query-gpu={query}", "--format=csv"], 30)
        self.results.row("host.cores", os.cpu_count() or 0)
        for tool in ("ncu", "compute-sanitizer", "nvcc"):
            self.results.row(f"has.{tool}", int(find_tool(tool) is not None))
        self.check("device-facts")(step)

    def calibrate(self, step):
        """The numbers of the analytical model; later calls on this machine rank by them."""
        report = last_json(self.child([self.program("tcc"), "targets", "cuda", "--calibrate", "--json"], step.seconds))
        for name, value in report.get("model", {}).items():
            self.results.row(f"calibration.{name}", value)
        with open(os.path.join(self.options.out, "calibration.json"), "w") as file:
            json.dump(report, file, indent=1)

    def gpu_tests(self, step):
        if self.small:
            raise Absent("its test cases need a device")
        self.child([self.program("tcc-gpu-tests"), "[gpu]"], step.seconds)

    def sanitizer(self, tool):
        def run(step):
            program = find_tool("compute-sanitizer")
            if program is None or self.small:
                raise Absent("compute-sanitizer is not installed" if program is None else "it needs a device")
            self.check("sanitizer", [program, "--tool", tool, "--error-exitcode", "9"])(step)
        return run

    def call_1(self):
        checks = [("copy-rate", 30), ("probes", 90), ("conformance", 90), ("products", 180), ("correctness", 60)]
        return [Step("facts", self.facts, 60), *[Step(n, self.check(n), s) for n, s in checks],
                Step("calibration", self.calibrate, 90), Step("gpu-tests", self.gpu_tests, 90),
                *[Step(f"sanitizer.{t}", self.sanitizer(t), 60) for t in SANITIZER_TOOLS],
                *[Step(n, self.check(n), 60) for n in ("elementwise", "gemm", "memory-bound")]]

    # --- tuning and building -----------------------------------------------------------------------------------------------

    def target_words(self):
        """The device as a file: commands that only build need not open it."""
        path = self.path("cuda.json")
        if not os.path.exists(path):
            text = self.child([self.program("tcc"), "targets", "cuda", "--json"], 60)
            with open(path, "w") as file:
                file.write(text)
        return ["--target-file", path]

    def tune(self, name, model, tasks, trials, seconds, database, more=()):
        words = [self.program("tcc"), "tune", *model, "--target", "cuda", "--trials-per-task", str(trials), "--trials",
                 str(trials * tasks), "--time", f"{max(int(seconds), 1)}s", "--task-scheduler", "round-robin", "--db",
                 os.path.join(self.options.out, database), "--json", "-q", *more]
        # tcc looks at its clock between programs, and comparing the finalists comes behind it.
        text = self.child(words, seconds * 1.2 + 45, good=(0, 3))
        report = last_json(text)
        counts = report.get("counts", {})
        self.results.row(f"tune.{name}.trials", report.get("trials", 0), "programs")
        for what in ("measured", "wrong", "crashed", "hung", "compile_failed"):
            self.results.row(f"tune.{name}.{what}", counts.get(what, 0), "programs")
        self.results.row(f"tune.{name}.kernels", report.get("best_seconds", 0) * 1e3, "ms")
        if counts.get("wrong", 0) > 0:
            raise Failed(f"{counts['wrong']} programs were wrong")

    def build(self, name, model, database, more=()):
        """The library; its path. Error: Failed."""
        folder, stem = self.path("lib", name, "."), "lib_" + "".join(c if c.isalnum() else "_" for c in name)
        words = [self.program("tcc"), "build", *model, "-o", folder, "--id", stem, *self.target_words(), "--json", "-q",
                 *more]
        if os.path.exists(os.path.join(self.options.out, database)):
            words += ["--db", os.path.join(self.options.out, database)]
        report = last_json(self.child(words, 120))
        seconds = sum(k["seconds"] * k["weight"] for k in report.get("kernels", []))
        self.results.row(f"{name}.kernels", seconds * 1e6, "us")
        return os.path.join(folder, f"lib{stem}.so")

    def peers(self, cases, step):
        """PyTorch's times beside the libraries'. A case that ends the process is named, and the others go on."""
        script, rest, failures = os.path.join(HERE, "torch_peer.py"), list(cases), []
        while rest:
            answered, lost = [], []

            def take(line):
                answer = json_or_none(line) or {}
                if answer.get("lost"):  # by the case before: the next one is not at fault
                    lost.append(answered[-1])
                elif "name" in answer:
                    answered.append(answer["name"])
                    self.take_peer(answer, {c["name"]: c for c in cases}[answer["name"]], failures)

            text = "".join(json.dumps(c) + "\n" for c in rest)
            reason = "it ended the process"
            try:
                self.child([self.options.python, script], step.seconds, good=(0, 4), stdin=text, on_line=take)
            except Failed as error:
                if "ended with 3" in str(error):
                    raise Absent(f"PyTorch with a device: {str(error).split(': ', 1)[-1]}")
                reason = str(error)
            done = set(answered)
            left = [c for c in rest if c["name"] not in done]
            if left and not lost:
                failures.append(f"{left[0]['name']}: {reason}")
                left = left[1:]
            rest = left
        if failures:
            raise Failed("; ".join(failures)[:2000])

    def take_peer(self, answer, case, failures):
        name, own = case["name"], answer.get("library")
        if "failure" in answer:
            failures.append(f"{name}: {answer['failure']}")
        if answer.get("error", 0) > case["tolerance"]:
            failures.append(f"{name}: the library's output differs from PyTorch's by {answer['error']:.3g}")
        rate = lambda seconds: case["work"] * 1e-9 / seconds
        for way, seconds in answer.get("ways", {}).items():
            if isinstance(seconds, str):
                self.log(f"absent: {name} by torch {way}: {seconds}")
            elif own:
                self.results.row(f"{name}.{way}", rate(own), case["unit"], f"torch {way}", rate(seconds))
            else:
                self.results.row(f"{name}.{way}", rate(seconds), case["unit"])
        if own:
            self.results.row(name, rate(own), case["unit"])
            self.results.row(f"{name}.seconds", own * 1e6, "us")

    # --- call 2: operators ---------------------------------------------------------------------------------------------------

    def rows_of(self, kind, rows):
        if not self.small:
            return [r for r in rows if r[1] == kind]
        chosen = {}  # one of each function, spread over the types, and a product of each type
        for i, function in enumerate(dict.fromkeys(r[2] for r in rows)):
            of = [r for r in rows if r[2] is function]
            chosen[function] = next((r for r in of if r[1] == TYPES[i % len(TYPES)]), of[0])
        product = next(r for r in rows if r[1] == kind)
        return [product, *[r for r in chosen.values() if r[1] == kind and r is not product]]

    def write_model(self, name, operators):
        path = self.path("models", name + ".onnx")
        with open(path, "wb") as file:
            file.write(operator_list.model_of(operators))
        return path

    def tune_rows(self, name, rows, trials, share, database):
        def run(step):
            operators = [operator_list.make(r, self.small, f"o{i}_") for i, r in enumerate(rows)]
            path = self.write_model("tune." + name, operators)
            seconds = SMALL_SECONDS if self.small else min(step.seconds, max(share * self.seconds_left(), 5))
            self.tune(name, [path], 2 * len(rows), 1 if self.small else trials, seconds, database)
        return run

    def build_row(self, row):
        operator = operator_list.make(row, self.small)
        path = self.write_model(operator.name, [operator])
        return operator, self.build("op." + operator.name, [path], "records.db")

    def build_rows(self, rows):
        def run(_):
            self.target_words()
            with concurrent.futures.ThreadPoolExecutor(max_workers=self.cores) as pool:
                futures = [pool.submit(self.build_row, r) for r in rows]
                failures = []
                for row, future in zip(rows, futures):
                    try:
                        operator, library = future.result()
                        self.libraries[operator.name] = library
                    except Failed as error:
                        failures.append(f"{row[0]}.{row[1]}: {error}")
            if failures:
                raise Failed("; ".join(failures)[:2000])
        return run

    def peer_rows(self, rows):
        def run(step):
            cases = []
            for row in rows:
                operator = operator_list.make(row, self.small)
                cases.append({"name": "op." + operator.name, "inputs": operator.inputs, "peers": operator.peers,
                              "library": self.libraries.get(operator.name), "work": operator.work,
                              "unit": operator.unit, "tolerance": 1e-3 if operator.kind == "f32" else 3e-2})
            self.peers(cases, step)
        return run

    def call_2(self):
        steps, left = [], len(TYPES)
        for kind in TYPES:
            rows = self.rows_of(kind, operator_list.ROWS)
            # What is left is for tuning this type, the types behind it, and the peers of all.
            share = 0.66 / left
            left -= 1
            steps += [Step(f"tune.{kind}", self.tune_rows(kind, rows, 60, share, "records.db"), 240),
                      Step(f"build.{kind}", self.build_rows(rows), 240, [f"tune.{kind}"], device=False)]
        for kind in TYPES:
            rows = self.rows_of(kind, operator_list.ROWS)
            steps.append(Step(f"peers.{kind}", self.peer_rows(rows), 120, [f"tune.{TYPES[-1]}", f"build.{kind}"]))
        return steps

    # --- call 3: networks ------------------------------------------------------------------------------------------------------

    def precision_words(self, precision):
        if precision == "f32":
            return []
        if "--precision" not in self.child([self.program("tcc"), "tune", "--help"], 30):
            raise Absent("this tcc has no --precision")
        return ["--precision", precision]

    def tune_network(self, name, words, precision, share):
        def run(step):
            more = self.precision_words(precision)
            seconds = SMALL_SECONDS if self.small else min(step.seconds, max(share * self.seconds_left(), 5))
            self.tune(f"{name}.{precision}", words, 40, 1 if self.small else 40, seconds, "records.db", more)
        return run

    def build_network(self, name, words, precision):
        def run(_):
            more = self.precision_words(precision)
            self.libraries[f"{name}.{precision}"] = self.build(f"model.{name}.{precision}", words, "records.db", more)
        return run

    def bench_network(self, name, precision):
        def run(step):
            library = self.libraries.get(f"{name}.{precision}")
            if library is None:
                raise Absent("its library was not built")
            report = last_json(self.child([self.program("tcc"), "bench", library, "--seconds", "0.2" if self.small else "2",
                                           "--per-kernel", "--json", "-q"], step.seconds))
            for what in ("device_warm", "device_cold", "seconds_graph", "kernels_alone"):
                if isinstance(report.get(what), dict) and report[what].get("median"):
                    self.results.row(f"model.{name}.{precision}.{what}", report[what]["median"] * 1e3, "ms")
        return run

    def peer_network(self, name, precision, inputs, call):
        def run(step):
            full = f"{name}.{precision}"
            setup, apply = call.format(p=precision).split(")(", 1)
            case = {"library": self.libraries.get(full), "compare": False, "work": 1e9, "unit": "runs/s",
                    "inputs": [[n, k.format(p=precision), s, f] for n, k, s, f in inputs], "tolerance": 1}
            apply, fast = f"({apply}", ".to(memory_format=torch.channels_last)"
            ways = {"eager": (f"[*x, {setup})]", f"x[-1]{apply}"),
                    "graph": (f"[*x, graphed(lambda m={setup}){fast}: m{apply})]", "x[-1]()"),
                    "compiled": (f"[*x, torch.compile({setup}))]", f"x[-1]{apply}")}
            # torch.compile takes its time: what it may cost is not the row of the other way.
            self.peers([{**case, "name": f"model.{full}" + ("" if way == "eager" else f".{way}"),
                         "peers": {way: call}} for way, call in ways.items()], step)
        return run

    def call_3(self):
        networks = [("mlp", [], [["x", "{p}", [1, 784], "random"]], "network('mlp', '{p}')(x[0])")]
        if not self.small:
            networks = NETWORKS
        steps, left = [], len(networks) * len(PRECISIONS)
        for name, flags, inputs, call in networks:
            for precision in PRECISIONS:
                words, of = [f"zoo:{name}", *flags], f"{name}.{precision}"
                steps += [
                    Step(f"tune.{of}", self.tune_network(name, words, precision, 0.65 / left), 150),
                    Step(f"build.{of}", self.build_network(name, words, precision), 120, [f"tune.{of}"], device=False),
                    Step(f"bench.{of}", self.bench_network(name, precision), 60, [f"build.{of}"]),
                    Step(f"peers.{of}", self.peer_network(name, precision, inputs, call), 90, [f"build.{of}"])]
                left -= 1
        # Tuning goes first where it can: a library is built while the device tunes the next network.
        return sorted(steps, key=lambda s: not s.name.startswith("tune"))

    # --- call 4: counters of the worst -----------------------------------------------------------------------------------------

    def worst(self):
        """Operators by their speed beside PyTorch's best way, slowest first; all of them where there is no peer."""
        ratios = {}
        for r in self.results.rows():
            if r["name"].startswith("op.") and r["ratio"]:
                name = r["name"][3:].rsplit(".", 1)[0]
                ratios[name] = min(ratios.get(name, r["ratio"]), r["ratio"])
        rows = {f"{r[0]}.{r[1]}": r for r in operator_list.ROWS}
        named = [rows[n] for n in sorted(ratios, key=ratios.get) if n in rows]
        if not named:
            named = [r for kind in TYPES for r in self.rows_of(kind, operator_list.ROWS)]
        return named[:2 if self.small else WORST]

    def counters(self, row):
        def run(step):
            ncu = find_tool("ncu")
            if ncu is None or self.small:
                raise Absent("ncu (Nsight Compute) is not installed" if ncu is None else "it needs a device")
            operator, library = f"{row[0]}.{row[1]}", self.libraries.get(f"{row[0]}.{row[1]}")
            if library is None:
                raise Absent("its library was not built")
            sections = [w for s in NCU_SECTIONS for w in ("--section", s)]
            text = self.child([ncu, "--clock-control", "none", "--csv", "--page", "details", *sections, "--kernel-name",
                               "regex:tcc_", "--launch-skip", "4", "--launch-count", "3", self.program("tcc"), "bench",
                               library, "--seconds", "0.05", "-q"], step.seconds)
            lines = [line for line in text.split("\n") if line.startswith('"')]
            if len(lines) < 2:
                raise Absent("ncu counted nothing: " + " ".join(text.split())[-300:])
            with open(os.path.join(self.options.out, "ncu.csv"), "a") as file:
                for i, line in enumerate(lines):
                    file.write((f'"{operator}",' if i else '"Operator",') + line + "\n")
        return run

    def call_4(self):
        rows = self.worst()
        steps = [Step("build.worst", self.build_rows(rows), 240, device=False)]
        return steps + [Step(f"ncu.{r[0]}.{r[1]}", self.counters(r), 90, ["build.worst"]) for r in rows]

    # --- call 5: records over types --------------------------------------------------------------------------------------------

    def call_5(self):
        steps, left = [], len(TYPES)
        for kind in TYPES:
            rows = self.rows_of(kind, operator_list.collection_rows())
            steps.append(Step(f"collect.{kind}", self.tune_rows(f"collect.{kind}", rows, 400, 0.95 / left,
                                                                "collection.db"), 300))
            left -= 1
        return steps

    # --- call 6: a pool of programs; call 7: cost models that learn from it ------------------------------------------------

    def collect_pool(self, step):
        seconds = 240 if self.small else min(step.seconds, self.seconds_left() - 30)
        models, per_task = (("zoo:mlp",), 8) if self.small else (COLLECTED, 512)
        text = self.child([self.program("tcc"), "dataset", "collect", *models, "--target", "cuda", "--per-task", str(per_task),
                           "--time", f"{max(int(seconds), 1)}s", "-o", os.path.join(self.options.out, "collected.pool"),
                           "--json", "-q"], seconds * 1.2 + 45, good=(0, 3))
        report = last_json(text)
        self.results.row("collect.added", report.get("added", 0), "programs")
        self.results.row("collect.programs", report.get("programs", 0), "programs")
        self.results.row("collect.rate", report.get("added", 0) / max(report.get("seconds", 0), 1e-9), "programs/s")

    def call_6(self):
        return [Step("collect", self.collect_pool, 560)]

    def learn(self, network):
        def run(step):
            pool = os.path.join(self.options.out, "collected.pool")
            if not os.path.exists(pool):
                raise Absent("call 6 has collected no pool in this folder")
            words = [self.program("tcc"), "model", "train", pool, "--network", network, "--held-out",
                     "0.4" if self.small else "0.2", "-o", os.path.join(self.options.out, f"collected-{network}.tccnet"),
                     "--json", *(["--epochs", "2"] if self.small else [])]
            begin = time.monotonic()
            report = last_json(self.child(words, step.seconds))
            self.results.row(f"learn.{network}.seconds", time.monotonic() - begin, "s")
            self.results.row(f"learn.{network}.samples", report.get("samples", 0), "programs")
            for what in ("top1", "top5", "pairs"):
                self.results.row(f"learn.{network}.{what}", report["held_out"][what], "", "the target's prior",
                                 report["held_out_prior"][what])
        return run

    def call_7(self):
        networks = COST_MODELS[:1] if self.small else COST_MODELS
        return [Step(f"learn.{n}", self.learn(n), 300) for n in networks]

    # --- call 8: strategies ------------------------------------------------------------------------------------------------

    def device_seconds(self, name, words, database):
        """Builds the network and times it on the device: seconds of a run."""
        library = self.build(f"strategies.{name}", words, database)
        report = last_json(self.child([self.program("tcc"), "bench", library, "--seconds", "0.2" if self.small else "2",
                                       "--json", "-q"], 120))
        seconds = report.get("device_warm", {}).get("median", 0)
        self.results.row(f"strategies.{name}.device", seconds * 1e3, "ms")
        return seconds

    def without_records(self, network, words):
        def run(_):
            begin = time.monotonic()
            self.device_seconds(f"{network}.effort0", words, "none.db")
            self.results.row(f"strategies.{network}.effort0.wall", time.monotonic() - begin, "s")
        return run

    def by_strategy(self, network, words, strategy):
        def run(step):
            name, database = f"{network}.{strategy}", f"strategies.{network}.{strategy}.db"
            if strategy not in self.child([self.program("tcc"), "tune", "--help"], 30):
                raise Absent(f"this tcc has no strategy {strategy}")
            begin_with = []
            if strategy.startswith("moa-"):  # adapts a checkpoint, and none ships for GPUs
                checkpoint = os.path.join(self.options.out, "collected-pacm.tccnet")
                if not os.path.exists(checkpoint):
                    raise Absent("call 7 has trained no network 'pacm' in this folder")
                begin_with = ["--cost-model", "pacm", "--pretrained", checkpoint]
            # A dry run searches on a simulated GPU: the fake driver's times mean nothing.
            where = ["--target", "h100", "--simulate", "1"] if self.small else ["--target", "cuda"]
            trials = 16 if self.small else STRATEGY_TRIALS
            begin = time.monotonic()
            text = self.child([self.program("tcc"), "tune", *words, *where, "--strategy", strategy, *begin_with, "--trials", str(trials),
                               "--db", os.path.join(self.options.out, database), "--json", "-q"], step.seconds,
                              good=(0, 3))
            report = last_json(text)
            self.results.row(f"strategies.{name}.wall", time.monotonic() - begin, "s")
            self.results.row(f"strategies.{name}.trials", report.get("trials", 0), "programs")
            self.results.row(f"strategies.{name}.kernels", report.get("best_seconds", 0) * 1e3, "ms")
            if report.get("counts", {}).get("wrong", 0) > 0:
                raise Failed(f"{report['counts']['wrong']} programs were wrong")
            if not self.small:
                self.device_seconds(name, words, database)
        return run

    def compare_strategies(self, network):
        def run(_):
            device = {}
            for r in self.results.rows():
                parts = r["name"].split(".")
                if parts[:2] == ["strategies", network] and parts[-1] == "device":
                    device[".".join(parts[2:-1])] = r["value"]
            tuned = [ms for name, ms in device.items() if name != "effort0" and ms > 0]
            if not tuned or device.get("effort0", 0) <= 0:
                raise Absent("no strategy ran on a device")
            self.results.row(f"strategies.{network}.effort0.share", min(tuned) / device["effort0"], "of the best")
        return run

    def call_8(self):
        steps = []
        for network, flags in ((("mlp", []),) if self.small else COMPARED):
            words = [f"zoo:{network}", *flags, *([] if self.small else self.precision_words("f16"))]
            names = [f"strategies.{network}.{what}" for what in ("effort0", *STRATEGIES)]
            steps.append(Step(names[0], self.without_records(network, words), 120))
            steps += [Step(name, self.by_strategy(network, words, strategy), 240)
                      for name, strategy in zip(names[1:], STRATEGIES)]
            steps.append(Step(f"strategies.{network}", self.compare_strategies(network), 10, names, device=False))
        return steps


def step_limit(text):
    name, seconds = text.split("=")
    return name, float(seconds)


def parse(argv):
    parser = argparse.ArgumentParser(prog="gpu_check --call", description=__doc__.split("\n")[0])
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--call", type=int, choices=range(1, 9), help="which of the eight")
    which.add_argument("--collect", action="store_const", dest="call", const=6, help="call 6: a pool of programs")
    parser.add_argument("--minutes", type=float, default=MOST_MINUTES, help=f"its time, at most {MOST_MINUTES}")
    parser.add_argument("--out", default="gpu_check_calls", help="folder for results.json, records and logs")
    parser.add_argument("--again", action="store_true", help="repeat steps that are done")
    parser.add_argument("--only", action="append", metavar="STEP", help="only this step; may be repeated")
    parser.add_argument("--limit", action="append", default=[], type=step_limit, metavar="STEP=S",
                        help="that step may take S seconds, instead of its own limit; may be repeated")
    parser.add_argument("--list", action="store_true", help="print the names of the steps")
    parser.add_argument("--dry-run", action="store_true", help="small sizes on the fake driver --driver")
    parser.add_argument("--driver", default="", help="the fake CUDA driver of a dry run")
    parser.add_argument("--programs", default=HERE, help="folder of tcc, tcc-worker and tcc-gpu-check")
    parser.add_argument("--python", default=sys.executable, help="the Python that has PyTorch")
    options = parser.parse_args(argv)
    if not 0 < options.minutes <= MOST_MINUTES:
        parser.error(f"--minutes {options.minutes}: expected at most {MOST_MINUTES}")
    if options.dry_run and not os.path.exists(options.driver):
        parser.error("--dry-run needs the fake driver: --driver FILE")
    options.out, options.programs = os.path.abspath(options.out), os.path.abspath(options.programs)
    return options


def main(argv):
    options = parse(argv)
    call = Call(options)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, call.stop)
    try:
        return run_call(call, options)
    finally:
        call.clean()


def run_call(call, options):
    steps = getattr(call, f"call_{options.call}")()
    for step in steps:
        step.name = f"{options.call}.{step.name}"
        step.after = tuple(f"{options.call}.{a}" for a in step.after)
    if options.list:
        print("\n".join(s.name for s in steps))
        return 0
    unknown = set(options.only or []) - {s.name for s in steps}
    if unknown:
        print(f"gpu_check: call {options.call} has no step {', '.join(sorted(unknown))}; --list names them",
              file=sys.stderr)
        return 2
    return call.run(steps) if call.ready() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
