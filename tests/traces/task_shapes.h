// Small tasks of every kind, with odd, prime and unit extents: what random schedules, the modules for CPUs and those
// for GPUs are tried on.
#pragma once

#include <string>
#include <vector>

#include "sample_tasks.h"
#include "tcc/graph/passes.h"
#include "tcc/ir/text.h"
#include "tcc/support/check.h"
#include "tcc/task/task.h"

namespace tcc::testing {

// The one group of a graph with one operator on inputs of the given shapes.
inline task::Task make_operator(graph::Op op, graph::Attributes attrs, const std::vector<graph::Shape>& shapes,
                                graph::DType type = graph::DType::kF32) {
  graph::Graph g;
  std::vector<graph::ValueId> inputs;
  for (const graph::Shape& shape : shapes) inputs.push_back(g.add_input("x", type, shape));
  auto y = g.add_node(op, std::move(attrs), inputs, "node");
  TCC_CHECK(y.has_value());
  g.add_output(*y, "y");
  auto made = task::make_task(g, graph::fuse(g).at(0));
  TCC_CHECK(made.has_value());
  return *made;
}

// The task whose products may round their operands to tf32.
inline task::Task allow_tf32(task::Task t) {
  t.kernel.tf32 = true;
  t.key = fmt::format("{:016x}", ir::hash_kernel(t.kernel));
  return t;
}

// A transposed convolution of stride 2 as what it is: a convolution of an input with zeros between its elements.
inline task::Task make_transposed_conv() {
  auto k = ir::parse(R"(kernel built {
  input X: f32[2, 3, 7]
  weight W: f32[3, 4, 3]
  output Y: f32[2, 4, 15]
  temp P: f32[2, 3, 17]
  for n in 2 {
    for c in 3 {
      for p in 17 {
        block spread(vn: spatial 2 = n, vc: spatial 3 = c, vp: spatial 17 = p) {
          P[vn, vc, vp] = (X[vn, vc, (vp - 2) // 2] where 2 <= vp && vp < 16 && vp % 2 == 0 else 0.0)
        }
      }
    }
  }
  for n_1 in 2 {
    for f in 4 {
      for w in 15 {
        for rc in 3 {
          for rk in 3 {
            block conv(vn_1: spatial 2 = n_1, vf: spatial 4 = f, vw: spatial 15 = w, vrc: reduce 3 = rc, vrk: reduce 3 = rk) reduce(sum) {
              init {
                Y[vn_1, vf, vw] = 0.0
              }
              Y[vn_1, vf, vw] = Y[vn_1, vf, vw] + P[vn_1, vrc, vw + vrk] * W[vrc, vf, 2 - vrk]
            }
          }
        }
      }
    }
  }
}
)");
  TCC_CHECK(k.has_value(), "{}", k ? "" : k.error().message);
  task::Task t;
  t.workload = "transposed conv1d 2x3x7 -> 4 k3 s2";
  t.kernel = *k;
  return t;
}

inline std::vector<task::Task> task_shapes() {
  std::vector<task::Task> out;
  auto gemm = [&](task::GemmParams p) { out.push_back(task::make_gemm(p)); };
  gemm({.m = 16, .n = 32, .k = 24});
  gemm({.m = 17, .n = 36, .k = 10});
  gemm({.m = 8, .n = 33, .k = 6, .bias = true, .relu = true, .constant_weights = true});
  gemm({.m = 13, .n = 67, .k = 11, .trans_b = true});
  gemm({.m = 12, .n = 20, .k = 9, .bias = true, .trans_a = true});
  gemm({.m = 1, .n = 48, .k = 40, .constant_weights = true});
  gemm({.m = 64, .n = 1, .k = 15});
  gemm({.m = 7, .n = 5, .k = 1});
  const auto half = graph::DType::kF16;
  gemm({.m = 32, .n = 32, .k = 32, .dtype = half});
  gemm({.m = 16, .n = 24, .k = 48, .bias = true, .relu = true, .trans_b = true, .dtype = half});
  gemm({.m = 19, .n = 21, .k = 37, .constant_weights = true, .dtype = half});
  gemm({.m = 33, .n = 40, .k = 16, .trans_b = true, .dtype = graph::DType::kBF16});
  auto conv = [&](task::ConvParams p) { out.push_back(task::make_conv(p)); };
  conv({.batch = 1, .channels = 4, .filters = 6, .size = {19}, .kernel = {3}, .pads = {1}, .relu = true});
  conv({.batch = 2, .channels = 3, .filters = 5, .size = {16}, .kernel = {4}, .strides = {2}});
  conv({.batch = 1,
        .channels = 4,
        .filters = 8,
        .size = {9, 10},
        .kernel = {3, 3},
        .pads = {1, 1},
        .bias = true,
        .relu = true});
  conv({.batch = 2,
        .channels = 3,
        .filters = 4,
        .size = {11, 8},
        .kernel = {3, 2},
        .strides = {2, 1},
        .pads = {1, 0},
        .residual = true});
  conv({.batch = 1, .channels = 5, .filters = 7, .size = {6, 6}, .kernel = {1, 1}, .bias = true});
  conv({.batch = 1, .channels = 6, .filters = 4, .size = {7, 7}, .kernel = {1, 1}, .strides = {2, 2}});
  conv({.batch = 1, .channels = 2, .filters = 3, .size = {4, 5, 6}, .kernel = {3, 3, 3}, .pads = {1, 1, 1}});
  conv({.batch = 1, .channels = 4, .filters = 4, .group = 4, .size = {8, 12}, .kernel = {3, 3}, .pads = {1, 1}});
  conv({.batch = 1,
        .channels = 6,
        .filters = 6,
        .group = 6,
        .size = {9, 9},
        .kernel = {3, 3},
        .strides = {2, 2},
        .pads = {1, 1},
        .bias = true,
        .relu = true});
  conv({.batch = 1, .channels = 4, .filters = 6, .group = 2, .size = {7, 7}, .kernel = {3, 3}, .pads = {1, 1}});
  conv({.batch = 1,
        .channels = 4,
        .filters = 6,
        .group = 2,
        .size = {7, 7},
        .kernel = {3, 3},
        .dilations = {2, 2},
        .pads = {2, 2}});
  conv({.batch = 1, .channels = 3, .filters = 4, .size = {13, 5}, .kernel = {3, 3}, .dilations = {3, 1}});
  auto pool = [&](task::PoolParams p) { out.push_back(task::make_pool(p)); };
  pool({.average = false,
        .batch = 1,
        .channels = 3,
        .size = {9, 9},
        .kernel = {3, 3},
        .strides = {2, 2},
        .pads = {1, 1}});
  pool({.average = true, .batch = 1, .channels = 2, .size = {8, 6}, .kernel = {2, 2}, .strides = {2, 2}});
  pool({.average = true, .batch = 1, .channels = 5, .size = {7, 7}, .kernel = {7, 7}});
  out.push_back(task::make_softmax({6, 17}, 1));
  out.push_back(task::make_softmax({3, 64}, 1));
  out.push_back(task::make_softmax({2, 12, 5}, 1));
  out.push_back(task::make_reduction({5, 24}, {1}, graph::Op::kReduceSum));
  out.push_back(task::make_reduction({7, 6}, {0}, graph::Op::kReduceMax));
  out.push_back(task::make_reduction({3, 37}, {1}, graph::Op::kReduceMean));
  out.push_back(task::make_reduction({40}, {0}, graph::Op::kReduceSum));
  out.push_back(make_operator(graph::Op::kMatMul, graph::MatMulAttrs{}, {{3, 9, 14}, {3, 14, 10}}));
  out.push_back(make_operator(graph::Op::kLayerNorm, graph::LayerNormAttrs{1, 1e-5}, {{6, 20}, {20}, {20}}));
  out.push_back(task::make_attention({.heads = 2, .queries = 7, .keys = 11, .depth = 5, .mask = true}));
  out.push_back(task::make_attention({.batch = 2, .queries = 20, .keys = 16, .depth = 8, .heads_first = true}));
  out.push_back(make_transposed_conv());
  out.push_back(task::make_elementwise({3, 5, 7}));
  out.push_back(task::make_elementwise({1, 131}));
  return out;
}

}  // namespace tcc::testing
