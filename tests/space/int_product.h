// Small integer matrix products as text: no operator makes them, the modules for dot products take them.
#pragma once

#include <fmt/format.h>

#include <string_view>

#include "tcc/ir/text.h"
#include "tcc/support/check.h"

namespace tcc::testing {

// C[m, n] += i32(A[m, k]) * i32(B[k, n]): A and B, a weight where `constant`, of "u8" or "i8", C of i32.
inline ir::Kernel int_product(std::string_view a_type, int64_t m, int64_t n, int64_t k, bool constant = true,
                              std::string_view b_type = "i8") {
  auto kernel = ir::parse(fmt::format(R"(kernel built {{
  input A: {3}[{0}, {2}]
  {4} B: {5}[{2}, {1}]
  output C: i32[{0}, {1}]
  for i in {0} {{
    for j in {1} {{
      for r in {2} {{
        block gemm(vi: spatial {0} = i, vj: spatial {1} = j, vk: reduce {2} = r) reduce(sum) {{
          init {{
            C[vi, vj] = 0i32
          }}
          C[vi, vj] = C[vi, vj] + i32(A[vi, vk]) * i32(B[vk, vj])
        }}
      }}
    }}
  }}
}})",
                                      m, n, k, a_type, constant ? "weight" : "input", b_type));
  TCC_CHECK(kernel.has_value(), "{}", kernel ? "" : kernel.error().message);
  return *kernel;
}

}  // namespace tcc::testing
