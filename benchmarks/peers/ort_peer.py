"""ONNX Runtime as a peer; see peer.h for the protocol. prepare also takes model=FILE, a model of that one operator with
output y. Outputs are bound ahead; what a call through Python costs (a ReLU of 16 elements, named by the word
tiny=FILE) is taken off each call's time, in the peer's favour."""

import time

import numpy as np
import onnxruntime as ort

from line_server import serve


def data(shape, tensor):
    i = np.arange(int(np.prod(shape)), dtype=np.uint32)
    bits = (i * np.uint32(2654435761) + np.uint32(tensor * 40503 + 12345)) >> np.uint32(16) & np.uint32(255)
    return (bits.astype(np.float32) / np.float32(128) - np.float32(1)).reshape(shape)


class Operation:
    def __init__(self, model, threads):
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self.inputs = [data(value.shape, tensor) for tensor, value in enumerate(session.get_inputs())]
        self.y = np.empty(session.get_outputs()[0].shape, dtype=np.float32)
        binding = session.io_binding()
        for value, array in zip(session.get_inputs(), self.inputs):
            binding.bind_cpu_input(value.name, array)
        binding.bind_output("y", "cpu", 0, np.float32, self.y.shape, self.y.ctypes.data)
        # Straight to the native object: two Python calls fewer.
        self.session, self.binding = session, binding
        self.call = session._sess.run_with_iobinding
        self.arguments = (binding._iobinding, ort.RunOptions())

    def run(self, repeats=1):
        call, (binding, options) = self.call, self.arguments
        begin = time.perf_counter()
        for _ in range(repeats):
            call(binding, options)
        return (time.perf_counter() - begin) / repeats

    def time(self, seconds):
        start = time.perf_counter()
        while True:
            one = self.run()
            if time.perf_counter() - start > 1e-3:
                break
        repeats = max(1, int(100e-6 / max(one, 1e-8) + 1))
        samples = []
        start = time.perf_counter()
        while time.perf_counter() - start < seconds or len(samples) < 3:
            samples.append(self.run(repeats))
        return float(np.median(samples)), repeats * len(samples)


def answer(words, state):
    if words[0] == "prepare":
        fields = dict(w.split("=", 1) for w in words[2:])
        if int(fields.get("bf16", 0)) or not int(fields.get("plain", 1)):
            return {"unsupported": True}
        threads = int(fields["threads"])
        state["operation"] = Operation(fields["model"], threads)
        tiny = Operation(fields["tiny"], 1)
        state["call"] = min(tiny.time(0.02)[0] for _ in range(3))
        state["operation"].run()
        y = state["operation"].y.astype(np.float64)
        return {"sum": float(y.sum()), "abs": float(np.abs(y).sum())}
    if words[0] == "run" and "operation" in state:
        seconds, calls = state["operation"].time(float(words[1]))
        return {"seconds": max(seconds - state["call"], 1e-9), "calls": calls, "call_seconds": state["call"]}
    return {"error": "not understood or nothing prepared: " + " ".join(words)}


serve(answer)
