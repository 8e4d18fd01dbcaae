#!/usr/bin/env python3
"""Writes ONNX models of one operator each, of random kinds and shapes: what cost models learn from beside networks.

Usage: tools/random_models.py -o DIR [--count N] [--seed N]

`tcc dataset collect DIR/*.onnx` measures their programs. The same seed gives the same models. Arithmetic is bounded, so
that a program takes milliseconds."""

import argparse
import pathlib
import random
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "gpu"))
import onnx_bytes as onnx  # noqa: E402

MOST_FLOPS = 4e9


def weight(name, shape):
    count = 1
    for n in shape:
        count *= n
    dims = b"".join(onnx.number(1, n) for n in shape)
    raw = struct.pack("<f", 0.0625) * count
    return dims + onnx.number(2, onnx.TYPES["f32"]) + onnx.block(8, name) + onnx.block(9, raw)


class Draw:
    """One model: nodes from x to the last value."""

    def __init__(self, rng):
        self.rng = rng
        self.nodes, self.inputs, self.initializers = [], [], []
        self.last = None

    def input(self, shape):
        name = f"x{len(self.inputs)}"
        self.inputs.append((name, "f32", list(shape)))
        return name

    def constant(self, shape):
        name = f"w{len(self.initializers)}"
        self.initializers.append(weight(name, shape))
        return name

    def numbers(self, values):
        name = f"n{len(self.initializers)}"
        self.initializers.append(onnx.integers(name, values))
        return name

    def node(self, operator, inputs, **attributes):
        self.last = f"v{len(self.nodes)}"
        self.nodes.append(onnx.node(operator, inputs, [self.last], **attributes))
        return self.last

    def channels(self, least=8, most=640):
        """Multiples of 16 most of the time."""
        n = round(least * (most / least) ** self.rng.random())
        return max(16, n // 16 * 16) if self.rng.random() < 0.75 else max(1, n)

    def side(self, least=6, most=256):
        return round(least * (most / least) ** self.rng.random())

    def convolution(self, kernel, stride):
        while True:
            c, f, side = self.channels(), self.channels(), self.side(2 * kernel)
            flops = 2 * c * f * kernel * kernel * (side / stride) ** 2
            if 2e7 < flops < MOST_FLOPS:
                break
        pads = [kernel // 2] * 4
        y = self.node("Conv", [self.input((1, c, side, side)), self.constant((f, c, kernel, kernel)),
                               self.constant((f,))], pads=pads, strides=[stride] * 2, kernel_shape=[kernel] * 2)
        if self.rng.random() < 0.6:
            self.node("Relu", [y])

    def plane(self, least=2e4, most=4e6):
        while True:
            c, h = self.channels(3), self.side()
            if least < c * h * h < most:
                return [1, c, h, h]

    def product(self):
        while True:
            m, n, k = (round(2 ** self.rng.uniform(low, 12)) for low in (0, 5, 5))
            if 1e5 < m * n * k < MOST_FLOPS / 2:
                break
        y = self.node("MatMul", [self.input((m, k)), self.constant((k, n))])
        if self.rng.random() < 0.5:
            self.node("Add", [y, self.constant((n,))])

    def scale(self):
        shape = self.plane()
        channel = (shape[1], 1, 1)
        y = self.node("Mul", [self.input(shape), self.input((1, *channel)) if self.rng.random() < 0.3
                              else self.constant(channel)])
        y = self.node("Add", [y, self.constant(channel)])
        self.node(self.rng.choice(["Relu", "Sigmoid", "HardSwish", "Tanh"]), [y])

    def binary(self):
        shape = self.plane()
        y = self.node(self.rng.choice(["Add", "Mul"]), [self.input(shape), self.input(shape)])
        self.node(self.rng.choice(["Relu", "Sigmoid", "Gelu", "HardSigmoid"]), [y])

    def concat(self):
        _, c, h, w = self.plane()
        batch = self.rng.choice([1, 2])
        parts = [self.input((batch, n, h, w)) for n in (c, self.channels(), c)[:self.rng.choice([2, 3])]]
        self.node("Concat", parts, axis=1)

    def transpose(self):
        shape = [round(4 * 16 ** self.rng.random()) for _ in range(self.rng.choice([3, 4]))]
        shape[-1] *= 4
        axes = list(range(len(shape)))
        while axes == sorted(axes):
            self.rng.shuffle(axes)
        self.node("Transpose", [self.input(shape)], perm=axes)

    def pool(self):
        x = self.input(self.plane())
        if self.rng.random() < 0.2:
            self.node("GlobalAveragePool", [x])
            return
        kernel = self.rng.choice([2, 3])
        self.node(self.rng.choice(["MaxPool", "AveragePool"]), [x], kernel_shape=[kernel] * 2,
                  strides=[self.rng.choice([1, 2])] * 2, pads=[kernel // 3] * 4)

    def depthwise(self):
        _, c, h, w = self.plane(5e4, 2e6)
        kernel = self.rng.choice([3, 5, 7])
        h, w = max(h, kernel), max(w, kernel)
        self.node("Conv", [self.input((1, c, h, w)), self.constant((c, 1, kernel, kernel)), self.constant((c,))],
                  pads=[kernel // 2] * 4, strides=[self.rng.choice([1, 2])] * 2, kernel_shape=[kernel] * 2, group=c)

    def pad(self):
        x = self.input(self.plane())
        self.node("Pad", [x, self.numbers([0, 0] + [self.rng.choice([1, 2, 3])] * 2 + [0, 0, 1, 1])])

    def rows(self):
        shape = (round(16 * 64 ** self.rng.random()), round(16 * 128 ** self.rng.random()))
        x = self.input(shape)
        kind = self.rng.choice(["Softmax", "LayerNormalization", "ReduceMax", "ReduceSum"])
        if kind == "LayerNormalization":
            self.node(kind, [x, self.constant(shape[1:]), self.constant(shape[1:])])
        elif kind == "Softmax":
            self.node(kind, [x], axis=-1)
        else:
            self.node(kind, [x, self.numbers([self.rng.choice([0, 1])])])


KINDS = (["conv3x3"] * 8 + ["conv1x1", "conv5x5", "strided", "depthwise"] * 2 + ["product"] * 3 +
         ["scale", "binary", "concat", "transpose", "pool"] * 2 + ["pad", "rows"])


def draw(rng, kind):
    d = Draw(rng)
    convolutions = {"conv3x3": (3, 1), "conv1x1": (1, 1), "conv5x5": (5, 1), "strided": (3, 2)}
    if kind in convolutions:
        d.convolution(*convolutions[kind])
    else:
        getattr(d, kind)()
    return onnx.model(d.nodes, d.inputs, [(d.last, "f32", None)], d.initializers)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", required=True, help="the folder to write")
    parser.add_argument("--count", type=int, default=len(KINDS))
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    folder = pathlib.Path(options.output)
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(options.seed)
    for i in range(options.count):
        kind = KINDS[i % len(KINDS)]
        (folder / f"{i:03}_{kind}.onnx").write_bytes(draw(rng, kind))
    print(f"{options.count} models in {folder}")


if __name__ == "__main__":
    main()
