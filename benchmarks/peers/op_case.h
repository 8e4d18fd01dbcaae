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
// u8 by i8 into i32.
OpCase int8_gemm_case(const std::string& name, int64_t m, int64_t n, int64_t k);
// Square images and kernels; with bias and ReLU; padded by half the kernel.
OpCase conv_case(const std::string& name, int64_t channels, int64_t filters, int64_t size, int64_t kernel,
                 int64_t stride, int64_t group = 1);
// Windows over one to three axes: the shapes that conv_case does not have. No bias and no ReLU unless `folded`, which
// is batch normalization and ReLU behind the convolution. `transposed`: a transposed convolution.
struct WindowCase {
  int64_t channels = 1, filters = 1;
  std::vector<int64_t> size;  // of one to three axes
  int64_t kernel = 1, stride = 1, pad = 0, dilation = 1, group = 1;
  bool folded = false, transposed = false;
};
OpCase window_case(const std::string& name, const WindowCase& window);
// Q K^T of attention, both inputs of [1, tokens, heads, depth]: transposed, then multiplied for each head.
OpCase attention_product_case(const std::string& name, int64_t tokens, int64_t heads, int64_t depth);
// GELU(x w + b), GELU spelt out with Erf as exporters write it. No peer offers it under one name.
OpCase dense_gelu_case(const std::string& name, int64_t rows, int64_t cols, int64_t depth);
// The 2-norm of a matrix.
OpCase norm_case(const std::string& name, int64_t rows, int64_t cols);
OpCase softmax_case(const std::string& name, const graph::Shape& shape);  // over the last axis
OpCase layernorm_case(const std::string& name, int64_t rows, int64_t cols);

// Extents of a window's axes: in the input, in the output.
std::vector<int64_t> input_size(const OpCase& c);
std::vector<int64_t> output_size(const OpCase& c);
// Arithmetic operations of a call; softmax and layer normalization are counted as 8 an element.
double case_flops(const OpCase& c);
std::string prepare_line(const OpCase& c, int threads, bool plain);
// Input x (and z of an attention product), output y, constant weights; the data is that of peer.h. f32 only.
std::string case_model(const OpCase& c);
// y = ReLU(x) of 16 elements: what a call costs.
std::string tiny_model();

}  // namespace tcc::benchmarks
