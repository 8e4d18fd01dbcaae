// The operators that the cpu-ops suite compares: one description for tcc, for the peers' protocol and as an ONNX model.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tcc/graph/types.h"

namespace tcc::benchmarks {

struct OpCase {
  std::string name;                                      // "gemm512"
  std::string op;                                        // as in peer.h
  std::vector<std::pair<std::string, int64_t>> numbers;  // as in peer.h, without threads and plain
  graph::Shape shape;                                    // softmax: the tensor's, of which rows and cols are a view
  int64_t get(const std::string& name) const;            // 0 where it is not given
};

OpCase gemm_case(const std::string& name, int64_t m, int64_t n, int64_t k, bool bias_relu = false, bool bf16 = false);
// Square images and kernels; with bias and ReLU; padded by half the kernel.
OpCase conv_case(const std::string& name, int64_t channels, int64_t filters, int64_t size, int64_t kernel,
                 int64_t stride, int64_t group = 1);
OpCase softmax_case(const std::string& name, const graph::Shape& shape);  // over the last axis
OpCase layernorm_case(const std::string& name, int64_t rows, int64_t cols);

// Arithmetic operations of a call; softmax and layer normalisation are counted as 8 an element.
double case_flops(const OpCase& c);
std::string prepare_line(const OpCase& c, int threads, bool plain);
// Input x, output y, constant weights; the data is that of peer.h. f32 only.
std::string case_model(const OpCase& c);
// y = ReLU(x) of 16 elements: what a call costs.
std::string tiny_model();

}  // namespace tcc::benchmarks
