#!/usr/bin/env python3
"""Times of PyTorch beside libraries that tcc built, for gpu_check.

Reads one case a line, as JSON: {"name", "inputs": [[name, type, shape, fill], ...], "peers": {way: [prepare, call]},
"library": path or null, "compare": bool}. Writes one line of JSON for each case as soon as it is measured: {"name",
"library": seconds, "ways": {way: seconds or error}, "error": largest difference over the largest output}. Exit status
3: there is no torch, or no device.

The library and PyTorch take turns on the same random tensors. A time is the median of the rounds by events on cold
caches: the second-level cache is written over before each run, and a wait on the device hides what the host needs to
enqueue.
"""

import ctypes
import json
import os
import re
import sys

try:
    import torch
    import torch.nn.functional as F
except Exception as error:  # whatever keeps it from loading, it is not there
    print(f"torch_peer: no PyTorch: {error}", file=sys.stderr)
    sys.exit(3)
DEVICE = "cuda" if torch.cuda.is_available() else os.environ.get("TORCH_PEER_DEVICE", "")
if not DEVICE:
    print("torch_peer: PyTorch finds no CUDA device", file=sys.stderr)
    sys.exit(3)

TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64}
ROUNDS = 9
WAIT_CYCLES = 300_000  # about 150 us: longer than enqueueing a call takes


# --- a library of tcc, by its C interface (include/tcc/rt/model_abi.h) ---------------------------------------------------


class DlTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class TensorInfo(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dims", ctypes.POINTER(ctypes.c_int64)), ("bytes", ctypes.c_uint64),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("ndim", ctypes.c_int32), ("alignment", ctypes.c_uint64), ("reserved", ctypes.c_uint64)]


class ModelInfo(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("reserved", ctypes.c_uint32), ("id", ctypes.c_char_p),
                ("inputs", ctypes.POINTER(TensorInfo)), ("outputs", ctypes.POINTER(TensorInfo)),
                ("num_inputs", ctypes.c_uint32), ("num_outputs", ctypes.c_uint32)]


CREATE_HOST_TENSORS = 4


class CreateOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("threads", ctypes.c_int32), ("spin_us", ctypes.c_int32),
                ("flags", ctypes.c_uint32), ("device", ctypes.c_int32), ("reserved", ctypes.c_uint32),
                ("cuda_driver", ctypes.c_char_p)]


POINTER = ctypes.c_void_p
RUN = ctypes.CFUNCTYPE(ctypes.c_int, POINTER, ctypes.POINTER(DlTensor), ctypes.c_uint32, ctypes.POINTER(DlTensor),
                       ctypes.c_uint32, POINTER, ctypes.c_uint64, POINTER)


class ModelApi(ctypes.Structure):
    _fields_ = [("abi_version", ctypes.c_uint32), ("struct_size", ctypes.c_uint32),
                ("info", ctypes.CFUNCTYPE(ctypes.POINTER(ModelInfo))), ("workspace_bytes", POINTER),
                ("create", ctypes.CFUNCTYPE(ctypes.c_int, POINTER, ctypes.POINTER(POINTER))), ("run", RUN),
                ("destroy", ctypes.CFUNCTYPE(None, POINTER)), ("status_string", POINTER),
                ("last_error", ctypes.CFUNCTYPE(ctypes.c_char_p))]


ELEMENT_TYPES = {(2, 32): torch.float32, (2, 16): torch.float16, (4, 16): torch.bfloat16, (0, 64): torch.int64}


def describe(tensor):
    """The DLPack description of a tensor; the arrays that it points to are kept with it."""
    shape = (ctypes.c_int64 * max(tensor.dim(), 1))(*tensor.shape)
    code = {torch.bfloat16: 4, torch.int64: 0}.get(tensor.dtype, 2)
    kind = 2 if tensor.is_cuda else 1
    dl = DlTensor(tensor.data_ptr(), kind, tensor.device.index or 0, tensor.dim(), code, 8 * tensor.element_size(), 1,
                  shape, None, 0)
    return dl, shape


class Library:
    """inputs None: the library gets tensors of its own, random numbers and ones."""

    def __init__(self, path, inputs):
        name = re.fullmatch(r"lib(\w+)\.so", os.path.basename(path)).group(1)
        self.handle = ctypes.CDLL(path)
        query = getattr(self.handle, f"tcc_{name}_query")
        query.restype, query.argtypes = ctypes.POINTER(ModelApi), [ctypes.c_uint32]
        self.api = query(1).contents
        info = self.api.info().contents
        self.outputs = [self.tensor(info.outputs[i], torch.empty) for i in range(info.num_outputs)]
        if inputs is None:
            inputs = [self.tensor(info.inputs[i], self.fill) for i in range(info.num_inputs)]
        torch.zeros(1, device=DEVICE)  # the context that create() takes
        self.context = POINTER()
        options = CreateOptions(struct_size=ctypes.sizeof(CreateOptions),
                                flags=0 if DEVICE == "cuda" else CREATE_HOST_TENSORS)
        self.check(self.api.create(ctypes.byref(options), ctypes.byref(self.context)))
        self.kept = [describe(t) for t in [*inputs, *self.outputs]]
        count = len(inputs)
        self.ins = (DlTensor * count)(*[d for d, _ in self.kept[:count]])
        self.outs = (DlTensor * len(self.outputs))(*[d for d, _ in self.kept[count:]])
        self.inputs = inputs  # alive as long as the addresses are used

    @staticmethod
    def tensor(info, make):
        shape = [info.dims[d] for d in range(info.ndim)]
        return make(shape, dtype=ELEMENT_TYPES[info.code, info.bits], device=DEVICE)

    @staticmethod
    def fill(shape, dtype, device):
        return torch.ones(shape, dtype=dtype, device=device) if dtype == torch.int64 else \
            (torch.rand(shape, device=device) * 2 - 1).to(dtype)

    def check(self, status):
        if status != 0:
            raise RuntimeError(f"tcc library: {self.api.last_error().decode(errors='replace')}")

    def __call__(self):
        stream = torch.cuda.current_stream().cuda_stream if DEVICE == "cuda" else None
        self.check(self.api.run(self.context, self.ins, len(self.ins), self.outs, len(self.outs), None, 0, stream))
        return self.outputs[0]

    def close(self):
        self.api.destroy(self.context)


# --- inputs and networks ---------------------------------------------------------------------------------------------------


def make_input(kind, shape, fill):
    dtype = TYPES[kind]
    if fill.startswith("below:"):
        return torch.randint(0, int(fill[6:]), shape, device=DEVICE, dtype=dtype)
    if fill == "causal":
        above = torch.ones(shape, device=DEVICE, dtype=torch.bool).triu(1)
        return torch.zeros(shape, device=DEVICE, dtype=dtype).masked_fill(above, -60000.0)
    return (torch.rand(shape, device=DEVICE) * 2 - 1).to(dtype)


def sdpa(backend, *inputs, **options):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel(getattr(SDPBackend, backend)):
        return F.scaled_dot_product_attention(*inputs, **options)


def graphed(function):
    """The function recorded as a CUDA graph: its kernels without what the host does between them."""
    if DEVICE != "cuda":
        return function
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            function()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = function()

    def replay():
        graph.replay()
        return output

    return replay


def network(name, kind):
    """A network of the zoo with random weights, as PyTorch's own packages define it."""
    if name == "bert-base":
        from transformers import BertConfig, BertModel

        module = BertModel(BertConfig(), add_pooling_layer=False)
    else:
        import torchvision

        module = getattr(torchvision.models, name)()
    return module.eval().to(DEVICE, TYPES[kind])


# --- times -----------------------------------------------------------------------------------------------------------------


class Clock:
    def __init__(self):
        self.cuda = DEVICE == "cuda"
        self.flush = torch.empty((256 if self.cuda else 8) << 20, dtype=torch.uint8, device=DEVICE)

    def once(self, call):
        self.flush.zero_()
        if not self.cuda:
            import time

            start = time.perf_counter()
            call()
            return time.perf_counter() - start
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(WAIT_CYCLES)
        start.record()
        call()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e-3


def largest_error(got, expected):
    got, expected = got.float(), expected.float()
    scale = expected.abs().max().clamp_min(1e-30)
    return float((got - expected).abs().max() / scale)


def measure(case, clock):
    inputs = [make_input(*i[1:]) for i in case["inputs"]]
    answer = {"name": case["name"], "ways": {}}
    calls, library = {}, None
    if case.get("library"):
        try:
            library = Library(case["library"], inputs if case.get("compare", True) else None)
            calls["library"] = library
        except Exception as error:
            answer["failure"] = f"{type(error).__name__}: {error}"
    for way, (prepare, call) in case["peers"].items():
        scope = {"torch": torch, "F": F, "sdpa": sdpa, "network": network,
                 "graphed": graphed}
        try:
            scope["x"] = inputs
            scope["x"] = eval(prepare, scope)  # the texts are those of operator_list.py and calls.py
            function = eval("lambda: " + call, scope)
            for _ in range(3):
                function()
            calls[way] = function
        except Exception as error:  # this way does not exist here; the others do
            text = str(error).splitlines()[0] if str(error) else ""
            answer["ways"][way] = f"{type(error).__name__}: {text}"
    if library is not None and case.get("compare", True) and "eager" in calls:
        answer["error"] = largest_error(library(), calls["eager"]())
    times = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            times[name].append(clock.once(call))
    for name, rounds in times.items():
        median = sorted(rounds)[len(rounds) // 2]
        if name == "library":
            answer["library"] = median
        else:
            answer["ways"][name] = median
    if library is not None:
        library.close()
    return answer


def main():
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    clock = Clock()
    print(json.dumps({"ready": torch.__version__}), flush=True)
    for line in sys.stdin:
        case = json.loads(line)
        try:
            with torch.no_grad():
                answer = measure(case, clock)
        except Exception as error:  # the other cases still run, unless the context is lost
            answer = {"name": case["name"], "failure": f"{type(error).__name__}: {str(error)[:300]}"}
        print(json.dumps(answer), flush=True)
        if DEVICE == "cuda":
            torch.cuda.empty_cache()
            try:
                torch.cuda.synchronize()
            except Exception:  # the context is lost: the caller starts a new process for the next case
                print(json.dumps({"lost": True}), flush=True)
                sys.exit(4)


if __name__ == "__main__":
    main()
