"""ONNX Runtime as a peer; see peer.h for the protocol. prepare also takes model=FILE, a model of that one operator with
output y. Outputs are bound ahead; what a call through Python costs (a ReLU of 16 elements, named by the word
tiny=FILE) is taken off each call's time, in the peer's favour."""

import time

import numpy as np
import onnxruntime as ort

from line_server import serve
from op_peer import TimedOperation, answer_with, data


class Operation(TimedOperation):
    def __init__(self, model, threads):
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self.inputs = [data(value.shape, tensor) for tensor, value in enumerate(session.get_inputs())]
        result = session.get_outputs()[0]
        if result.type == "tensor(int32)":  # bytes are multiplied
            self.inputs = [(x * 128 + 128).astype(np.uint8) for x in self.inputs]
        self.y = np.empty(result.shape, dtype=np.int32 if result.type == "tensor(int32)" else np.float32)
        binding = session.io_binding()
        for value, array in zip(session.get_inputs(), self.inputs):
            binding.bind_cpu_input(value.name, array)
        binding.bind_output("y", "cpu", 0, self.y.dtype.type, self.y.shape, self.y.ctypes.data)
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

    def output(self):
        self.run()
        return self.y


def prepare(fields):
    return Operation(fields["tiny"], 1), Operation(fields["model"], int(fields["threads"]))


serve(answer_with(prepare))
