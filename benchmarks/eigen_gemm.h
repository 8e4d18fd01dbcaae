// C (m x n) = A (m x k) B (k x n) by Eigen, row-major, for each level of x86-64.
#pragma once

#include <cstdint>

namespace tcc::benchmarks {

namespace v2 {
void eigen_gemm(int64_t m, int64_t n, int64_t k, const float* a, const float* b, float* c);
}
namespace v3 {
void eigen_gemm(int64_t m, int64_t n, int64_t k, const float* a, const float* b, float* c);
}
namespace v4 {
void eigen_gemm(int64_t m, int64_t n, int64_t k, const float* a, const float* b, float* c);
}

}  // namespace tcc::benchmarks
