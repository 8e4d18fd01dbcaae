"""The operators that gpu_check tunes and measures beside PyTorch, each as a part of an ONNX graph.

An operator has: name; kind, the type of its tensors; inputs as (name, kind, shape, fill), where fill is "random",
"causal" (0 on and below the diagonal, -inf above, as a mask) or "below:N" (integers from 0 to N - 1); nodes,
initializers and outputs of its ONNX graph; peers, {way: (prepare, call)} in Python: `prepare` makes of the list x of
input tensors those that `call` takes, outside of the timed part; work, operations or bytes of one run, and its unit.
"""

from dataclasses import dataclass, field
from math import prod, sqrt

import onnx_bytes as onnx

SIZES = {"f32": 4, "f16": 2, "bf16": 2, "i64": 8}


@dataclass
class Operator:
    name: str
    kind: str
    prefix: str = ""
    inputs: list = field(default_factory=list)
    nodes: list = field(default_factory=list)
    initializers: list = field(default_factory=list)
    outputs: list = field(default_factory=list)
    peers: dict = field(default_factory=dict)
    flops: float = 0
    work: float = 0
    unit: str = "GFLOP/s"

    def input(self, name, shape, kind=None, fill="random"):
        self.inputs.append((self.prefix + name, kind or self.kind, list(shape), fill))
        return self.prefix + name

    def node(self, operator, inputs, out, **attributes):
        self.nodes.append(onnx.node(operator, inputs, [self.prefix + out], **attributes))
        return self.prefix + out

    def integers(self, name, values):
        self.initializers.append(onnx.integers(self.prefix + name, values))
        return self.prefix + name

    def scalar(self, name, value):
        self.initializers.append(onnx.scalar(self.prefix + name, value, self.kind))
        return self.prefix + name

    def output(self, name, shape):
        self.outputs.append((name, self.kind, list(shape)))

    def eager(self, call, prepare="x"):
        self.peers["eager"] = (prepare, call)

    def computes(self, flops):
        self.flops = self.work = float(flops)

    def moves(self):
        """Its work is what has to be read and written."""
        self.unit = "GB/s"
        self.work = float(sum(prod(s) * SIZES[k] for _, k, s, _ in self.inputs) +
                          sum(prod(s) * SIZES[k] for _, k, s in self.outputs))


# --- kinds of operators: each fills an Operator, with `small` in the sizes of a dry run -------------------------------


def gemm(op, small, m, n, k, batch=1, bias_gelu=False, transposed=False):
    if small:
        m, n, k, batch = min(m, 32), min(n, 32), min(k, 32), min(batch, 2)
    lead = [batch] if batch > 1 else []
    a = op.input("a", lead + [m, k])
    b = op.input("b", lead + ([n, k] if transposed else [k, n]))
    factor = op.node("Transpose", [b], "bt", perm=[1, 0]) if transposed else b
    y, call = op.node("MatMul", [a, factor], "y"), "x[0] @ x[1]" + (".T" if transposed else "")
    if bias_gelu:
        bias = op.input("bias", [n])
        y = op.node("Gelu", [op.node("Add", [y, bias], "sum")], "g")
        call = f"F.gelu({call} + x[2])"
    op.output(y, lead + [m, n])
    op.eager(call)
    op.computes(2 * batch * m * n * k)


def conv(op, small, batch, channels, size, filters, kernel, stride=1, group=1, nhwc=False):
    if small:
        batch, size = 1, 8
        channels = filters = 16
        group = 16 if group > 1 else 1
    pad, out = kernel // 2, (size + 2 * (kernel // 2) - kernel) // stride + 1
    x = op.input("x", [batch, size, size, channels] if nhwc else [batch, channels, size, size])
    w = op.input("w", [filters, channels // group, kernel, kernel])
    if nhwc:
        x = op.node("Transpose", [x], "xt", perm=[0, 3, 1, 2])
    y = op.node("Conv", [x, w], "y", kernel_shape=[kernel] * 2, pads=[pad] * 4, strides=[stride] * 2, group=group)
    call = f"F.conv2d(x[0], x[1], None, {stride}, {pad}, 1, {group})"
    if nhwc:
        y = op.node("Transpose", [y], "yt", perm=[0, 2, 3, 1])
        last = "memory_format=torch.channels_last"
        op.eager(call + ".permute(0, 2, 3, 1)", f"[x[0].permute(0, 3, 1, 2), x[1].to({last})]")
    else:
        last = "memory_format=torch.channels_last"
        op.eager(call)
        op.peers["channels_last"] = (f"[x[0].to({last}), x[1].to({last})]", call)
    op.output(y, [batch, out, out, filters] if nhwc else [batch, filters, out, out])
    op.computes(2 * batch * filters * out * out * (channels // group) * kernel * kernel)


def attention(op, small, batch, heads, tokens, depth, keys=None, kv_heads=None, causal=False):
    if small:
        batch, heads, depth = 1, 2, 16
        kv_heads = kv_heads and 1
        tokens, keys = min(tokens, 16), keys and 32
    keys, kv_heads = keys or tokens, kv_heads or heads
    q = op.input("q", [batch, heads, tokens, depth])
    k, v = (op.input(n, [batch, kv_heads, keys, depth]) for n in "kv")
    options = ""
    if kv_heads != heads:
        axis = op.integers("axis", [2])
        wide = op.integers("wide", [batch, kv_heads, heads // kv_heads, keys, depth])
        flat = op.integers("flat", [batch, heads, keys, depth])
        for n, t in (("k", k), ("v", v)):
            five = op.node("Unsqueeze", [t, axis], n + "5")
            shared = op.node("Reshape", [op.node("Expand", [five, wide], n + "e"), flat], n + "h")
            k, v = (shared, v) if n == "k" else (k, shared)
        options = ", enable_gqa=True"
    scores = op.node("MatMul", [q, op.node("Transpose", [k], "kt", perm=[0, 1, 3, 2])], "s")
    scores = op.node("Mul", [scores, op.scalar("scale", 1 / sqrt(depth))], "scaled")
    if causal:
        mask = op.input("mask", [tokens, keys], fill="causal")
        scores = op.node("Add", [scores, mask], "masked")
        options += ", is_causal=True"
    y = op.node("MatMul", [op.node("Softmax", [scores], "p", axis=-1), v], "y")
    op.output(y, [batch, heads, tokens, depth])
    op.eager(f"F.scaled_dot_product_attention(x[0], x[1], x[2]{options})")
    for backend in ("FLASH_ATTENTION", "CUDNN_ATTENTION"):
        if op.kind != "f32":
            op.peers[backend.lower()] = (
                "x", f"sdpa('{backend}', x[0], x[1], x[2]{options})")
    op.computes(4 * batch * heads * tokens * keys * depth * (0.5 if causal else 1))
    if tokens == 1:
        op.moves()


def rows(op, small, what, count, width):
    if small:
        count, width = 6, min(width, 96)
    x = op.input("x", [count, width])
    if what == "softmax":
        y, call = op.node("Softmax", [x], "y", axis=-1), "torch.softmax(x[0], -1)"
    elif what == "layernorm":
        scale, bias = op.input("w", [width]), op.input("b", [width])
        y = op.node("LayerNormalization", [x, scale, bias], "y", axis=-1, epsilon=1e-5)
        call = f"F.layer_norm(x[0], ({width},), x[1], x[2])"
    else:
        y = op.node("RMSNormalization", [x, op.input("w", [width])], "y", axis=-1, epsilon=1e-5)
        call = f"F.rms_norm(x[0], ({width},), x[1], 1e-5)"
    op.output(y, [count, width])
    op.eager(call)
    op.moves()


def reduction(op, small, axes, count=8192, width=8192):
    if small:
        count, width = 24, 40
    x = op.input("x", [count, width])
    y = op.node("ReduceSum", [x, op.integers("axes", axes)], "y", keepdims=0)
    op.output(y, [s for i, s in enumerate([count, width]) if i not in axes])
    op.eager(f"x[0].sum({tuple(axes)})")
    op.moves()


def elementwise(op, small, what, count=1 << 26):
    if small:
        count = 4096
    a = op.input("a", [count])
    if what == "gelu":
        y, call = op.node("Gelu", [a], "y"), "F.gelu(x[0])"
    else:
        b = op.input("b", [count])
        if what == "add":
            y, call = op.node("Add", [a, b], "y"), "x[0] + x[1]"
        else:  # silu(a) * b
            y = op.node("Mul", [op.node("Mul", [a, op.node("Sigmoid", [a], "sig")], "silu"), b], "y")
            call = "F.silu(x[0]) * x[1]"
    op.output(y, [count])
    op.eager(call)
    op.moves()


def transpose(op, small, shape, perm):
    if small:
        shape = [min(s, 24) for s in shape]
    y = op.node("Transpose", [op.input("x", shape)], "y", perm=perm)
    op.output(y, [shape[p] for p in perm])
    op.eager(f"x[0].permute({', '.join(map(str, perm))}).contiguous()")
    op.moves()


def gather(op, small, table, count, width):
    if small:
        table, count, width = 50, 12, 32
    rows_of, ids = op.input("t", [table, width]), op.input("i", [count], "i64", f"below:{table}")
    op.output(op.node("Gather", [rows_of, ids], "y", axis=0), [count, width])
    op.eager("F.embedding(x[1], x[0])")
    op.unit, op.work = "GB/s", 2.0 * count * width * SIZES[op.kind] + 8 * count


def max_pool(op, small, batch=32, channels=64, size=112):
    if small:
        batch, channels, size = 1, 4, 12
    out = (size + 2 - 3) // 2 + 1
    y = op.node("MaxPool", [op.input("x", [batch, channels, size, size])], "y", kernel_shape=[3, 3],
                pads=[1] * 4, strides=[2, 2])
    op.output(y, [batch, channels, out, out])
    op.eager("F.max_pool2d(x[0], 3, 2, 1)")
    op.moves()


# --- the list ----------------------------------------------------------------------------------------------------------

# (name, kind, function, arguments); the name of an operator ends in its kind.
ROWS = [
    *[("gemm.4096", t, gemm, dict(m=4096, n=4096, k=4096)) for t in ("f16", "bf16", "f32")],
    *[("gemm.1024", t, gemm, dict(m=1024, n=1024, k=1024)) for t in ("f16", "f32")],
    ("gemm.8192", "bf16", gemm, dict(m=8192, n=8192, k=8192)),
    ("gemm.1000", "f16", gemm, dict(m=1000, n=1000, k=1000)),
    *[("gemm.16x4096x4096", t, gemm, dict(m=16, n=4096, k=4096)) for t in ("f16", "bf16")],
    ("gemm.1x4096x4096", "f16", gemm, dict(m=1, n=4096, k=4096, transposed=True)),
    ("gemm.batched.64x512", "f16", gemm, dict(m=512, n=512, k=512, batch=64)),
    ("gemm.linear.128x3072x768", "bf16", gemm, dict(m=128, n=3072, k=768, transposed=True)),
    ("gemm.gelu.4096x4096x1024", "f16", gemm, dict(m=4096, n=4096, k=1024, bias_gelu=True)),
    *[("conv.3x3.64.nchw", t, conv, dict(batch=32, channels=64, size=56, filters=64, kernel=3))
      for t in ("f16", "f32")],
    *[("conv.3x3.64.nhwc", t, conv, dict(batch=32, channels=64, size=56, filters=64, kernel=3, nhwc=True))
      for t in ("f16", "bf16")],
    *[("conv.3x3.256.nchw", t, conv, dict(batch=32, channels=256, size=14, filters=256, kernel=3))
      for t in ("f16", "bf16", "f32")],
    ("conv.1x1.256.nchw", "f16", conv, dict(batch=32, channels=256, size=56, filters=64, kernel=1)),
    ("conv.7x7.stem.nchw", "f16", conv, dict(batch=32, channels=3, size=224, filters=64, kernel=7, stride=2)),
    ("conv.depthwise.128.nchw", "f16", conv,
     dict(batch=32, channels=128, size=56, filters=128, kernel=3, group=128)),
    *[("attention.8x16x2048x64", t, attention, dict(batch=8, heads=16, tokens=2048, depth=64))
      for t in ("f16", "bf16")],
    ("attention.1x32x4096x128", "bf16", attention, dict(batch=1, heads=32, tokens=4096, depth=128)),
    ("attention.causal.8x16x2048x64", "f16", attention,
     dict(batch=8, heads=16, tokens=2048, depth=64, causal=True)),
    ("attention.gqa.1x32-8x2048x128", "bf16", attention,
     dict(batch=1, heads=32, kv_heads=8, tokens=2048, depth=128)),
    ("attention.decode.16x32x4096x128", "f16", attention,
     dict(batch=16, heads=32, tokens=1, keys=4096, depth=128)),
    ("attention.8x12x128x64", "f32", attention, dict(batch=8, heads=12, tokens=128, depth=64)),
    ("softmax.8192x8192", "f16", rows, dict(what="softmax", count=8192, width=8192)),
    ("softmax.128x50257", "f16", rows, dict(what="softmax", count=128, width=50257)),
    *[("layernorm.8192x1024", t, rows, dict(what="layernorm", count=8192, width=1024)) for t in ("f16", "f32")],
    ("rmsnorm.8192x4096", "bf16", rows, dict(what="rmsnorm", count=8192, width=4096)),
    ("sum.rows.8192x8192", "f16", reduction, dict(axes=[1])),
    ("sum.columns.8192x8192", "f16", reduction, dict(axes=[0])),
    ("sum.all.8192x8192", "f32", reduction, dict(axes=[0, 1])),
    ("add.64M", "f16", elementwise, dict(what="add")),
    ("add.16M", "f32", elementwise, dict(what="add", count=1 << 24)),
    ("gelu.64M", "f16", elementwise, dict(what="gelu")),
    ("silu_mul.32M", "bf16", elementwise, dict(what="silu_mul", count=1 << 25)),
    *[("transpose.8192x8192", t, transpose, dict(shape=[8192, 8192], perm=[1, 0])) for t in ("f16", "f32")],
    ("transpose.nchw_to_nhwc", "f16", transpose, dict(shape=[32, 64, 112, 112], perm=[0, 2, 3, 1])),
    *[("embedding.16384x1024", t, gather, dict(table=50000, count=16384, width=1024)) for t in ("f16", "f32")],
    ("max_pool.32x64x112", "f16", max_pool, {}),
]


def collection_rows():
    """More shapes of the same kinds, for records that a model of the cost learns from."""
    found = []
    for t in ("f16", "bf16", "f32"):
        found += [(f"c.gemm.{m}x{n}x{k}", t, gemm, dict(m=m, n=n, k=k))
                  for m, n, k in ((512, 2048, 512), (2048, 2048, 8192), (77, 768, 3072), (3000, 1000, 500))]
        found += [(f"c.conv.{c}.{k}", t, conv, dict(batch=16, channels=c, size=s, filters=2 * c, kernel=k, stride=st))
                  for c, s, k, st in ((32, 112, 3, 2), (128, 28, 3, 1), (512, 7, 1, 1))]
        found += [(f"c.rows.{w}.{n}x{d}", t, rows, dict(what=w, count=n, width=d))
                  for w, n, d in (("softmax", 4096, 512), ("layernorm", 2048, 4096), ("softmax", 65536, 128))]
        found += [(f"c.sum.{a}", t, reduction, dict(axes=a, count=3000, width=5000)) for a in ([0], [1])]
        found += [(f"c.attention.{d}", t, attention, dict(batch=2, heads=8, tokens=1024, depth=d)) for d in (64, 128)]
        found += [(f"c.transpose.{p}", t, transpose, dict(shape=[256, 384, 512], perm=p))
                  for p in ([0, 2, 1], [2, 0, 1])]
    return found


def make(row, small=False, prefix=""):
    name, kind, function, arguments = row
    op = Operator(f"{name}.{kind}", kind, prefix)
    function(op, small, **arguments)
    return op


def model_of(operators):
    """One ONNX file with the operators side by side. Their prefixes differ."""
    parts = [(o.nodes, [i[:3] for i in o.inputs], o.outputs, o.initializers) for o in operators]
    return onnx.model(*[[item for part in parts for item in part[i]] for i in range(4)])
