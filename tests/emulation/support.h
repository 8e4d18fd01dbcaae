// Small PTX kernels for the tests.
#pragma once

#include <bit>
#include <catch2/catch.hpp>
#include <cstring>
#include <string>
#include <vector>

#include "tcc/emulation/ptx.h"

namespace tcc::emulation::testing {

using FindingKind = interp::Finding::Kind;

// A kernel `k` with pointers %p0, %p1, ... to its buffers, %tid and %lane (32 bits), and the given body; shared and
// other variables go into `declarations`.
inline std::string ptx_kernel(int params, const std::string& declarations, const std::string& body) {
  std::string text = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(";
  for (int i = 0; i < params; ++i) text += fmt::format("{}.param .u64 k_param_{}", i == 0 ? "" : ", ", i);
  text += ")\n{\n.reg .b64 %p<8>;\n.reg .b32 %tid, %lane;\n" + declarations + "\n";
  for (int i = 0; i < params; ++i) text += fmt::format("ld.param.u64 %p{0}, [k_param_{0}];\n", i);
  return text + "mov.u32 %tid, %tid.x;\nmov.u32 %lane, %laneid;\n" + body + "\nret;\n}\n";
}

inline codegen::Launch launch_of(int64_t threads, int64_t blocks = 1) {
  codegen::Launch l;
  l.symbol = "k";
  l.block = {threads, 1, 1};
  l.grid = {blocks, 1, 1};
  return l;
}

template <class T>
PtxBuffer buffer_of(std::vector<T>& data, bool writable = true) {
  return {reinterpret_cast<std::byte*>(data.data()), static_cast<int64_t>(data.size() * sizeof(T)), "data", writable,
          true};
}

inline PtxModule parsed(const std::string& text) {
  auto module = parse_ptx(text);
  if (!module) FAIL(module.error().message << "\n" << text);
  return *module;
}
inline PtxReport ran(const std::string& text, const codegen::Launch& launch, std::vector<PtxBuffer> buffers,
                     const PtxOptions& options = {}) {
  auto report = run_ptx(parsed(text), launch, buffers, options);
  if (!report) FAIL(report.error().message << "\n" << text);
  return *report;
}

}  // namespace tcc::emulation::testing
