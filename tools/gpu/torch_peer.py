#!/usr/bin/env python3
"""Times of PyTorch for the rows of gpu_check.

Reads one case a line, as JSON: {"name", "kind", "type", ...}. Writes one line of JSON for each case and way as soon as
it is measured: {"name", "way", "seconds"} or {"name", "way", "error"}. The ways are eager and compiled
(torch.compile with max-autotune, which generates Triton kernels). Each time is the median of seven rounds by events on
cold caches: the second-level cache is written over before each run. Exit status 3: there is no torch, or no device.
"""

import json
import sys

try:
    import torch
except Exception as error:  # whatever keeps it from loading, it is not there
    print(f"torch_peer: no PyTorch: {error}", file=sys.stderr)
    sys.exit(3)
if not torch.cuda.is_available():
    print("torch_peer: PyTorch finds no CUDA device", file=sys.stderr)
    sys.exit(3)

TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def random(shape, dtype):
    return (torch.rand(shape, device="cuda") * 2 - 1).to(dtype)


def make(case):
    """The function of a case and its inputs."""
    dtype = TYPES[case.get("type", "f32")]
    kind = case["kind"]
    if kind == "gemm":
        a, b = random((case["m"], case["k"]), dtype), random((case["k"], case["n"]), dtype)
        return torch.matmul, (a, b)
    if kind == "softmax":
        return (lambda x: torch.softmax(x, -1)), (random((case["rows"], case["columns"]), dtype),)
    if kind == "layernorm":
        n = case["columns"]
        x, w, b = random((case["rows"], n), dtype), random((n,), dtype), random((n,), dtype)
        return (lambda x, w, b: torch.nn.functional.layer_norm(x, (n,), w, b)), (x, w, b)
    if kind == "reduce_sum":
        return (lambda x: x.sum(-1)), (random((case["rows"], case["columns"]), dtype),)
    if kind == "attention":
        shape = (case["batch"], case["heads"], case["tokens"], case["depth"])
        q, k, v = (random(shape, dtype) for _ in range(3))
        return torch.nn.functional.scaled_dot_product_attention, (q, k, v)
    if kind == "conv":
        x = random((case["batch"], case["channels"], case["height"], case["width"]), dtype)
        w = random((case["filters"], case["channels"] // case["group"], case["kernel"], case["kernel"]), dtype)
        stride, pad, group = case["stride"], case["pad"], case["group"]
        return (lambda x, w: torch.nn.functional.conv2d(x, w, None, stride, pad, 1, group)), (x, w)
    raise ValueError(f"no case of kind {kind}")


def seconds_of(function, inputs):
    flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    for _ in range(5):
        function(*inputs)
    rounds = []
    for _ in range(7):
        flush.zero_()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        function(*inputs)
        end.record()
        end.synchronize()
        rounds.append(start.elapsed_time(end) * 1e-3)
    return sorted(rounds)[len(rounds) // 2]


def main():
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    for line in sys.stdin:
        case = json.loads(line)
        for way in ("eager", "compiled"):
            answer = {"name": case["name"], "way": way}
            try:
                with torch.no_grad():
                    function, inputs = make(case)
                    if way == "compiled":
                        function = torch.compile(function, mode="max-autotune-no-cudagraphs")
                    answer["seconds"] = seconds_of(function, inputs)
            except Exception as error:  # the other cases still run
                answer["error"] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
