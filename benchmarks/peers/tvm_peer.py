"""TVM's MetaSchedule as a peer; see peer.h for the protocol. prepare also takes model=FILE, a model of that one operator
with output y, and trials=N: the operator is tuned with this many measured candidates, as TVM does it by itself (its
spaces, cost model and search), which takes `tuning_seconds`. Candidates are built in this process, by threads, and
timed in it: TVM's own builder starts processes that load its tensor intrinsics for many seconds each, so this is in the
peer's favour. Weights are constants, so that TVM may lay them out ahead. What a call through Python costs (a ReLU of 16
elements, tiny=FILE) is taken off each call's time."""

import logging
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

# TVM and its tuner write to standard output, which belongs to the protocol.
protocol = os.dup(1)
os.dup2(2, 1)

import onnx  # noqa: E402
import tvm  # noqa: E402
import tvm.s_tir.tensor_intrin  # noqa: E402, F401
from tvm import relax  # noqa: E402
from tvm.ir.utils import derived_object  # noqa: E402
from tvm.relax.frontend.onnx import from_onnx  # noqa: E402
from tvm.s_tir import meta_schedule as ms  # noqa: E402
from tvm.s_tir.meta_schedule.builder import BuilderResult, PyBuilder  # noqa: E402
from tvm.s_tir.meta_schedule.builder.local_builder import default_build  # noqa: E402
from tvm.s_tir.meta_schedule.measure_callback import AddToDatabase, UpdateCostModel  # noqa: E402
from tvm.s_tir.meta_schedule.runner import PyRunner, PyRunnerFuture, RunnerResult  # noqa: E402

from line_server import serve  # noqa: E402
from op_peer import TimedOperation, answer_with, data  # noqa: E402

logging.disable(logging.WARNING)  # the tuner sets its loggers' own levels anew
WARM_UP, SAMPLES = 1, 3  # of a candidate


@derived_object
class Builder(PyBuilder):
    """Hands modules on by a name instead of a file."""

    def __init__(self, threads, built):
        super().__init__()
        self.threads, self.built = threads, built

    def build(self, build_inputs):
        def one(item):
            try:
                module = default_build(item.mod, item.target, None)
            except Exception as e:  # of the compiler: the candidate's
                return BuilderResult(None, str(e)[:200])
            name = f"candidate{id(module)}"
            self.built[name] = module
            return BuilderResult(name, None)

        with ThreadPoolExecutor(self.threads) as pool:
            return list(pool.map(one, build_inputs))


@derived_object
class Future(PyRunnerFuture):
    def __init__(self, outcome):
        super().__init__()
        self.outcome = outcome

    def done(self):
        return True

    def result(self):
        return self.outcome


@derived_object
class Runner(PyRunner):
    def __init__(self, built, count):
        super().__init__()
        self.built, self.count = built, count

    def run(self, runner_inputs):
        return [Future(self.one(item)) for item in runner_inputs]

    def one(self, item):
        self.count[0] += 1
        module = self.built.pop(item.artifact_path)
        try:
            arguments = [tvm.runtime.tensor(data([int(d) for d in a.shape], i).astype(a.dtype))
                         for i, a in enumerate(item.args_info)]
            timer = module.time_evaluator("main", tvm.cpu(), number=WARM_UP, repeat=SAMPLES, min_repeat_ms=20)
            return RunnerResult([float(s) for s in timer(*arguments).results], None)
        except Exception as e:  # of the candidate
            return RunnerResult(None, str(e)[:200])


def host_target(threads):
    with open("/proc/cpuinfo") as f:
        flags = next(line for line in f if line.startswith("flags")).split()
    cpu = "skylake-avx512" if "avx512f" in flags else "core-avx2" if "avx2" in flags else "x86-64-v2"
    return tvm.target.Target({"kind": "llvm", "mcpu": cpu, "num-cores": threads})


class Operation(TimedOperation):
    def __init__(self, file, threads, trials):
        os.environ["TVM_NUM_THREADS"] = str(threads)
        model = onnx.load(file)
        constants = {t.name for t in model.graph.initializer}
        self.shapes = [[d.dim_value for d in v.type.tensor_type.shape.dim]
                       for v in model.graph.input if v.name not in constants]
        module = from_onnx(model, keep_params_in_input=False)
        target = host_target(threads)
        with target:
            module = relax.get_pipeline("zero")(module)
        built, count = {}, [0]
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            if trials > 0:
                database = ms.relax_integration.tune_relax(
                    module, {}, target, folder, max_trials_global=trials, num_trials_per_iter=min(64, trials),
                    builder=Builder(threads, built), runner=Runner(built, count), seed=1,
                    measure_callbacks=[AddToDatabase(), UpdateCostModel()])
                self.tuning_seconds, self.trials = time.perf_counter() - start, count[0]
                program = ms.relax_integration.compile_relax(database, module, target, {})
            else:
                self.tuning_seconds, self.trials = 0, 0
                program = tvm.compile(module, target)
        self.machine = relax.VirtualMachine(program, tvm.cpu())
        self.machine.set_input("main", *[tvm.runtime.tensor(data(s, i)) for i, s in enumerate(self.shapes)])

    def output(self):
        self.machine.invoke_stateful("main")
        y = self.machine.get_outputs("main")
        return (y if hasattr(y, "numpy") else y[0]).numpy()

    def run(self, repeats=1):
        call = self.machine.invoke_stateful
        begin = time.perf_counter()
        for _ in range(repeats):
            call("main")
        return (time.perf_counter() - begin) / repeats

    def facts(self):
        return {"tuning_seconds": self.tuning_seconds, "trials": self.trials, "version": tvm.__version__}


def prepare(fields):
    threads = int(fields["threads"])
    return Operation(fields["tiny"], threads, 0), Operation(fields["model"], threads, int(fields.get("trials", 64)))


sys.stdout = os.fdopen(protocol, "w")
serve(answer_with(prepare))
