// Machine code of a scheduled kernel, run here and compared with the naive kernel.
#pragma once

#include <algorithm>
#include <vector>

#include "../codegen/nest.h"
#include "run_kernel.h"
#include "tcc/interp/interp.h"

// `lowered` on this machine's processor, for the naive kernel's random data. Weights may have another layout, which a
// caller lays out: here products of inputs only.
inline void check_machine_code(const tcc::ir::Kernel& lowered, const tcc::ir::Kernel& naive) {
  using namespace tcc;
  const target::Target host = codegen::host();
  Params got(naive), want(naive);
  const codegen::Compiled code = codegen::compile(lowered, host);
  interp::run(naive, want.pointers);
  std::vector<codegen::Aligned<std::byte>> storage;
  std::vector<void*> pointers;
  for (size_t i = 0; i < code.artifact.buffers.size(); ++i) storage.emplace_back(code.artifact.buffers[i].bytes);
  for (auto& s : storage) pointers.push_back(s.data());
  for (size_t i = 0; i < got.data.size(); ++i)
    std::copy(got.data[i].bytes.begin(), got.data[i].bytes.end(), storage[i].begin());
  code.run(pointers);
  for (size_t i = 0; i < got.data.size(); ++i)
    std::copy_n(storage[i].begin(), got.data[i].bytes.size(), got.data[i].bytes.begin());
  check_close(got, want);
}
