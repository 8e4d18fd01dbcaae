// Products of bytes as tasks.
#pragma once

#include <fmt/format.h>

#include "tcc/ir/text.h"
#include "tcc/support/check.h"
#include "tcc/task/task.h"

namespace tcc::testing {

// Sums of products of bytes, which no operator of a graph is.
inline task::Task make_byte_product(int64_t m, int64_t n, int64_t k, bool transposed) {
  const std::string text =
      fmt::format(R"(kernel built {{
  input A: i8[{0}, {2}]
  input B: i8[{3}, {4}]
  output C: i32[{0}, {1}]
  for i in {0} {{
    for j in {1} {{
      for k in {2} {{
        block gemm(vi: spatial {0} = i, vj: spatial {1} = j, vk: reduce {2} = k) reduce(sum) {{
          init {{
            C[vi, vj] = 0i32
          }}
          C[vi, vj] = C[vi, vj] + i32(A[vi, vk]) * i32(B[{5}])
        }}
      }}
    }}
  }}
}}
)",
                  m, n, k, transposed ? n : k, transposed ? k : n, transposed ? "vj, vk" : "vk, vj");
  auto kernel = ir::parse(text);
  TCC_CHECK(kernel.has_value(), "{}", kernel ? "" : kernel.error().message);
  task::Task t;
  t.workload = fmt::format("gemm {}x{}x{} i8", m, n, k);
  t.kernel = *kernel;
  return t;
}

// The same for each head, C[h, i, j] = sum A[i, h, k] B[j, h, k], as scores of an attention are: terms are neighbors in
// both operands, columns are not.
inline task::Task make_byte_scores(int64_t heads, int64_t m, int64_t n, int64_t k) {
  const std::string text = fmt::format(R"(kernel built {{
  input A: i8[{1}, {0}, {3}]
  input B: i8[{2}, {0}, {3}]
  output C: i32[{0}, {1}, {2}]
  for h in {0} {{
    for i in {1} {{
      for j in {2} {{
        for k in {3} {{
          block gemm(vh: spatial {0} = h, vi: spatial {1} = i, vj: spatial {2} = j, vk: reduce {3} = k) reduce(sum) {{
            init {{
              C[vh, vi, vj] = 0i32
            }}
            C[vh, vi, vj] = C[vh, vi, vj] + i32(A[vi, vh, vk]) * i32(B[vj, vh, vk])
          }}
        }}
      }}
    }}
  }}
}}
)",
                                       heads, m, n, k);
  auto kernel = ir::parse(text);
  TCC_CHECK(kernel.has_value(), "{}", kernel ? "" : kernel.error().message);
  task::Task t;
  t.workload = fmt::format("matmul {}x{}x{}x{} i8", heads, m, n, k);
  t.kernel = *kernel;
  return t;
}

}  // namespace tcc::testing
