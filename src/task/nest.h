// Builds the naive nests of one fusion group.
#pragma once

#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tcc/ir/block_names.h"
#include "tcc/ir/build.h"
#include "tcc/ir/integer_range.h"
#include "tcc/task/task.h"

namespace tcc::task {

using Exprs = std::vector<ir::Expr>;

// A tensor as the nests see it: a buffer of the value's logical shape.
struct Tensor {
  const ir::Buffer* buffer = nullptr;
  graph::Shape shape;
};

struct NestAxis {
  const char* name;
  int64_t extent;
};

// u32 and u64 live in the signed type of their width.
ir::Type ir_type(graph::DType dtype);

using ir::kPadBlock;
// The matrix products of a convolution by tiles.
inline constexpr const char* kWinogradProduct = "winograd_product";
// Of a vector of f32 where it is widest, in loops that are not scheduled; narrower machines take several vectors.
inline constexpr int64_t kVectorLanes = 16;
// The weighted sum of an attention.
inline constexpr const char* kAttentionProduct = "gemm1";

class GroupNest {
 public:
  GroupNest(const graph::Graph& graph, const graph::FusionGroup& group, const TaskOptions& options);
  // The kernel; fills anchor, anchor_block and params of the task too.
  void build(Task& task);

 private:
  // One step of the group: writes `out`, whose shape is the shape of the node's output.
  struct Stage {
    std::string name;
    graph::Shape shape;
    bool combines;  // accumulates into `out`: out must have the compute type
    std::function<ir::Stmt(const std::string& name, const Tensor& out)> emit;
    graph::ValueId result = graph::kNone;  // the value that `out` holds afterwards
  };

  ir::Builder& b() { return kernel_.b(); }
  const graph::Value& value(graph::ValueId id) const { return graph_.value(id); }
  // The value's shape as the nests see it.
  const graph::Shape& shape_of(graph::ValueId id) const;
  // Weights and bias of a convolution on blocked channels: the same elements with the channels split. Fills
  // flat_shapes_.
  void block_constants();
  // A pointwise convolution is a matrix product over all positions: where every tensor of the group allows it, the
  // spatial axes become one. The input of a strided one keeps its own. Decides that, and fills flat_shapes_.
  void flatten_positions();
  // Groups of a convolution's channels become an axis, where every tensor of the group allows it. Decides that, and
  // fills flat_shapes_.
  void split_groups();
  Tensor operand(graph::ValueId id) const { return tensors_.at(id); }

  void add_params(Task& task);
  void plan(const graph::Node& node);  // appends the node's stages
#define TCC_X(loops) void loops(const graph::Node& node);
  TCC_GRAPH_LOOPS(TCC_X)
#undef TCC_X
  // windows.cpp
  struct ConvNest;
  void plan_direct_conv(const graph::Node& node);
  // In front of the convolution; `source` becomes what it reads.
  ir::Stmt emit_padded(const ConvNest& c, Tensor& source);
  ir::Stmt emit_gathered(const ConvNest& c, Tensor& source);
  ir::Stmt emit_conv(const ConvNest& c, const std::string& name, const Tensor& out, const Tensor& source);
  void plan_winograd(const graph::Node& node);  // winograd.cpp
  ir::Expr cast_value(graph::DType from, graph::DType to, ir::Expr x);
  // Of a slice, an expansion or a gather.
  ir::Expr moved_value(const graph::Node& node, const Exprs& at);
  ir::Expr picked(const Tensor& indices, const Exprs& at, int64_t extent);
  // The type that values of `dtype` have inside the kernel: half types widen unless they are only moved.
  ir::Type widened(graph::DType dtype) const;
  // The operand's element in its own (widened) type.
  ir::Expr read_own(graph::ValueId id, const Exprs& at, const graph::Shape& shape);
  // packed_matmul.cpp
  ir::Stmt emit_packed_sums(const graph::Node& node, const std::string& name, const Tensor& out);
  ir::Stmt emit_packed_tiles(const graph::Node& node, const std::string& name, const Tensor& out);
  // Of a byte as i32.
  ir::Expr low_bits(ir::Expr byte);
  ir::Expr high_bits(ir::Expr byte);
  // scatter.cpp
  struct ScatterNest;
  // Does update `over` go to element `at`?
  ir::Expr scatter_hits(const ScatterNest& s, const Exprs& at, const Exprs& over);
  ir::Expr scatter_covers(const ScatterNest& s, const Exprs& at);
  ir::Expr scatter_update(const ScatterNest& s, const Exprs& at, const Exprs& over, ir::Expr predicate);
  ir::Stmt emit_scatter_last(const ScatterNest& s, const std::string& name, const Tensor& out);
  ir::Expr scatter_combined(graph::ScatterReduction reduction, bool wide_unsigned, ir::Expr x, ir::Expr y);
  ir::Stmt emit_scatter_in_order(const ScatterNest& s, const std::string& name, const Tensor& out);
  ir::Stmt emit_scatter_reduction(const ScatterNest& s, const std::string& name, const Tensor& out);
  // order.cpp
  struct BoxExprs;
  class SuppressRow;
  // sort.cpp
  struct RowSort;
  bool sorts_in_order(const graph::TopKAttrs& a, const graph::Shape& shape) const;
  bool sorts_in_lanes(const graph::TopKAttrs& a, const graph::Shape& shape) const;
  ir::Stmt emit_in_lanes(const graph::Node& node, const std::string& name, const Tensor& out);
  ir::Stmt emit_in_order(const graph::Node& node, const std::string& name, const Tensor& out);
  ir::Stmt emit_sorted(const graph::Node& node, const std::string& name, const Tensor& out);
  ir::Stmt emit_selected(const graph::Node& node, const std::string& name, const Tensor& out);
  ir::Stmt guess_threshold(const graph::Node& node, const Tensor& threshold, const Tensor& open,
                           const graph::Shape& rows, const Exprs& row);
  void make_sort_buffers(RowSort& s, const graph::Shape& rows, ir::Type key);
  ir::Expr sort_pad(const graph::TopKAttrs& a, ir::Type key);
  ir::Stmt fill_row(const RowSort& s, ir::Expr filled, int64_t least, ir::Expr pad, bool numbers);
  ir::Stmt merge_pass(const RowSort& s, int64_t pass, ir::Expr filled, bool numbered);
  // Element i of the row that TopK reads, as a number that `<` compares.
  ir::Expr sort_key(const graph::Node& node, Exprs row, ir::Expr i, ir::Expr predicate = nullptr);
  // Does an element p come before an element q behind it?
  ir::Expr comes_before(const graph::TopKAttrs& a, ir::Expr p, ir::Expr q);
  ir::Expr row_load(const Tensor& t, Exprs row, ir::Expr i);
  ir::Stmt row_store(const Tensor& t, Exprs row, ir::Expr i, ir::Expr x);
  ir::Stmt ordered_nest(const std::string& name, const std::vector<NestAxis>& axes,
                        const std::function<ir::Stmt(const Exprs&)>& body);
  // f() with another compute type.
  template <class F>
  auto computing(ir::Type type, F f) {
    const ir::Type saved = std::exchange(compute_, type);
    auto made = f();
    compute_ = saved;
    return made;
  }
  ir::Stmt emit_softmax(const graph::Node& node, const std::string& name, const Tensor& out);
  ir::Stmt emit_concat(const graph::Node& node, const Tensor& out);
  // elementwise.cpp
  ir::Expr elementwise_value(const graph::Node& node, const Exprs& at, const graph::Shape& shape);
  // Is it the Cast between the softmax and the second product of an attention?
  bool rounds_weights(const graph::Node& cast) const;
  std::string elementwise_name(const graph::Node& node) const;
  // Names of stages differ: schedules find blocks by them.
  std::string unique_name(std::string name);
  // Makes the name unique; `emit` gets it back.
  void add_stage(std::string name, const graph::Node& node, bool combines,
                 std::function<ir::Stmt(const std::string& name, const Tensor& out)> emit);
  // The same for a result whose elements are value(indices), each by itself.
  void add_map(std::string name, const graph::Node& node, std::function<ir::Expr(const Exprs&)> value);

  // --- pieces of nests ---
  Tensor make_temp(const std::string& name, const graph::Shape& shape);
  // Serial loops around a block of spatial iterators that stores value(iterators) at the iterators.
  ir::Stmt map_nest(const std::string& name, const std::vector<NestAxis>& axes, const Tensor& out,
                    const std::function<ir::Expr(const Exprs&)>& value);
  // The same with every index of out given.
  ir::Stmt map_nest_at(const std::string& name, const std::vector<NestAxis>& axes, const Tensor& out,
                       const std::function<Exprs(const Exprs&)>& index,
                       const std::function<ir::Expr(const Exprs&)>& value);
  // Serial loops around a block of spatial and reduce iterators; parts(spatial, reduce) gives its init and its body.
  ir::Stmt block_nest(const std::string& name, const std::vector<NestAxis>& spatial,
                      const std::vector<NestAxis>& reduce, ir::ReducerKind reducer,
                      const std::function<std::pair<ir::Stmt, ir::Stmt>(const Exprs&, const Exprs&)>& parts);
  // Serial loops around a block of spatial iterators with several stores.
  ir::Stmt tile_nest(const std::string& name, const std::vector<NestAxis>& axes,
                     const std::function<std::vector<ir::Stmt>(const Exprs&)>& stores);
  // Spatial iterators `spatial`, reduce iterators `reduce`: out[index(spatial)] = combine over reduce of
  // value(spatial, reduce). An empty index function means the spatial iterators themselves.
  ir::Stmt reduce_nest(const std::string& name, const std::vector<NestAxis>& spatial,
                       const std::vector<NestAxis>& reduce, ir::ReducerKind reducer, const Tensor& out,
                       const std::function<Exprs(const Exprs&)>& index,
                       const std::function<ir::Expr(const Exprs&, const Exprs&)>& value);
  std::vector<NestAxis> axes_of(const graph::Shape& shape) const;
  // The tensor's element in the compute type; with a predicate, `other` where it is false.
  ir::Expr read(const Tensor& t, const Exprs& at, ir::Expr predicate = nullptr, double other = 0);
  // The same at the (numpy-broadcast) indices of a result of `shape`.
  ir::Expr read_broadcast(const Tensor& t, const Exprs& at, const graph::Shape& shape);
  // Element `at` of the tensor padded to `shape` with `value`, begin[i] elements of it in front of axis i.
  ir::Expr read_padded(const Tensor& t, const Exprs& at, const graph::Shape& shape, const std::vector<int64_t>& begin,
                       double value = 0);
  // 0 <= position < extent, as a predicate; nullptr when it always holds. low and high are the least and greatest
  // values of `position`.
  ir::Expr inside(ir::Expr position, int64_t low, int64_t high, int64_t extent);
  // What no element of the compute type is below.
  double lowest_value() const {
    return ir::is_float(compute_) ? -HUGE_VAL : static_cast<double>(ir::integer_range(compute_).low);
  }
  ir::Expr real(double v) { return b().constant(v, compute_); }
  ir::Expr call(ir::Intrinsic fn, ir::Expr a) { return b().call(fn, std::array<ir::Expr, 1>{a}); }

  const graph::Graph& graph_;
  const graph::FusionGroup& group_;
  const TaskOptions options_;
  ir::KernelBuilder kernel_;
  bool moves_;        // the group only moves elements
  ir::Type compute_;  // type of the temporaries and the arithmetic of the stage being made
  std::map<graph::ValueId, graph::Shape> flat_shapes_;  // empty: the shapes of the graph
  bool groups_split_ = false;
  std::map<graph::ValueId, Tensor> tensors_;
  std::vector<Stage> stages_;
  std::map<std::string, int> used_names_;
};

// "conv2d 1x64x56x56 -> 64 k3 s1 p1 + bias + relu f32"
std::string workload_text(const graph::Graph& graph, const graph::FusionGroup& group);
// The operator's or the function's name in lower case: "reducesum", "gelu".
std::string lower_name(const graph::Node& node);
AnchorKind anchor_kind(const graph::Graph& graph, const graph::Node& node);
// Two products with a softmax between them.
bool is_attention(const graph::Graph& graph, const graph::FusionGroup& group);

}  // namespace tcc::task
