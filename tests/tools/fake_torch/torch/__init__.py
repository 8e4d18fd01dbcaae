"""As much of PyTorch as tools/gpu/torch_peer.py calls, on host memory: functions return a tensor of the right kind, and
nothing is computed. FAKE_TORCH_ENDS=NAME: `softmax` and the like end the process when they are called by that name.
"""

import contextlib
import ctypes
import os
from math import prod

__version__ = "0.fake"
float32, float16, bfloat16, int64, uint8, bool = "float32", "float16", "bfloat16", "int64", "uint8", "bool"
channels_last = "channels_last"
SIZES = {float32: 4, float16: 2, bfloat16: 2, int64: 8, uint8: 1, bool: 1}


class Tensor:
    is_cuda = False

    def __init__(self, shape, dtype=float32):
        self.shape, self.dtype = tuple(shape), dtype
        self.memory = (ctypes.c_char * (prod(self.shape) * SIZES[dtype] + 512))()

    class device:
        index = None

    def data_ptr(self):
        return (ctypes.addressof(self.memory) + 255) // 256 * 256

    def dim(self):
        return len(self.shape)

    def element_size(self):
        return SIZES[self.dtype]

    def to(self, *words, **_):
        return Tensor(self.shape, words[-1]) if words and words[-1] in SIZES else self

    def __float__(self):
        return 0.0

    def __getattr__(self, name):
        if name == "T":
            return self
        return lambda *_, **__: self

    def __call__(self, *_, **__):
        return self

    def same(self, *_):
        return self

    __add__ = __sub__ = __mul__ = __truediv__ = __matmul__ = __getitem__ = same


def empty(shape, dtype=float32, device=None):
    return Tensor([shape] if isinstance(shape, int) else shape, dtype)


zeros = ones = rand = empty


def randint(_, __, shape, device=None, dtype=int64):
    return Tensor(shape, dtype)


def softmax(x, *_):
    if os.environ.get("FAKE_TORCH_ENDS") == "softmax":
        os._exit(4)
    return x


def manual_seed(_):
    pass


no_grad = contextlib.nullcontext


class Switches:
    def __getattr__(self, name):
        setattr(self, name, Switches())
        return getattr(self, name)


backends = Switches()


class cuda:
    @staticmethod
    def is_available():
        return False

