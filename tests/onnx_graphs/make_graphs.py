#!/usr/bin/env python3
"""Random ONNX models with the results of ONNX Runtime, as cases for tcc-onnx-backend.

usage: make_graphs.py FOLDER --seed S --first I --count N

Each model has 5 to 40 operators, drawn over nearly all that `tcc ops` lists. ONNX Runtime runs every operator as it is
drawn, alone and with the values so far: shapes are known, what it refuses is drawn again, and the results are stored.
Operators with steps (comparisons, casts to integers, orders) read only values without rounding errors.
Prints a line of JSON: how often the models have each operator, and what ONNX Runtime refused.
"""
import argparse
import json
import math
import os
import random
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

OPSETS = (9, 11, 13, 17, 18, 19, 20, 21, 22, 23)
F16, F32, F64 = np.dtype("float16"), np.dtype("float32"), np.dtype("float64")
FLOATS = (F16, F32, F64)
INTEGERS = tuple(np.dtype(t) for t in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"))
WIDE_UNSIGNED = (np.dtype("uint32"), np.dtype("uint64"))
BOOL = np.dtype("bool")
EDGES = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 9.75)
LIMIT = 3000  # elements of one value
LONG = 64  # an axis with more elements is long

SETTINGS = ort.SessionOptions()
SETTINGS.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
SETTINGS.intra_op_num_threads = 1
SETTINGS.log_severity_level = 4
ort.set_default_logger_severity(4)


def type_of(dtype):
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


class Known:
    """A value of the graph. `exact`: every right program computes the same numbers. `either`: with zeros whose sign
    depends on what a sum begins with, or on which of two zeros is taken. `found`: its shape depends on the inputs."""

    def __init__(self, name, data, exact, either=False, found=False):
        self.name, self.data, self.exact, self.either, self.found = name, data, exact, either, found
        self.dtype, self.shape, self.rank = data.dtype, data.shape, data.ndim


class Maker:
    def __init__(self, seed, index):
        self.rng = random.Random(f"{seed}.{index}")
        self.np = np.random.default_rng([seed, index])
        self.opset = self.rng.choice(OPSETS)
        self.edges = index % 3 == 2
        self.nodes, self.initializers, self.inputs, self.known = [], [], [], []
        self.drawn, self.refused = {}, {}
        self.made = 0

    # --- values ---
    def chance(self, one_in):
        return self.rng.randrange(one_in) == 0

    def between(self, low, high):
        return self.rng.randint(low, high)

    def name(self, stem):
        self.made += 1
        return f"{stem}{self.made}"

    def shape(self, rank, most=7):
        return tuple(self.between(1, most) for _ in range(rank))

    def numbers(self, dtype, shape, low=None, high=None):
        """Multiples of a quarter, or any real numbers; edges where the graph has them."""
        dtype = np.dtype(dtype)
        if dtype == BOOL:
            return self.np.random(shape) < 0.5
        if dtype in INTEGERS:
            a = (0 if dtype.kind == "u" else -6) if low is None else low
            b = 9 if high is None else high
            data = self.np.integers(a, b, shape, endpoint=high is None).astype(dtype)
            if low is None and self.edges and self.chance(2):
                info = np.iinfo(dtype)
                data = np.where(self.np.random(shape) < 0.1, np.array(self.rng.choice((info.min, info.max)), dtype), data)
            return np.asarray(data, dtype)
        a, b = -4 if low is None else low, 4 if high is None else high
        data = self.np.random(shape) * (b - a) + a
        if self.chance(2):
            data = np.clip(np.round(data * 4) / 4, a, b)
        elif low is None:
            data = self.np.standard_normal(shape)
        data = np.asarray(data)
        if low is None and self.edges:
            mask = self.np.random(shape) < 0.15
            data = np.where(mask, self.np.choice(EDGES, shape), data)
        return np.asarray(data, dtype)

    def constant(self, data):
        data = np.asarray(data)
        name = self.name("c")
        self.initializers.append((name, data))
        return Known(name, data, True)

    def weights(self, dtype, shape, low=-1.0, high=1.0):
        """A second operand: an initializer, sometimes an input."""
        data = self.numbers(dtype, shape, low, high)
        if self.chance(4):
            return self.new_input(data)
        return self.constant(data)

    def new_input(self, data):
        k = Known(self.name("x"), data, True)
        self.inputs.append(k)
        return k

    def some(self, accepts=lambda k: True, found=False):
        """A known value, recent ones more often. Long ones are left to the steps that make them: bodies of loops would
        be repeated too often, and ONNX Runtime's DFT loses digits."""
        candidates = [k for k in self.known if k.found == found and (found or max(k.shape, default=0) <= LONG)]
        if not candidates:
            return None
        for _ in range(14):
            back = min(self.rng.randrange(len(candidates)), self.rng.randrange(len(candidates)))
            k = candidates[len(candidates) - 1 - back]
            if accepts(k):
                return k
        return None

    def real(self, exact=False, rank=None, types=FLOATS):
        return self.some(lambda k: k.dtype in types and (k.exact or not exact) and (rank is None or k.rank >= rank))

    def partner(self, x, low=None, high=None, exact=False):
        def fits(k):
            if k.dtype != x.dtype or (exact and not k.exact):
                return False
            try:
                np.broadcast_shapes(k.shape, x.shape)
                return True
            except ValueError:
                return False
        y = None if low is not None or self.chance(4) else self.some(fits)
        if y:
            return y
        shape = tuple(1 if self.chance(3) else e for e in x.shape[self.between(0, x.rank):])
        return self.weights(x.dtype, shape, low, high) if low is not None else self.constant(self.numbers(x.dtype, shape))

    # --- running ---
    def add(self, op, inputs, outputs=1, exact=False, ring=False, wild=False, domain="", opset=None, found=False,
            **attributes):
        """Appends a node if ONNX Runtime runs it and its results are worth comparing. exact: all inputs exact makes the
        outputs exact; ring: only where the results are short dyadic numbers; wild: infinities may come from finite."""
        if op in ("LpPool", "GlobalLpPool", "ReduceL2", "LpNormalization") and too_small_to_square(inputs[0].data):
            return None
        names = ["" if k is None else k.name for k in inputs]
        made = [self.name("v") for _ in range(outputs)]
        node = helper.make_node(op, names, made, domain=domain,
                                **{k: v for k, v in attributes.items() if v is not None})
        return self.add_nodes(op, [node], inputs, made, exact, ring, wild, found)

    def add_nodes(self, op, nodes, inputs, made, exact=False, ring=False, wild=False, found=False):
        inputs = list({k.name: k for k in inputs if k is not None}.values())
        try:
            results = self.run(nodes, inputs, made)
        except Exception as error:  # pylint: disable=broad-except
            self.refused[op] = str(error)[:300]
            return None
        arrays = [np.asarray(r) for r in results]
        all_exact = all(k.exact for k in inputs)
        finite_inputs = all(k.dtype not in FLOATS or np.isfinite(k.data).all() for k in inputs)
        if op == "MaxPool" and len(arrays) > 1 and (arrays[1] < 0).any():
            return None  # positions of windows beyond the input
        for r in arrays:
            if r.size > LIMIT or r.size == 0 or r.ndim > 6 or r.dtype not in (*FLOATS, *INTEGERS, BOOL):
                return None
            if r.dtype in FLOATS:
                finite = np.abs(r[np.isfinite(r)])
                info = np.finfo(r.dtype)
                if ((finite != 0) & (finite < info.tiny)).any():
                    return None  # kernels flush it
                if not (exact and all_exact) and finite.size and finite.max() > float(info.max) / 64:
                    return None  # near the end of the range rounding decides
                if finite_inputs and finite.size != r.size and not wild:
                    return None
                if op in ("Sigmoid", "Exp", "Softmax") and (r == 0).any():
                    return None  # a denormal is 0 there, and another number's share of it is not
                if op == "MaxPool" and (r == info.min).any():
                    return None  # of windows beyond the input, which are -inf
        self.nodes += nodes
        self.drawn[op] = self.drawn.get(op, 0) + 1
        for name, r in zip(made, arrays):
            good = all_exact and (exact or r.dtype not in FLOATS or (ring and short(r)))
            either = r.dtype in FLOATS and bool((r == 0).any()) and (op in EITHER_ZERO or any(k.either for k in inputs))
            self.known.append(Known(name, r, good, either, found))
        return self.known[-len(made):]

    def run(self, nodes, inputs, made):
        graph = helper.make_graph(nodes, "g",
                                  [helper.make_tensor_value_info(k.name, type_of(k.dtype), k.shape) for k in inputs],
                                  [onnx.ValueInfoProto(name=m) for m in made])
        session = ort.InferenceSession(self.model(graph).SerializeToString(), SETTINGS,
                                       providers=["CPUExecutionProvider"])
        return session.run(made, {k.name: k.data for k in inputs})

    def model(self, graph):
        return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", self.opset),
                                                                       helper.make_opsetid("com.microsoft", 1)])

    def make(self):
        common = self.shape(self.between(1, 4))
        types = (F32, F32, F16, F64, *INTEGERS, BOOL)
        for i in range(self.between(1, 4)):
            dtype = F32 if i == 0 else self.rng.choice(types)
            k = self.new_input(self.numbers(dtype, common if self.chance(2) else self.shape(self.between(0, 5), 6)))
            self.known.append(k)
        wanted, tries = self.between(5, 40), 0
        while len(self.nodes) < wanted and tries < 20 * wanted:
            tries += 1
            self.rng.choice(STEPS)(self)

    def save(self, folder):
        read = {name for node in self.nodes for name in node.input}
        read |= {name for node in self.nodes for a in node.attribute for inner in a.g.node for name in inner.input}
        outputs = [k for k in self.known if k.name not in read and any(k.name in n.output for n in self.nodes)]
        if not outputs:
            return False
        used = [k for k in self.inputs if k.name in read]
        if not used:
            return False
        graph = helper.make_graph(
            self.nodes, "random", [helper.make_tensor_value_info(k.name, type_of(k.dtype), k.shape) for k in used],
            [helper.make_tensor_value_info(k.name, type_of(k.dtype), None if k.found else k.shape) for k in outputs],
            [numpy_helper.from_array(np.asarray(d), n) for n, d in self.initializers if n in read])
        os.makedirs(folder + "/test_data_set_0")
        with open(folder + "/model.onnx", "wb") as file:
            file.write(self.model(graph).SerializeToString())
        for stem, values in (("input", used), ("output", outputs)):
            for i, k in enumerate(values):
                with open(f"{folder}/test_data_set_0/{stem}_{i}.pb", "wb") as file:
                    file.write(numpy_helper.from_array(np.asarray(k.data), k.name).SerializeToString())
        return True


def short(r):
    """Sums of such numbers have no rounding errors, in whatever order they are made."""
    finite = r[np.isfinite(r)].astype(F64)
    if finite.size != r.size:
        return False
    scale, most = (16, 64) if r.dtype == F16 else (256, 4096)
    return bool((np.abs(finite) <= most).all() and (finite * scale == np.round(finite * scale)).all())


def too_small_to_square(x):
    """Kernels flush squares below the normal range."""
    finite = np.abs(x[np.isfinite(x)].astype(F64)) if x.dtype in FLOATS else np.ones(1)
    return bool(((finite != 0) & (finite < (2.0**-500 if x.dtype == F64 else 2.0**-60))).any())


# --- operators -------------------------------------------------------------------------------------------------------
STEPS = []


def step(weight=1):
    def register(function):
        STEPS.extend([function] * weight)
        return function
    return register


EITHER_ZERO = set("Sum Mean Gemm MatMul FusedMatMul Einsum Conv ConvTranspose CumSum Max Min Relu Clip ReduceSum "
                  "ReduceMean ReduceMax ReduceMin ReduceProd MaxPool GlobalMaxPool AveragePool GlobalAveragePool TopK "
                  "Round ScatterElements ScatterND Loop Scan Resize Upsample".split())
SMOOTH = {op: 1 for op in ("Elu Sigmoid Tanh Softplus Softsign Erf Exp Sin Cos Atan Sinh Cosh Asinh Selu HardSigmoid "
                           "LeakyRelu HardSwish Mish Gelu Celu Swish").split()}
STEEP = "Sqrt Reciprocal Log Tan Asin Acos Acosh Atanh Shrink ThresholdedRelu".split()
WHOLE = "Abs Neg Relu Sign Floor Ceil Round IsNaN IsInf Identity".split()


@step(8)
def unary(m):
    op = m.rng.choice(list(SMOOTH) + STEEP + WHOLE)
    steep = op in STEEP or op in ("Sign", "Floor", "Ceil", "Round", "IsNaN", "IsInf")
    x = m.some(lambda k: (k.dtype in FLOATS or op in ("Abs", "Neg", "Relu", "Sign", "Identity", "Shrink")) and
               (k.exact or not steep))
    if x is None:
        return
    attributes = {}
    if op == "Shrink" and x.dtype in WIDE_UNSIGNED:
        return  # not supported by tcc, nor is an order of such updates in scatters
    if op == "Shrink" and x.dtype in INTEGERS and (np.abs(x.data.astype(F64)) > 2**24).any():
        return  # ONNX Runtime computes in single precision
    if op == "Reciprocal" and x.either:
        return
    if op == "ThresholdedRelu" and m.opset < 10:
        return  # the standard has it from opset 10 on
    if op == "Sign" and x.dtype == F16 and np.isnan(x.data).any():
        return  # ONNX Runtime makes 0 of NaN there, and keeps it in other types
    if op == "Shrink":
        attributes = {"lambd": 0.5, "bias": m.rng.choice((0.0, 0.25))}
    if op in ("ThresholdedRelu", "LeakyRelu", "Elu", "Celu") and m.chance(2):
        attributes = {"alpha": m.rng.choice((0.5, 0.25, 2.0))}
    if op == "Gelu" and m.chance(2):
        attributes = {"approximate": "tanh"}
    if op == "IsInf" and m.chance(2):
        attributes = {"detect_positive": m.between(0, 1), "detect_negative": m.between(0, 1)}
    if op in ("Gelu", "HardSwish", "Shrink") and x.dtype == F64:
        return  # its constants are of single precision in ONNX Runtime
    m.add(op, [x], exact=op in WHOLE, ring=True, wild=op in ("Reciprocal", "Log", "Atanh", "Tan", "Exp"), **attributes)


@step(8)
def binary(m):
    op = m.rng.choice("Add Sub Mul Div Pow Mod PRelu Max Min Mean Sum Add Mul".split())
    picks = op in ("Max", "Min", "PRelu")
    x = m.some(lambda k: k.dtype != BOOL and (k.dtype in FLOATS or op not in ("Mean", "Sum", "PRelu")))
    if x is None:
        return
    real = x.dtype in FLOATS
    if op == "Pow":
        if not x.exact or x.either:
            return
        y = m.weights(x.dtype, (), 0, 4) if m.chance(2) else m.partner(x, 0 if not real else -2, 3)
        if not real and (np.power(x.data.astype(F64), y.data.astype(F64)) > 2**30).any():
            return
        return void(m.add(op, [x, y], wild=True))
    if op == "Mod":
        fmod = int(real or m.chance(2))
        y = m.partner(x, 1, 5)
        if x.exact:
            m.add(op, [x, y], exact=True, fmod=fmod)
        return
    if op == "Div":
        y = m.partner(x, 1, 4) if not real or not m.edges or m.chance(2) else m.partner(x, exact=True)
        return void(None if y.either else m.add(op, [x, y], wild=True, exact=not real, ring=True))
    if op == "PRelu":
        shape = x.shape[m.between(0, x.rank):]
        return void(m.add(op, [x, m.weights(x.dtype, tuple(1 if m.chance(3) else e for e in shape))], ring=True))
    y = m.partner(x)
    inputs = [x, y]
    if op in ("Max", "Min", "Mean", "Sum") and m.chance(2):
        inputs.append(m.partner(x))
    m.add(op, inputs, exact=picks or not real, ring=True)


def void(_):
    return None


@step(3)
def compare(m):
    op = m.rng.choice("Equal Less Greater LessOrEqual GreaterOrEqual".split())
    x = m.some(lambda k: k.exact and (k.dtype != BOOL or op == "Equal"))
    if x is None:
        return
    m.add(op, [x, m.partner(x, exact=True)], exact=True)


@step(3)
def logic(m):
    op = m.rng.choice("And Or Xor Not BitwiseAnd BitwiseOr BitwiseXor BitwiseNot BitShift".split())
    bits = op.startswith("Bit")
    x = m.some(lambda k: k.dtype in INTEGERS if bits else k.dtype == BOOL)
    if x is None:
        return
    if op in ("Not", "BitwiseNot"):
        return void(m.add(op, [x], exact=True))
    if op == "BitShift":
        if x.dtype.kind != "u":
            return
        return void(m.add(op, [x, m.constant(m.numbers(x.dtype, (), 0, 8 * x.dtype.itemsize))], exact=True,
                          direction=m.rng.choice(("LEFT", "RIGHT"))))
    m.add(op, [x, m.partner(x)], exact=True)


@step(3)
def cast(m):
    to = m.rng.choice((*FLOATS, *INTEGERS, BOOL))
    x = m.some(lambda k: k.dtype != to and (k.exact or to in FLOATS))
    if x is None:
        return
    if x.dtype in FLOATS and to in INTEGERS:  # the standard leaves values out of range open
        info = np.iinfo(to)
        with np.errstate(all="ignore"):
            inside = np.isfinite(x.data) & (np.trunc(x.data.astype(F64)) >= info.min) & (
                np.trunc(x.data.astype(F64)) <= min(info.max, 2.0**53))
        if not inside.all():
            return
    if x.dtype in INTEGERS and to in FLOATS and (np.abs(x.data.astype(F64)) > 2.0**(np.finfo(to).nmant + 1)).any():
        return  # the reference in double does not round these, and sums of them cancel
    if m.chance(6):
        return void(m.add("CastLike", [x, m.constant(m.numbers(to, (1,)))], exact=True, wild=True))
    m.add("Cast", [x], exact=True, wild=True, to=type_of(to))


@step(4)
def reduce(m):
    op = m.rng.choice("ReduceMean ReduceMax ReduceSum ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum "
                      "ReduceLogSumExp ReduceSumSquare".split())
    x = m.some(lambda k: k.dtype != BOOL)
    if x is None or (op == "ReduceLogSum" and not (x.exact and x.dtype in FLOATS)):
        return
    axes = [i - (x.rank if m.chance(3) else 0) for i in range(x.rank) if m.chance(2)]
    picks = op in ("ReduceMax", "ReduceMin")
    if picks and x.dtype in FLOATS and np.isnan(x.data).any():
        return  # over all axes ONNX Runtime loses NaN, over some it keeps it
    power = 2 if op in ("ReduceL2", "ReduceSumSquare") else 1
    if x.dtype in INTEGERS and (np.abs(x.data.astype(F64)) ** power).sum() > 2**24:
        return  # it adds integers in other types
    if op == "ReduceProd" and x.dtype in INTEGERS and np.abs(np.prod(np.maximum(np.abs(x.data.astype(F64)), 1))) > 2**30:
        return
    if op in ("ReduceLogSum", "ReduceLogSumExp") and (x.dtype in INTEGERS or np.isnan(x.data).any()):
        return  # integers are what is left of a rounded number; over all axes it loses NaN
    as_input = m.opset >= 18 or (op == "ReduceSum" and m.opset >= 13)
    inputs, attributes = [x], {"keepdims": m.between(0, 1)}
    if as_input:
        if axes or m.chance(2):
            inputs.append(m.constant(np.array(axes, np.int64)))
        if not axes and m.chance(2):
            attributes["noop_with_empty_axes"] = 1
    elif axes:
        attributes["axes"] = axes
    m.add(op, inputs, exact=picks or x.dtype not in FLOATS, ring=op in ("ReduceSum", "ReduceL1", "ReduceSumSquare"),
          wild=op == "ReduceLogSum", **attributes)


@step(2)
def arg(m):
    x = m.some(lambda k: k.exact and k.rank > 0 and k.dtype != BOOL)
    if x is None:
        return
    if x.dtype in FLOATS and np.isnan(x.data).any():
        return  # ONNX Runtime's own order of NaN depends on the vector width
    m.add(m.rng.choice(("ArgMax", "ArgMin")), [x], exact=True, axis=m.between(-x.rank, x.rank - 1),
          keepdims=m.between(0, 1), select_last_index=m.between(0, 1) if m.opset >= 12 else None)


@step(3)
def matmul(m):
    x = m.some(lambda k: k.rank > 0 and k.dtype != BOOL)
    if x is None:
        return
    kind = m.between(0, 4)
    if x.rank == 2 and kind == 0:
        n, ta, tb = m.between(1, 6), m.between(0, 1), m.between(0, 1)
        k, rows = (x.shape[0], x.shape[1]) if ta else (x.shape[1], x.shape[0])
        inputs = [x, m.weights(x.dtype, (n, k) if tb else (k, n), -2, 3)]
        if m.chance(2) or m.opset < 11:
            inputs.append(m.weights(x.dtype, m.rng.choice(((n,), (rows, 1), (1, n), (rows, n), (1,), ())), -2, 3))
        return void(m.add("Gemm", inputs, ring=True, transA=ta, transB=tb, alpha=m.rng.choice((1.0, 0.5)),
                          beta=m.rng.choice((1.0, 2.0))))
    if kind == 1 and x.dtype in FLOATS and x.rank >= 2:
        y = m.weights(x.dtype, (*x.shape[:-2], m.between(1, 5), x.shape[-1]))
        return void(m.add("FusedMatMul", [x, y], domain="com.microsoft", transB=1, alpha=0.5))
    y = m.some(lambda k: k.dtype == x.dtype and k.rank >= 2 and k.shape[-2] == x.shape[-1])
    if y is None:
        y = m.weights(x.dtype, m.rng.choice(((x.shape[-1],), (x.shape[-1], m.between(1, 6)),
                                             (*(x.shape[:-2] or (2,)), x.shape[-1], m.between(1, 4)))), -2, 3)
    m.add("MatMul", [x, y], ring=True)


@step(2)
def einsum(m):
    if m.opset < 12:
        return
    x = m.some(lambda k: 1 <= k.rank <= 4 and k.dtype in (F32, F64, np.dtype("int32")))
    if x is None:
        return
    letters = "abcd"[:x.rank]
    contracted = m.rng.choice(letters)
    other = "".join(c for c in letters if m.chance(2) or c == contracted)
    sizes = dict(zip(letters, x.shape))
    out = [c for c in letters if c != contracted or m.chance(4)] + ["z"]
    m.rng.shuffle(out)
    y = m.weights(x.dtype, (*(sizes[c] for c in other), 3), -2, 3)
    m.add("Einsum", [x, y], ring=True, equation=f"{letters},{other}z->{''.join(out)}")


def image(m, types=FLOATS):
    return m.some(lambda k: k.dtype in types and 3 <= k.rank <= 5)


@step(3)
def conv(m):
    x = image(m)
    if x is None:
        return
    axes, c = x.rank - 2, x.shape[1]
    kernel = [m.between(1, 3) for _ in range(axes)]
    attributes = {"kernel_shape": kernel if m.chance(2) else None, "strides": [m.between(1, 2) for _ in range(axes)],
                  "dilations": [m.between(1, 2) for _ in range(axes)]}
    if m.chance(4):
        attributes["auto_pad"] = m.rng.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))
        attributes["dilations"] = None
    else:
        attributes["pads"] = [m.between(0, 2) for _ in range(2 * axes)]
    group = m.rng.choice([g for g in range(1, c + 1) if c % g == 0])
    if m.chance(3):
        per = m.between(1, 3)
        if not np.isfinite(x.data).all():
            return  # kernels may multiply with zeros between the elements
        if "auto_pad" in attributes and any(k < s for k, s in zip(kernel, attributes["strides"])):
            return  # ONNX Runtime's output is smaller than input * stride
        w = m.weights(x.dtype, (c, per, *kernel))
        inputs = [x, w] + ([m.weights(x.dtype, (per * group,))] if m.chance(2) else [])
        if "pads" in attributes:
            attributes["pads"] = [min(p, k - 1) for p, k in zip(attributes["pads"], kernel * 2)]
            attributes["output_padding"] = [s - 1 if m.chance(2) else 0 for s in attributes["strides"]]
        return void(m.add("ConvTranspose", inputs, ring=True, group=group, **attributes))
    out = group * m.between(1, 3)
    inputs = [x, m.weights(x.dtype, (out, c // group, *kernel))] + ([m.weights(x.dtype, (out,))] if m.chance(2) else [])
    m.add("Conv", inputs, ring=True, group=group, **attributes)


@step(3)
def pool(m):
    op = m.rng.choice("MaxPool AveragePool LpPool GlobalAveragePool GlobalMaxPool GlobalLpPool".split())
    x = image(m, FLOATS + (np.dtype("int8"), np.dtype("uint8")) if op == "MaxPool" else FLOATS)
    if x is None:
        return
    if op.startswith("Global"):
        if op == "GlobalMaxPool" and not np.isfinite(x.data).all():
            return
        return void(m.add(op, [x], exact=op == "GlobalMaxPool"))
    if op == "MaxPool" and x.dtype in FLOATS and not (x.data > -np.inf).all():
        return  # which NaN comes through depends on the vector width, and -inf becomes the lowest number
    axes = x.rank - 2
    kernel = [m.between(1, 3) for _ in range(axes)]
    attributes = {"kernel_shape": kernel, "strides": [m.between(1, 3) for _ in range(axes)]}
    if m.chance(4):
        attributes["auto_pad"] = m.rng.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))
    else:
        attributes["pads"] = [m.between(0, k - 1) for k in kernel * 2]
    if op != "LpPool" and m.opset >= 10 or m.opset >= 18:
        attributes["ceil_mode"] = m.between(0, 1)
    if (op == "MaxPool" and m.opset >= 10) or m.opset >= 19:
        attributes["dilations"] = [m.between(1, 2) for _ in range(axes)]
    if "auto_pad" in attributes:
        attributes["dilations"] = None  # ONNX Runtime pads as if the window had none
        if any(k < s for k, s in zip(kernel, attributes["strides"])):
            return  # pads would be negative
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, attributes.get("dilations") or [1] * axes)]
    pads = attributes.get("pads", [0] * 2 * axes)
    if any(n > e + a + b for n, e, a, b in zip(reach, x.shape[2:], pads, pads[axes:])) and not attributes.get("ceil_mode"):
        return  # a negative number of windows, which ONNX Runtime rounds up to one
    if op == "AveragePool":
        attributes["count_include_pad"] = m.between(0, 1)
        if any(d > 1 and (e <= d or a or b) for d, e, a, b in
               zip(attributes.get("dilations") or [1] * axes, x.shape[2:], pads, pads[axes:])):
            attributes["count_include_pad"] = 1  # a window between its elements has none, and no mean
    if op == "LpPool":
        attributes["p"] = m.between(1, 3)
    outputs = 1
    if op == "MaxPool" and m.chance(4) and not np.isnan(x.data.astype(F64)).any() and x.exact:
        outputs = 2
    m.add(op, [x], outputs=outputs, exact=op == "MaxPool", **attributes)


@step(4)
def norm(m):
    op = m.rng.choice("Softmax LogSoftmax Hardmax LayerNormalization BatchNormalization InstanceNormalization LRN "
                      "GroupNormalization LpNormalization MeanVarianceNormalization RMSNormalization "
                      "SimplifiedLayerNormalization".split())
    x = m.real(rank=1, exact=op == "Hardmax")
    if x is None or (op == "Hardmax" and np.isnan(x.data).any()):
        return
    if x.dtype == F64 and op in ("LayerNormalization", "GroupNormalization", "RMSNormalization",
                                               "SimplifiedLayerNormalization"):
        return  # ONNX Runtime computes in single precision, as stash_type says
    axis = m.between(-x.rank, x.rank - 1)
    if op in ("Softmax", "LogSoftmax", "Hardmax"):
        if op == "LogSoftmax" and x.dtype == F64 and not np.isfinite(x.data).all():
            return  # ONNX Runtime has other rules there than for single precision
        return void(m.add(op, [x], axis=axis, exact=op == "Hardmax"))
    if op == "LpNormalization":
        p = m.between(1, 2)
        with np.errstate(all="ignore"):
            norms = np.linalg.norm(np.moveaxis(x.data.astype(F64), axis, -1), p, axis=-1)
        if (norms < 0.05).any() and not x.exact:
            return  # ONNX Runtime's Sigmoid, for one, has a small absolute error, which grows here
        return void(m.add(op, [x], axis=axis, p=p))
    if op in ("LayerNormalization", "RMSNormalization"):
        shape = x.shape[axis:] if axis < 0 else x.shape[axis:]
        inputs = [x, m.weights(x.dtype, shape, 0.5, 2)]
        if op == "LayerNormalization" and m.chance(2):
            inputs.append(m.weights(x.dtype, shape))
        return void(m.add(op, inputs, axis=axis, epsilon=1e-2))
    if op == "SimplifiedLayerNormalization":
        return void(m.add(op, [x, m.weights(x.dtype, x.shape[-1:], 0.5, 2)], axis=-1, epsilon=1e-2))
    if x.rank < 2:
        return
    c = x.shape[1]
    scale, bias = m.weights(x.dtype, (c,), 0.5, 2), m.weights(x.dtype, (c,))
    if op == "BatchNormalization":
        return void(m.add(op, [x, scale, bias, m.weights(x.dtype, (c,)), m.weights(x.dtype, (c,), 0.5, 2)]))
    if x.rank < 3:
        return
    if op == "LRN":
        if not np.isfinite(x.data).all() or np.abs(x.data).max() > 30:
            return  # ONNX Runtime adds to and subtracts from one sum, which keeps the errors of the greatest squares
        return void(m.add(op, [x], size=2 * m.between(0, 2) + 1, alpha=1e-2, beta=0.75, bias=1.0))
    if op == "GroupNormalization":
        groups = m.rng.choice([g for g in range(1, c + 1) if c % g == 0])
        if m.opset < 21:
            scale, bias = m.weights(x.dtype, (groups,), 0.5, 2), m.weights(x.dtype, (groups,))
        return void(m.add(op, [x, scale, bias], num_groups=groups, epsilon=1e-2))
    if op == "MeanVarianceNormalization":
        if (x.data.astype(F64).std(axis=tuple(i for i in range(x.rank) if i != 1)) < 0.1).any():
            return  # there is no variance but rounding
        return void(m.add(op, [x], axes=[i for i in range(x.rank) if i != 1]))
    m.add(op, [x, scale, bias], epsilon=1e-2)


@step(4)
def reshape(m):
    x = m.some()
    op = m.rng.choice("Reshape Flatten Squeeze Unsqueeze Identity Dropout".split())
    if op == "Reshape":
        shape = list(x.shape)
        if len(shape) >= 2 and m.chance(2):
            shape[:2] = [shape[0] * shape[1]]
        elif m.chance(2):
            shape.insert(m.between(0, len(shape)), 1)
        if shape and m.chance(2):
            shape[m.rng.randrange(len(shape))] = -1
        elif shape and len(shape) <= x.rank and shape[0] == x.shape[0]:
            shape[0] = 0
        return void(m.add(op, [x, m.constant(np.array(shape, np.int64))], exact=True))
    if op == "Flatten":
        return void(m.add(op, [x], exact=True, axis=m.between(0, x.rank)))
    if op == "Identity":
        return void(m.add(op, [x], exact=True))
    if op == "Dropout":
        return void(m.add(op, [x], exact=True) if x.dtype in FLOATS else None)
    if op == "Squeeze":
        axes = [i for i, e in enumerate(x.shape) if e == 1]
    else:
        axes = sorted({m.between(0, x.rank), m.between(0, x.rank + 1)})
        axes = axes if max(axes) < x.rank + len(axes) else [0]
    if m.opset >= 13:
        m.add(op, [x, m.constant(np.array(axes, np.int64))], exact=True)
    else:
        m.add(op, [x], exact=True, axes=axes or None)


@step(4)
def move(m):
    x = m.some(lambda k: k.rank > 0)
    if x is None:
        return
    op = m.rng.choice("Transpose Concat Expand Tile Pad Split DepthToSpace SpaceToDepth ReverseSequence Trilu "
                      "CenterCropPad".split())
    if op == "Transpose":
        perm = list(range(x.rank))
        m.rng.shuffle(perm)
        return void(m.add(op, [x], exact=True, perm=perm))
    if op == "Concat":
        axis = m.rng.randrange(x.rank)
        others = [m.some(lambda k: k.dtype == x.dtype and k.rank == x.rank and
                         all(a == b for i, (a, b) in enumerate(zip(k.shape, x.shape)) if i != axis)) or x
                  for _ in range(m.between(0, 2))]
        return void(m.add(op, [x, *others], exact=True, axis=axis - (x.rank if m.chance(2) else 0)))
    if op == "Expand":
        shape = [m.between(1, 4) if e == 1 else m.rng.choice((e, 1)) for e in x.shape]
        if m.chance(2):
            shape.insert(0, m.between(1, 3))
        return void(m.add(op, [x, m.constant(np.array(shape, np.int64))], exact=True))
    if op == "Tile":
        return void(m.add(op, [x, m.constant(np.array([m.between(1, 3) for _ in x.shape], np.int64))], exact=True))
    if op == "Pad":
        mode = m.rng.choice(("constant", "constant", "reflect", "edge") + (("wrap",) if m.opset >= 19 else ()))
        pads = [m.between(-1 if e > 2 and mode == "constant" else 0, min(2, e - 1) if mode == "reflect" else 2)
                for e in x.shape * 2]
        if m.opset < 11:
            return void(m.add(op, [x], exact=True, pads=pads, mode=mode))
        inputs = [x, m.constant(np.array(pads, np.int64))]
        if mode == "constant" and m.chance(2):
            inputs.append(m.constant(m.numbers(x.dtype, ())))
        return void(m.add(op, inputs, exact=True, mode=mode))
    if op == "Split":
        axis = m.rng.randrange(x.rank)
        e = x.shape[axis]
        if e < 2:
            return
        sizes = [m.between(1, e - 1)]
        sizes.append(e - sizes[0])
        if m.opset >= 13:
            return void(m.add(op, [x, m.constant(np.array(sizes, np.int64))], 2, exact=True, axis=axis))
        return void(m.add(op, [x], 2, exact=True, axis=axis, split=sizes))
    if op == "ReverseSequence":
        if x.rank < 2:
            return
        batch = m.between(0, 1)
        lengths = m.constant(m.np.integers(1, x.shape[1 - batch] + 1, x.shape[batch]).astype(np.int64))
        return void(m.add(op, [x, lengths], exact=True, batch_axis=batch, time_axis=1 - batch))
    if op == "Trilu":
        if x.rank < 2 or m.opset < 14:
            return
        inputs = [x] + ([m.constant(np.int64(m.between(-2, 2)))] if m.chance(2) else [])
        return void(m.add(op, inputs, exact=True, upper=m.between(0, 1)))
    if op == "CenterCropPad":
        shape = [m.between(1, 7) for _ in x.shape]
        return void(m.add(op, [x, m.constant(np.array(shape, np.int64))], exact=True))
    if x.rank != 4:
        return
    if op == "SpaceToDepth":
        return void(m.add(op, [x], exact=True, blocksize=m.between(1, 2)))
    m.add(op, [x], exact=True, blocksize=m.between(1, 2),
          mode=m.rng.choice(("DCR", "CRD")) if m.opset >= 11 else None)


@step(3)
def cut(m):
    x = m.some(lambda k: k.rank > 0)
    if x is None:
        return
    axes = [i for i in range(x.rank) if m.chance(2)] or [0]
    starts, ends, steps = [], [], []
    for a in axes:
        e, back = x.shape[a], m.opset >= 10 and m.chance(3)
        starts.append(m.between(-e - 1, e + 1) if not back else m.between(0, e + 1))
        ends.append(m.between(1, e + 2) if not back else m.rng.choice((-e - 1, -(2 ** 40), 0)))
        steps.append(-m.between(1, 2) if back else m.between(1, 2) if m.opset >= 10 else 1)
    if m.opset < 10:
        return void(m.add("Slice", [x], exact=True, starts=starts, ends=ends, axes=axes))
    kind = m.rng.choice((np.int64, np.int64, np.int32))
    clipped = [np.clip(np.array(v, np.int64), -2**31, 2**31 - 1).astype(kind) for v in (starts, ends, axes, steps)]
    m.add("Slice", [x, *(m.constant(v) for v in clipped)], exact=True)


def indices(m, shape, extent):
    data = m.np.integers(-extent if m.opset >= 11 and m.chance(3) else 0, extent, shape)
    k = np.asarray(data, m.rng.choice((np.int64, np.int64, np.int32)))
    return m.new_input(k) if m.chance(4) else m.constant(k)


@step(3)
def gather(m):
    x = m.some(lambda k: k.rank > 0)
    if x is None:
        return
    op = m.rng.choice("Gather GatherElements GatherND OneHot Compress".split())
    axis = m.rng.randrange(x.rank)
    e = x.shape[axis]
    given = axis - (x.rank if m.chance(3) else 0)
    if op == "Gather":
        return void(m.add(op, [x, indices(m, m.shape(m.between(0, 2), 4), e)], exact=True, axis=given))
    if op == "GatherElements":
        shape = [m.between(1, s) for s in x.shape]
        shape[axis] = m.between(1, 5)
        return void(m.add(op, [x, indices(m, shape, e)], exact=True, axis=given))
    if op == "GatherND":
        batch = m.between(0, 1) if x.rank > 1 and m.opset >= 12 else 0
        depth = m.between(1, x.rank - batch)
        data = np.stack([m.np.integers(0, x.shape[batch + i], (*x.shape[:batch], 3)) for i in range(depth)], -1)
        return void(m.add(op, [x, m.constant(data.astype(np.int64))], exact=True,
                          batch_dims=batch if m.opset >= 12 else None))
    if op == "Compress":
        keep = np.zeros(e, bool)
        keep[m.np.integers(0, e, 2)] = True
        return void(m.add(op, [x, m.constant(keep)], exact=True, axis=given))
    i = m.some(lambda k: k.dtype in (np.dtype("int64"), np.dtype("int32"), F32) and k.exact)
    if i is None or (i.dtype == F32 and not (np.isfinite(i.data).all() and (np.abs(i.data) < 2**20).all())):
        return
    t = m.rng.choice((np.float32, np.int64, np.int32))
    m.add(op, [i, m.constant(np.array(m.between(2, 5), np.int64)), m.constant(m.numbers(t, (2,), 1, 5))], exact=True,
          axis=m.between(-1, i.rank))


@step(3)
def scatter(m):
    x = m.some(lambda k: k.rank > 0)
    if x is None:
        return
    reductions = ["none"] + (["add", "mul"] if m.opset >= 16 else []) + (["max", "min"] if m.opset >= 18 else [])
    reduction = "none" if x.dtype == BOOL else m.rng.choice(reductions)
    if reduction in ("max", "min") and x.dtype in WIDE_UNSIGNED:
        return
    if reduction in ("max", "min") and x.dtype in FLOATS and np.isnan(x.data).any():
        return  # the standard's reference keeps NaN, ONNX Runtime does not
    attributes = {"reduction": reduction} if m.opset >= 16 else {}
    exact = reduction in ("none", "max", "min") or x.dtype not in FLOATS
    if m.chance(2):
        axis = m.rng.randrange(x.rank)
        shape = tuple(m.between(1, s) for s in x.shape)
        index = m.np.integers(0, x.shape[axis], shape)
        if reduction == "none":  # each place once: the standard leaves the order open
            order = np.argsort(m.np.random(x.shape), axis=axis)
            index = order[tuple(slice(0, s) for s in shape)]
        return void(m.add("ScatterElements" if m.opset >= 11 else "Scatter",
                          [x, m.constant(np.asarray(index, np.int64)), m.weights(x.dtype, shape, 0, 3)], exact=exact,
                          ring=True, axis=axis, **attributes))
    depth = m.between(1, x.rank)
    places = int(np.prod(x.shape[:depth]))
    count = m.between(1, min(4, places))
    flat = m.np.choice(places, count, replace=reduction != "none")
    index = np.stack(np.unravel_index(flat, x.shape[:depth]), -1).astype(np.int64)
    m.add("ScatterND", [x, m.constant(index), m.weights(x.dtype, (count, *x.shape[depth:]), 0, 3)], exact=exact, ring=True,
          **attributes)


@step(3)
def scan(m):
    x = m.some(lambda k: k.rank > 0 and k.dtype != BOOL)
    if x is None:
        return
    if m.chance(3) and x.exact:
        if x.dtype in FLOATS and np.isnan(x.data).any():
            return
        axis = m.rng.randrange(x.rank)
        k = m.between(1, x.shape[axis])
        if m.opset < 10:
            return void(m.add("TopK", [x], 2, exact=True, k=k, axis=axis))
        attributes = {"largest": m.between(0, 1), "sorted": 1} if m.opset >= 11 else {}
        return void(m.add("TopK", [x, m.constant(np.array([k], np.int64))], 2, exact=True, axis=axis, **attributes))
    m.add("CumSum", [x, m.constant(np.array(m.between(-x.rank, x.rank - 1), np.int64))], ring=True,
          exact=x.dtype not in FLOATS, exclusive=m.between(0, 1), reverse=m.between(0, 1))


def long_input(m, types):
    """Of up to LIMIT elements, with ties."""
    long = m.between(100, LIMIT if m.chance(2) else 600)
    shape = [(long,), (2, long // 2), (long // 3, 3), (2, long // 6, 3)][m.between(0, 3)]
    dtype = np.dtype(m.rng.choice(types))
    most = min(m.rng.choice((3, 40, 1000)), 100 if dtype.itemsize == 1 else 1000)
    data = m.np.integers(0, most, shape)
    if dtype in FLOATS:
        data = data / 4 - m.rng.choice((0, 1, 10))
        if m.edges:
            data = np.where(m.np.random(shape) < 0.1, m.np.choice((math.inf, -math.inf, -0.0), shape), data)
    return m.new_input(data.astype(dtype))


@step(2)
def long_order(m):
    """Sorts and scatters of more elements than other operators have."""
    x = long_input(m, (F32, F64, np.int64, np.int32))
    axis = int(np.argmax(x.shape)) if not m.chance(4) else m.rng.randrange(x.rank)
    e = x.shape[axis]
    if m.chance(2) and m.opset >= 11:
        k = m.rng.choice((1, m.between(1, e), m.between(1, max(1, e // 8)), e))
        return void(m.add("TopK", [x, m.constant(np.array([k], np.int64))], 2, exact=True, axis=axis,
                          largest=m.between(0, 1), sorted=1))
    if m.opset < 18 or np.isinf(x.data.astype(F64)).any():
        return
    reduction = m.rng.choice("add max min".split())
    shape = tuple(m.between(1, s) for s in x.shape)
    index = np.asarray(m.np.integers(-e, e, shape), np.int64)
    updates = m.new_input(m.np.integers(-3, 4, shape).astype(x.dtype))
    m.add("ScatterElements", [x, m.constant(index), updates], exact=reduction != "add" or x.dtype not in FLOATS,
          ring=True, axis=axis, reduction=reduction)


@step(3)
def find(m):
    """Results whose number of elements only a run knows."""
    op = m.rng.choice("NonZero Compress Unique".split())
    types = (F32, F64, np.int64, np.int8) if op == "Unique" else (F32, np.int64, np.int32)
    accepts = lambda k: k.exact and k.rank > 0 and k.dtype in [np.dtype(t) for t in types]  # noqa: E731
    x = long_input(m, types) if m.chance(2) else m.some(accepts)
    if x is None or (x.dtype in FLOATS and np.isnan(x.data).any()):
        return  # ONNX Runtime compares NaN as its map happens to
    if op == "NonZero":
        return void(m.add(op, [x], exact=True, found=True))
    axis = m.rng.randrange(x.rank)
    if op == "Compress":
        given = m.chance(2)
        long = x.shape[axis] if given else x.data.size
        keep = m.np.random(m.between(1, long)) < m.rng.random()
        return void(m.add(op, [x, m.new_input(keep)], exact=True, found=True, axis=axis if given else None))
    if m.opset < 11:
        return
    given = m.chance(2) and x.data.size // x.shape[axis] <= 16
    m.add(op, [x], 4, exact=True, found=True, axis=axis if given else None, sorted=m.between(0, 1))


@step(5)
def of_found(m):
    """What follows from such results."""
    k = m.some(lambda k: k.rank > 0 and k.dtype in (F32, F64, np.dtype("int64"), np.dtype("int32")), found=True)
    if k is None:
        return
    whole = tuple(range(k.rank))
    op = m.rng.choice("Abs Neg Cast Add Transpose Concat CumSum TopK ReduceSum ReduceMax ReduceMin ArgMax Shape Gather "
                      "Unique Where".split())
    if op in ("Abs", "Neg"):
        m.add(op, [k], exact=True, found=True)
    elif op == "Cast" and k.dtype in INTEGERS:
        m.add(op, [k], exact=True, found=True, to=TensorProto.FLOAT)
    elif op == "Add":
        m.add(op, [k, k], exact=k.dtype not in FLOATS, ring=True, found=True)
    elif op == "Transpose":
        m.add(op, [k], exact=True, found=True, perm=m.rng.sample(whole, k.rank))
    elif op == "Concat":
        m.add(op, [k, k], exact=True, found=True, axis=m.rng.randrange(k.rank))
    elif op == "CumSum" and m.opset >= 11:
        m.add(op, [k, m.constant(np.array(m.rng.randrange(k.rank), np.int64))], exact=k.dtype not in FLOATS, ring=True,
              found=True, reverse=m.between(0, 1))
    elif op == "TopK" and m.opset >= 11 and k.exact and not np.isnan(k.data.astype(F64)).any():
        axis = m.rng.randrange(k.rank)
        m.add(op, [k, m.constant(np.array([m.between(1, k.shape[axis])], np.int64))], 2, exact=True, found=True,
              axis=axis, largest=m.between(0, 1))
    elif op == "ReduceSum" and m.opset >= 13 and (k.dtype in FLOATS or np.abs(k.data.astype(F64)).sum() <= 2**24):
        m.add(op, [k], exact=k.dtype not in FLOATS, ring=True, keepdims=m.between(0, 1))
    elif op in ("ReduceMax", "ReduceMin") and k.exact and m.opset < 18 and (m.opset >= 12 or k.dtype != np.int64):
        m.add(op, [k], exact=True, keepdims=m.between(0, 1))
    elif op == "ArgMax" and k.exact and k.dtype != np.int64 and not np.isnan(k.data.astype(F64)).any():
        m.add(op, [k], exact=True, found=k.rank > 1, axis=m.rng.randrange(k.rank), keepdims=m.between(0, 1))
    elif op == "Shape":
        m.add(op, [k], exact=True)
    elif op == "Gather" and k.dtype in (np.dtype("int64"), np.dtype("int32")) and k.exact:
        source = long_input(m, (F32, np.int64))
        if 0 <= k.data.min() and k.data.max() < source.shape[0] and k.data.size * source.data[0].size <= LIMIT:
            m.add(op, [source, k], exact=True, found=True)
    elif op == "Unique" and k.exact and m.opset >= 11 and k.dtype != np.int32:
        if not np.isnan(k.data.astype(F64)).any():
            m.add(op, [k], 4, exact=True, found=True, sorted=m.between(0, 1))
    elif op == "Where" and k.exact:
        zero = m.constant(np.array(0, k.dtype))
        m.add_nodes("Where", [helper.make_node("Greater", [k.name, zero.name], [a := m.name("v")]),
                              helper.make_node("Where", [a, k.name, zero.name], [b := m.name("v")])], [k, zero], [b],
                    exact=True, found=True)


@step(3)
def resize(m):
    op = m.rng.choice("Resize Resize Resize Upsample GridSample AffineGrid RoiAlign".split())
    x = image(m, (F32,))
    if x is None or not np.isfinite(x.data).all():
        return  # whether 0 * NaN counts depends on the mode
    if op == "Upsample":
        if m.opset == 9:
            m.add(op, [x, m.constant(np.array([1, 1] + [m.rng.choice((1, 1.5, 2)) for _ in x.shape[2:]], np.float32))],
                  mode=m.rng.choice(("nearest", "linear")), exact=False)
        return
    if op == "GridSample":
        if x.rank != 4 or m.opset < 16:
            return
        linear, cubic = ("bilinear", "bicubic") if m.opset < 20 else ("linear", "cubic")
        mode, padding = m.rng.choice((linear, cubic)), m.rng.choice(("zeros", "border", "reflection"))
        # Beyond the border ONNX Runtime moves both coordinates, the standard's reference only the one that is beyond it.
        most = 1 if mode == cubic and padding == "border" else 1.3
        grid = m.weights(F32, (x.shape[0], 3, 4, 2), -most, most)
        return void(m.add(op, [x, grid], mode=mode, align_corners=m.between(0, 1), padding_mode=padding))
    if op == "AffineGrid":
        theta = m.weights(F32, (2, 2, 3))
        return void(m.add(op, [theta, m.constant(np.array([2, 3, m.between(2, 4), m.between(2, 5)], np.int64))],
                          align_corners=m.between(0, 1)))
    if op == "RoiAlign":
        if x.rank != 4 or m.opset < 11 or not np.isfinite(x.data).all():
            return
        rois = m.constant(np.array([[0, 0, 2.5, 3.25], [0.5, 1, 3, 2.75]], np.float32))
        return void(m.add(op, [x, rois, m.constant(np.array([0, x.shape[0] - 1], np.int64))],
                          mode=m.rng.choice(("avg", "max")), output_height=2, output_width=3, sampling_ratio=2,
                          coordinate_transformation_mode="half_pixel" if m.opset >= 16 else None))
    if m.opset < 11:
        return
    mode = m.rng.choice(("nearest", "linear", "cubic"))
    to = [x.shape[0], x.shape[1]] + [m.between(1, 9) for _ in x.shape[2:]]
    transform = m.rng.choice("half_pixel asymmetric align_corners pytorch_half_pixel".split() +
                             (["half_pixel_symmetric"] if m.opset >= 19 else []))
    attributes = {"mode": mode, "coordinate_transformation_mode": transform}
    if mode == "nearest":
        attributes["nearest_mode"] = m.rng.choice("round_prefer_floor round_prefer_ceil floor ceil".split())
        if transform == "align_corners":
            return  # ONNX Runtime rounds coordinates to single precision
        if transform != "asymmetric":
            to = [e * m.rng.choice((1, 2)) for e in x.shape]
            to[:2] = x.shape[:2]
    if mode == "cubic":
        attributes["cubic_coeff_a"] = m.rng.choice((-0.75, -0.5))
        attributes["exclude_outside"] = m.between(0, 1)
    if m.opset >= 18 and mode != "nearest" and m.chance(3):
        attributes["antialias"] = 1
    inputs = [x, m.constant(np.zeros(0, np.float32)), m.constant(np.zeros(0, np.float32)),
              m.constant(np.array(to, np.int64))]
    if m.chance(3) and transform != "align_corners":  # of fractional sizes: the standard's tests and ONNX Runtime differ
        inputs = [x, None, m.constant(np.array([1, 1] + [m.rng.choice((0.5, 1.5, 2.0)) for _ in x.shape[2:]], np.float32))]
        if m.opset < 13:
            inputs[1] = m.constant(np.zeros(0, np.float32))
    elif m.opset >= 13:
        inputs[1:3] = [None, None]
    m.add("Resize", inputs, **attributes)


@step(3)
def select(m):
    if m.chance(3):
        x = m.some(lambda k: k.dtype != BOOL)
        if x is None:
            return
        low, high = m.numbers(x.dtype, (), 0, 2), m.numbers(x.dtype, (), 3, 5)
        if m.opset < 11:
            return void(m.add("Clip", [x], exact=True, min=-1.5, max=2.0) if x.dtype in FLOATS else None)
        below = m.chance(2) and not (x.dtype in FLOATS and np.isneginf(x.data).any())
        # Without a lower bound ONNX Runtime makes the lowest number of -inf.
        return void(m.add("Clip", [x, None if below else m.constant(low), m.constant(high)], exact=True))
    c = m.some(lambda k: k.dtype == BOOL)
    x = m.some()
    if c is None:
        return
    y = m.partner(x)
    if any(((k.data == 0) & np.signbit(k.data)).any() for k in (x, y) if k.dtype in FLOATS):
        return  # ONNX Runtime makes 0 of -0 there
    m.add("Where", [c, x, y], exact=True)


@step(2)
def recurrent(m):
    # The gates of ONNX Runtime have a small absolute error, which is large beside the results where all gates are shut.
    x = m.some(lambda k: k.rank == 3 and k.dtype == F32 and np.isfinite(k.data).all() and np.abs(k.data).max() <= 4)
    if x is None:
        return
    op, gates = m.rng.choice((("LSTM", 4), ("GRU", 3), ("RNN", 1)))
    hidden, direction = m.between(1, 4), m.rng.choice(("forward", "reverse", "bidirectional"))
    d = 2 if direction == "bidirectional" else 1
    seq, batch, width = x.shape
    inputs = [x, m.weights(F32, (d, gates * hidden, width)), m.weights(F32, (d, gates * hidden, hidden))]
    inputs.append(m.weights(F32, (d, 2 * gates * hidden)) if m.chance(2) else None)
    inputs.append(m.constant(m.np.integers(1, seq + 1, batch).astype(np.int32)) if m.chance(3) else None)
    inputs.append(m.weights(F32, (d, batch, hidden)) if m.chance(2) else None)
    attributes = {"linear_before_reset": m.between(0, 1)} if op == "GRU" else {}
    while inputs[-1] is None:
        inputs.pop()
    m.add(op, inputs, 2, hidden_size=hidden, direction=direction, **attributes)


@step(3)
def quantized(m):
    op = m.rng.choice("QuantizeLinear DequantizeLinear DynamicQuantizeLinear QLinearMatMul MatMulInteger ConvInteger "
                      "QLinearConv".split())
    if m.opset < 11:
        return
    small = (np.dtype("int8"), np.dtype("uint8"))
    if op in ("QuantizeLinear", "DynamicQuantizeLinear"):
        x = m.some(lambda k: k.dtype == F32 and k.exact and np.isfinite(k.data).all())
        if x is None:
            return
        if op == "DynamicQuantizeLinear":
            return void(m.add(op, [x], 3))
        t = m.rng.choice(small)
        if m.opset >= 13 and x.rank > 0 and m.chance(2):
            axis = m.rng.randrange(x.rank)
            e = x.shape[axis]
            return void(m.add(op, [x, m.constant(m.np.choice([0.125, 0.25, 0.5], e).astype(np.float32)),
                                   m.constant(m.numbers(t, (e,), 0, 5))], exact=True, axis=axis))
        return void(m.add(op, [x, m.constant(np.float32(m.rng.choice((0.125, 0.25, 0.5)))),
                               m.constant(m.numbers(t, (), 0, 9))], exact=True))
    x = m.some(lambda k: k.dtype in small)
    if x is None:
        return
    zero = lambda t: m.constant(m.numbers(t, (), 0, 5))
    scale = lambda: m.constant(np.float32(m.rng.choice((0.125, 0.25, 0.5))))
    if op == "DequantizeLinear":
        return void(m.add(op, [x, scale(), zero(x.dtype)], exact=True))
    t = m.rng.choice(small)
    if op in ("MatMulInteger", "QLinearMatMul"):
        if x.rank < 2:
            return
        y = m.weights(t, (x.shape[-1], m.between(1, 6)), 0 if t == small[1] else -6, 9)
        if op == "MatMulInteger":
            return void(m.add(op, [x, y, zero(x.dtype), zero(t)], exact=True))
        return void(m.add(op, [x, scale(), zero(x.dtype), y, scale(), zero(t), m.constant(np.float32(2)), zero(x.dtype)],
                          exact=True))
    if x.rank < 3 or x.rank > 4:
        return
    axes = x.rank - 2
    kernel = [m.between(1, 3) for _ in range(axes)]
    w = m.weights(t, (m.between(1, 4), x.shape[1], *kernel), 0 if t == small[1] else -6, 9)
    pads = [m.between(0, 1) for _ in range(2 * axes)]
    if op == "ConvInteger":
        return void(m.add(op, [x, w, zero(x.dtype), zero(t)], exact=True, pads=pads))
    m.add(op, [x, scale(), zero(x.dtype), w, scale(), zero(t), m.constant(np.float32(2)), zero(x.dtype)], exact=True,
          pads=pads)


@step(2)
def attention(m):
    op = m.rng.choice("Attention RotaryEmbedding Gelu FastGelu BiasGelu QuickGelu SkipLayerNormalization".split())
    x = m.some(lambda k: k.dtype == F32 and k.rank >= 1 and np.isfinite(k.data).all())
    if x is None:
        return
    if op in ("Gelu", "FastGelu", "QuickGelu", "BiasGelu"):
        bias = [m.weights(F32, x.shape[-1:])] if op == "BiasGelu" or (op == "FastGelu" and m.chance(2)) else []
        return void(m.add(op, [x, *bias], domain="com.microsoft"))
    if op == "SkipLayerNormalization":
        if x.rank == 3:
            m.add(op, [x, m.weights(F32, x.shape), m.weights(F32, x.shape[-1:], 0.5, 2), m.weights(F32, x.shape[-1:])],
                  domain="com.microsoft", epsilon=1e-2)
        return
    if m.opset < 23 or x.rank != 4:
        return
    if op == "Attention":
        b, h, _, d = x.shape
        kv = [m.weights(F32, (b, h, 5, d)), m.weights(F32, (b, h, 5, m.between(1, 4)))]
        return void(m.add(op, [x, *kv], is_causal=m.between(0, 1)))
    b, _, s, d = x.shape
    if d % 2 == 0:
        cos, sin = m.weights(F32, (b, s, d // 2)), m.weights(F32, (b, s, d // 2))
        m.add(op, [x, cos, sin], interleaved=m.between(0, 1))


@step(2)
def control(m):
    """If with a constant condition, Loop with a constant number of turns, Scan over an axis: bodies of one operator."""
    x = m.some(lambda k: k.rank > 0 and k.dtype == F32)
    if x is None:
        return
    kind, out = m.rng.choice(("If", "Loop", "Scan", "Sequence")), m.name("v")
    info = helper.make_tensor_value_info
    if kind == "If":
        cond = m.constant(np.array(m.chance(2))) if m.chance(2) else m.some(lambda k: k.dtype == BOOL and k.shape == ())
        if cond is None:
            return
        body = lambda op: helper.make_graph([helper.make_node(op, [x.name], [m.name("b")])], op, [], [])
        bodies = []
        for op in ("Neg", "Abs"):
            b = body(op)
            b.output.append(info(b.node[0].output[0], 1, x.shape))
            bodies.append(b)
        node = helper.make_node("If", [cond.name], [out], then_branch=bodies[0], else_branch=bodies[1])
        return void(m.add_nodes("If", [node], [x, cond], [out], exact=True))
    if kind == "Loop":
        i, c, a, c2, a2 = (m.name("b") for _ in range(5))
        body = helper.make_graph([helper.make_node("Identity", [c], [c2]), helper.make_node("Add", [a, x.name], [a2])],
                                 "body", [info(i, 7, ()), info(c, 9, ()), info(a, 1, x.shape)],
                                 [info(c2, 9, ()), info(a2, 1, x.shape)])
        turns, go = m.constant(np.array(m.between(1, 3), np.int64)), m.constant(np.array(True))
        node = helper.make_node("Loop", [turns.name, go.name, x.name], [out], body=body)
        return void(m.add_nodes("Loop", [node], [x, turns, go], [out], ring=True))
    if kind == "Scan":
        a, e, a2, y = (m.name("b") for _ in range(4))
        shape = x.shape[1:]
        body = helper.make_graph([helper.make_node("Add", [a, e], [a2]), helper.make_node("Identity", [a2], [y])], "body",
                                 [info(a, 1, shape), info(e, 1, shape)], [info(a2, 1, shape), info(y, 1, shape)])
        start, out2 = m.weights(F32, shape), m.name("v")
        node = helper.make_node("Scan", [start.name, x.name], [out, out2], body=body, num_scan_inputs=1)
        return void(m.add_nodes("Scan", [node], [x, start], [out, out2], ring=True))
    if m.opset < 11 or x.shape[0] < 2:
        return
    parts = m.name("s")
    nodes = [helper.make_node("SplitToSequence", [x.name], [parts], axis=0),
             helper.make_node("ConcatFromSequence", [parts], [out], axis=m.between(0, x.rank - 1))]
    m.add_nodes("SplitToSequence", nodes, [x], [out], exact=True)


@step(1)
def signal(m):
    op = m.rng.choice("DFT Det Col2Im MaxUnpool EyeLike Shape Size ConstantOfShape Range MelWeightMatrix".split())
    if op in ("Shape", "Size"):
        return void(m.add(op, [m.some()], exact=True))
    if op == "EyeLike":
        x = m.some(lambda k: k.rank == 2)
        return void(m.add(op, [x], exact=True, k=m.between(-1, 1), dtype=1) if x else None)
    if op == "ConstantOfShape":
        return void(m.add(op, [m.constant(np.array(m.shape(2, 4), np.int64))], exact=True))
    if op == "Range":
        t = m.rng.choice((np.int64, np.float32))
        return void(m.add(op, [m.constant(np.array(v, t)) for v in (m.between(-3, 0), m.between(1, 9), m.between(1, 2))],
                          exact=True) if m.opset >= 11 else None)
    x = m.some(lambda k: k.dtype == F32 and k.rank >= 2 and np.isfinite(k.data).all())
    if x is None:
        return
    if op == "Det":
        n = min(x.shape[-2:])
        return void(m.add(op, [x]) if m.opset >= 11 and x.shape[-1] == x.shape[-2] and n <= 5 else None)
    if op == "DFT" and m.opset >= 17 and x.rank >= 3 and x.shape[-1] <= 2:
        if m.opset < 20:
            m.add(op, [x], axis=1, inverse=m.between(0, 1))
        else:
            m.add(op, [x, None, m.constant(np.array(1, np.int64))], inverse=m.between(0, 1))
    if op == "Col2Im" and m.opset >= 18 and x.rank == 3 and x.shape[1] % 4 == 0 and x.shape[2] == 6:
        m.add(op, [x, m.constant(np.array([3, 4], np.int64)), m.constant(np.array([2, 2], np.int64))])


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, required=True)
    options = parser.parse_args()
    drawn, refused, graphs = {}, {}, 0
    for i in range(options.first, options.first + options.count):
        m = Maker(options.seed, i)
        m.make()
        graphs += m.save(f"{options.folder}/node/g{options.seed}_{i}")
        for op, count in m.drawn.items():
            drawn[op] = drawn.get(op, 0) + count
        refused.update(m.refused)
    print(json.dumps({"graphs": graphs, "drawn": dict(sorted(drawn.items())), "refused": refused}))


if __name__ == "__main__":
    with np.errstate(all="ignore"):
        sys.exit(main())
