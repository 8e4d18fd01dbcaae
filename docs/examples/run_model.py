"""Runs a model library on NumPy arrays: python3 run_model.py out/libnet.so input.npy ...; prints the outputs."""
import ctypes as c, pathlib, sys
import numpy as np

class Tensor(c.Structure):  # tcc_dltensor, which is DLPack's DLTensor
    _fields_ = [("data", c.c_void_p), ("device", c.c_int32 * 2), ("ndim", c.c_int32), ("dtype", c.c_uint8 * 4),
                ("shape", c.POINTER(c.c_int64)), ("strides", c.c_void_p), ("offset", c.c_uint64)]
class Info(c.Structure):  # tcc_tensor_info
    _fields_ = [("name", c.c_char_p), ("dims", c.POINTER(c.c_int64)), ("bytes", c.c_uint64), ("dtype", c.c_uint8 * 4),
                ("ndim", c.c_int32), ("reserved", c.c_uint64 * 2)]
class Model(c.Structure):  # the beginning of tcc_model_info
    _fields_ = [("size", c.c_uint32 * 2), ("id", c.c_char_p), ("inputs", c.POINTER(Info)), ("outputs", c.POINTER(Info)),
                ("counts", c.c_uint32 * 2)]
def tensor(info, array):  # a view: the array must stay alive
    return Tensor(array.ctypes.data, (1, 0), info.ndim, info.dtype, info.dims, None, 0)
def empty(info):  # kinds of types are DLPack's: 0 int, 1 uint, 2 float, 6 bool
    kind = {0: "i", 1: "u", 2: "f", 6: "b"}[info.dtype[0]] + str(info.dtype[1] // 8)
    return np.empty(info.dims[:info.ndim], np.dtype(kind))

path = pathlib.Path(sys.argv[1]).resolve()
query = getattr(c.CDLL(str(path)), f"tcc_{path.stem[3:]}_query")
query.restype = c.POINTER(c.c_void_p)  # a table: its version, then functions
table = query(1)
call = lambda slot, result, *types: c.CFUNCTYPE(result, *types)(table[slot])
model = call(1, c.POINTER(Model))().contents
context = c.c_void_p()
assert call(3, c.c_int32, c.c_void_p, c.c_void_p)(None, c.byref(context)) == 0, call(7, c.c_char_p)()
inputs = [np.ascontiguousarray(np.load(name)) for name in sys.argv[2:]]
outputs = [empty(model.outputs[i]) for i in range(model.counts[1])]
views = lambda infos, arrays: (Tensor * len(arrays))(*[tensor(infos[i], a) for i, a in enumerate(arrays)])
for i, array in enumerate(inputs):  # a view says what the model wants; is the array that?
    assert array.dtype == empty(model.inputs[i]).dtype and array.size * array.itemsize == model.inputs[i].bytes
run = call(4, c.c_int32, c.c_void_p, c.c_void_p, c.c_uint32, c.c_void_p, c.c_uint32, c.c_void_p, c.c_uint64, c.c_void_p)
status = run(context, views(model.inputs, inputs), len(inputs), views(model.outputs, outputs), len(outputs), None, 0, None)
assert status == 0, call(7, c.c_char_p)()
for i, array in enumerate(outputs):
    print(model.outputs[i].name.decode(), array.shape, array)
call(5, None, c.c_void_p)(context)
