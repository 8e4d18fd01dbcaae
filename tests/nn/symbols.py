#!/usr/bin/env python3
"""The objects of the levels define nothing but their tables.

The linker merges inline functions and templates of one name. One that was compiled with AVX-512 would then run on CPUs
without it. So the objects kernels_v2, v3 and v4 may define no weak symbol, and no global one outside their namespace.

Usage: symbols.py <libtcc_nn.a>
"""

import subprocess
import sys


def faults(listing):
    out, level = [], None
    for line in listing.splitlines():
        if line.endswith(":"):
            name = line[:-1].split("/")[-1].split(".")[0]
            level = name[len("kernels_") :] if name.startswith("kernels_v") else None
        elif level and line.strip():
            _, kind, symbol = line.split(maxsplit=2)
            if kind.islower() and kind not in "vwu":
                continue
            if kind in "VvWwu" or not symbol.startswith(f"tcc::nn::{level}::table_"):
                out.append(f"{level}: {kind} {symbol}")
    return out


def main():
    # A fault that the rule must find, so that a change of nm's output cannot silence it.
    sample = "kernels_v4.cpp.o:\n0000 W void std::sort<float>()\n0000 t tcc::nn::v4::gemm()\n0000 D tcc::nn::v4::table_f32\n"
    assert len(faults(sample)) == 1
    listing = subprocess.run(["nm", "-C", "--defined-only", sys.argv[1]], check=True, capture_output=True, text=True).stdout
    levels = [line for line in listing.splitlines() if line.startswith("kernels_v") and line.endswith(":")]
    if not levels:
        sys.exit(f"{sys.argv[1]} has no object of a level")
    found = faults(listing)
    if found:
        sys.exit("symbols that the linker may merge with those of other levels:\n" + "\n".join(found))


if __name__ == "__main__":
    main()
