"""ONNX Runtime on whole models, beside model_peer.cpp: the same protocol (see peer.h), the same data.

  prepare model file=FILE threads=N dump=FILE  ->  {"outputs": [elements, ...]}; the outputs as f32 in the file
"""

import time

import numpy as np
import onnxruntime as ort

from line_server import serve

TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(int64)": np.int64,
         "tensor(int32)": np.int32, "tensor(uint8)": np.uint8, "tensor(int8)": np.int8, "tensor(bool)": np.bool_, "tensor(float16)": np.float16}


def data(shape, kind, tensor):
    i = np.arange(int(np.prod(shape)), dtype=np.uint32)
    bits = (i * np.uint32(2654435761) + np.uint32(tensor * 40503 + 12345)) >> np.uint32(16) & np.uint32(255)
    if np.issubdtype(kind, np.floating):
        return (bits.astype(np.float32) / np.float32(128) - np.float32(1)).astype(kind).reshape(shape)
    if kind == np.int8:
        bits = bits.astype(np.int32) - 128
    elif kind != np.uint8:
        bits = bits % 2
    return bits.astype(kind).reshape(shape)


def aligned(x):
    """The same numbers at a line of the cache, as ONNX Runtime's own tensors are."""
    line = 64
    memory = np.empty(x.nbytes + line, np.uint8)
    begin = -memory.ctypes.data % line
    y = memory[begin:begin + x.nbytes].view(x.dtype).reshape(x.shape)
    y[...] = x
    return y


class Model:
    def __init__(self, file, threads):
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self.session = ort.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        self.inputs = [aligned(data(x.shape, TYPES[x.type], i)) for i, x in enumerate(self.session.get_inputs())]
        names = [x.name for x in self.session.get_inputs()]
        self.outputs = self.session.run(None, dict(zip(names, self.inputs)))
        self.binding = self.session.io_binding()
        for name, x in zip(names, self.inputs):
            self.binding.bind_cpu_input(name, x)
        for info, y in zip(self.session.get_outputs(), self.outputs):
            self.binding.bind_output(info.name, "cpu", 0, y.dtype, y.shape, y.ctypes.data)

    def time(self, seconds):
        self.session.run_with_iobinding(self.binding)
        samples = []
        start = time.perf_counter()
        while time.perf_counter() - start < seconds or len(samples) < 3:
            begin = time.perf_counter()
            self.session.run_with_iobinding(self.binding)
            samples.append(time.perf_counter() - begin)
        return float(np.median(samples)), len(samples)


def answer(words, state):
    if words[0] == "prepare":
        fields = dict(w.split("=", 1) for w in words[2:])
        model = state["model"] = Model(fields["file"], int(fields["threads"]))
        with open(fields["dump"], "wb") as dump:
            for y in model.outputs:
                dump.write(y.astype(np.float32).tobytes())
        return {"outputs": [int(y.size) for y in model.outputs], "version": ort.__version__}
    if words[0] == "run" and "model" in state:
        seconds, calls = state["model"].time(float(words[1]))
        return {"seconds": seconds, "calls": calls}
    return {"error": "not understood or nothing prepared: " + " ".join(words)}


serve(answer)
