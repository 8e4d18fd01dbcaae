#!/usr/bin/env python3
"""The objects of the levels define nothing but their tables.

The linker merges inline functions and templates of one name. One that was compiled with AVX-512 would then run on CPUs
without it. So the object PREFIX<level> of each level may define no weak symbol, and no global one but those that begin
with SYMBOL, in which {} is the level.

Usage: level_symbols.py <archive> <prefix> <symbol>, such as libtcc_nn.a kernels_ tcc::nn::{}::table_
"""

import subprocess
import sys


def faults(listing, prefix, allowed):
    out, level = [], None
    for line in listing.splitlines():
        if line.endswith(":"):
            name = line[:-1].split("/")[-1].split(".")[0]
            level = name[len(prefix) :] if name.startswith(prefix) else None
        elif level and line.strip():
            _, kind, symbol = line.split(maxsplit=2)
            if kind.islower() and kind not in "vwu":
                continue
            if kind in "VvWwu" or not symbol.startswith(allowed.replace("{}", level)):
                out.append(f"{level}: {kind} {symbol}")
    return out


def main():
    archive, prefix, allowed = sys.argv[1:]
    # A fault that the rule must find, so that a change of nm's output cannot silence it.
    sample = f"{prefix}v4.cpp.o:\n0000 W void std::sort<float>()\n0000 t {allowed}f\n0000 D {allowed}\n".replace("{}", "v4")
    assert len(faults(sample, prefix, allowed)) == 1
    listing = subprocess.run(["nm", "-C", "--defined-only", archive], check=True, capture_output=True, text=True).stdout
    if not any(line.startswith(prefix) and line.endswith(":") for line in listing.splitlines()):
        sys.exit(f"{archive} has no object of a level")
    found = faults(listing, prefix, allowed)
    if found:
        sys.exit("symbols that the linker may merge with those of other levels:\n" + "\n".join(found))


main()
