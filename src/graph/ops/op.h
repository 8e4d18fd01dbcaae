// The operators, as the rows of TCC_GRAPH_OPS name them. For a family F of that table, Typing::F checks a node and
// gives the type of its result, and Runner::F computes it in double. A file of this folder has both for some families.
#pragma once

#include <algorithm>
#include <vector>

#include "graph/passes_internal.h"
#include "tcc/graph/refusal.h"
#include "tcc/support/check.h"

namespace tcc::graph {

// Types of one node. Every attribute domain is checked here: later stages never meet a stride of zero or a group that
// does not divide.
class Typing {
 public:
  Typing(const Graph& graph, const Node& node) : graph_(graph), node_(node) {}

#define TCC_X(family) Result<TensorType> family() const;
  TCC_GRAPH_TYPE_RULES(TCC_X)
#undef TCC_X

 private:
  const Value& in(size_t i) const { return graph_.value(node_.inputs[i]); }
  const Shape& shape(size_t i) const { return in(i).shape; }
  Result<TensorType> done(Shape s) const { return TensorType{in(0).dtype, std::move(s)}; }
  // Of a contraction.
  bool multiplies_bytes() const { return is_byte(in(0).dtype) && is_byte(in(1).dtype); }
  Result<TensorType> summed(Shape s) const {
    return TensorType{multiplies_bytes() ? DType::kI32 : in(0).dtype, std::move(s)};
  }

  Result<void> need_float() const {
    if (is_float(in(0).dtype)) return {};
    return refuse(Refusal::kElementType, "needs floating-point input, got {}", dtype_name(in(0).dtype));
  }
  // Operands that are multiplied and summed: of one type, floats or integers of 32 and 64 bits, which wrap; or integers
  // of 8 bits, whose sums, and what is added to them, are i32.
  Result<void> need_product_types() const {
    if (multiplies_bytes()) {
      if (node_.inputs.size() < 3 || in(2).dtype == DType::kI32) return {};
      return input_error("sums of integers of 8 bits are i32, input 2 is {}", dtype_name(in(2).dtype));
    }
    TCC_TRY_VOID(need_one_type());
    return need_product_type();
  }
  Result<void> need_product_type() const {
    const DType t = in(0).dtype;
    if (is_float(t) || t == DType::kI32 || t == DType::kI64 || is_wide_unsigned(t)) return {};
    return refuse(Refusal::kElementType, "does not multiply {}", dtype_name(t));
  }
  Result<void> need_arithmetic() const {
    if (in(0).dtype != DType::kBool && !is_wide_unsigned(in(0).dtype)) return {};
    return refuse(Refusal::kElementType, "does not take {}", dtype_name(in(0).dtype));
  }
  Result<void> need_one_type() const {
    for (size_t i = 1; i < node_.inputs.size(); ++i) {
      if (in(i).dtype != in(0).dtype) {
        return input_error("inputs have different types: {} and {}", dtype_name(in(0).dtype), dtype_name(in(i).dtype));
      }
    }
    return {};
  }
  Result<void> need_channels(size_t i, int64_t channels, const char* what) const;
  Result<void> need_block(int64_t block) const;
  Result<Shape> permuted(const Shape& s, const std::vector<int64_t>& perm) const;
  Result<TensorType> winograd_conv(const ConvAttrs& a) const;

  const Graph& graph_;
  const Node& node_;
};

// One node in double. The result has its shape and size from the start.
class Runner {
 public:
  Runner(const Graph& graph, const Node& node, std::vector<const HostTensor*> inputs, ThreadPool& pool,
         WorkMeter* meter)
      : graph_(graph),
        node_(node),
        inputs_(std::move(inputs)),
        pool_(pool),
        meter_(meter),
        dtype_(graph.value(node.output).dtype) {
    out_.shape = graph.value(node.output).shape;
    out_.data.resize(static_cast<size_t>(element_count(out_.shape)));
  }

#define TCC_X(family) void family();
  TCC_GRAPH_REFERENCES(TCC_X)
#undef TCC_X

  // What was computed; integers wrap to their width.
  HostTensor take();

 private:
  const HostTensor& in(size_t i) const { return *inputs_[i]; }
  // body(i) for all i, by all threads. `share`: of the node's arithmetic, what all of them compute.
  void in_parallel(int64_t n, double share, const std::function<void(int64_t i)>& body);
  void product(const double* a, int64_t am, int64_t ak, const double* b, int64_t bk, int64_t bn, int64_t rows,
               int64_t columns, int64_t depth, double* c);
  void plain_conv();
  void plain_pool();
  void plain_matmul();

  const Graph& graph_;
  const Node& node_;
  std::vector<const HostTensor*> inputs_;
  ThreadPool& pool_;
  WorkMeter* meter_;  // may be null
  DType dtype_;
  HostTensor out_;
};

// The tensor with axis i from axis perm[i] of `x`; an empty permutation leaves it.
HostTensor permuted(const HostTensor& x, const std::vector<int64_t>& perm);
// Indices of an operator must be of i32 or i64.
Result<void> need_indices(const Value& indices);
// The position that an index means: negative ones count from the end, those out of range are moved inside.
int64_t picked_position(double index, int64_t extent);

}  // namespace tcc::graph
