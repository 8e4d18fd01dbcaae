"""ONNX files by the protobuf encoding, with nothing but the standard library: what gpu_check needs of the format."""

import struct

TYPES = {"f32": 1, "i64": 7, "f16": 10, "bf16": 16}


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field, value):
    return varint(field << 3) + varint(value)


def block(field, content):
    if isinstance(content, str):
        content = content.encode()
    return varint(field << 3 | 2) + varint(len(content)) + content


def attribute(name, value):
    """AttributeProto of an int, a float, a text or a list of ints."""
    text = block(1, name)
    if isinstance(value, str):
        return text + block(4, value) + number(20, 3)
    if isinstance(value, float):
        return text + varint(2 << 3 | 5) + struct.pack("<f", value) + number(20, 1)
    if isinstance(value, int):
        return text + number(3, value) + number(20, 2)
    return text + b"".join(number(8, v) for v in value) + number(20, 7)


def node(operator, inputs, outputs, **attributes):
    text = b"".join(block(1, i) for i in inputs) + b"".join(block(2, o) for o in outputs)
    text += block(3, outputs[0]) + block(4, operator)
    return text + b"".join(block(5, attribute(n, v)) for n, v in attributes.items())


def value_info(name, kind, shape):
    """Without a shape (None) readers infer it."""
    dims = b"" if shape is None else block(2, b"".join(block(1, number(1, d)) for d in shape))
    return block(1, name) + block(2, block(1, number(1, TYPES[kind]) + dims))


def integers(name, values):
    """An initializer of int64: a list."""
    raw = struct.pack(f"<{len(values)}q", *values)
    return number(1, len(values)) + number(2, TYPES["i64"]) + block(8, name) + block(9, raw)


def half_bits(value, kind):
    """The two bytes of a value in f16 or bf16, four in f32."""
    if kind == "f32":
        return struct.pack("<f", value)
    if kind == "f16":
        return struct.pack("<e", value)
    return struct.pack("<f", value)[2:]  # for values that bf16 holds exactly


def scalar(name, value, kind):
    """An initializer of one number without dimensions."""
    return number(2, TYPES[kind]) + block(8, name) + block(9, half_bits(value, kind))


def model(nodes, inputs, outputs, initializers=(), opset=23):
    """The file. nodes: of node(); inputs, outputs: (name, kind, shape); initializers: of integers() and scalar()."""
    graph = b"".join(block(1, n) for n in nodes) + block(2, "operators")
    graph += b"".join(block(5, i) for i in initializers)
    graph += b"".join(block(11, value_info(*i)) for i in inputs)
    graph += b"".join(block(12, value_info(*o)) for o in outputs)
    return number(1, 10) + block(7, graph) + block(8, number(2, opset))
