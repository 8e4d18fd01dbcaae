"""Runs a model library on NumPy arrays: python3 run_model.py out/libnet.so input.npy ...; prints the outputs."""
import ctypes as c, json, pathlib, sys
import numpy as np
path = pathlib.Path(sys.argv[1]).resolve()
query = getattr(c.CDLL(str(path)), f"tcc_{path.stem[3:]}_query")
query.restype = c.POINTER(c.c_void_p)  # tcc_model_api of the header: a word of versions, then functions
def call(slot, *arguments, result=c.c_int32): return c.CFUNCTYPE(result)(query(1)[slot])(*arguments)
def check(status): assert status == 0, call(7, result=c.c_char_p).decode()
def dtype(name): return np.dtype({"bool": "?", "bf16": "u2"}.get(name) or f"{name[0]}{int(name[1:]) // 8}")  # f32 is f4 here
about, context = json.loads(call(8, None, result=c.c_char_p)), c.c_void_p()
check(call(3, None, c.byref(context)))
inputs = [np.asarray(np.load(name), order="C") for name in sys.argv[2:]]  # bf16, which NumPy lacks, as u2
kinds = ["b" if info["type"] == "bf16" else "" for info in about["inputs"][:len(inputs)] + about["outputs"]]
arrays = inputs + [np.empty(info["shape"], dtype(info["type"])) for info in about["outputs"]]
shapes = [np.array(a.shape, np.int64) for a in arrays]  # below: DLPack's DLTensor, a row for each array
table = np.array([(a.ctypes.data, (1, 0), a.ndim, ("iuf-_-b".index("_" if k else a.dtype.kind), 8 * a.itemsize), 1, s.ctypes.data, 0, 0)
                  for a, s, k in zip(arrays, shapes, kinds)], "u8,2i4,i4,2u1,u2,u8,u8,u8")
views = [c.c_void_p(table.ctypes.data + 48 * i) for i in (0, len(inputs))]
check(call(4, context, views[0], len(inputs), views[1], len(about["outputs"]), None, c.c_uint64(0), None))
for info, a, k in zip(about["outputs"], arrays[len(inputs):], kinds[len(inputs):]): print(info["name"], a.shape, (a.astype("u4") << 16).view("f4") if k else a)
