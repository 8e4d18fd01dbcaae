// Extents that are known at run time only, such as the number of elements that NonZero finds. In the graph such an axis
// has the greatest extent that there may be, and an i64 scalar says how many of its elements count; those behind are
// undefined. So operators that combine the elements of such an axis read neutral elements in the place of the others,
// and each operator says which axes of its result have counts.
//
//   mask [1000] bool ──NonZero──► places [1, 1000], count c ──Transpose──► [1000, 1], c on axis 0
//   ──GatherND──► x [1000], c on axis 0 ──ReduceSum──► sum of Where(0..999 < c, x, 0)
//
// Small integers that are made of counts, as Shape and Concat make them, have a range for each element. Where a model
// computes a shape from them, the upper ends are the extents in the graph.
#pragma once

#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "tcc/graph/graph.h"

namespace tcc::onnx {

class NodeContext;

// Of one tensor, by axis: an i64 scalar of the graph; kNone where the extent is fixed.
using Counts = std::vector<graph::ValueId>;

// An extent as a model computes it: the number `most`, or, with a count, at most that.
struct Extent {
  int64_t most = 0;
  graph::ValueId count = graph::kNone;
};

// One element of integers that are made of counts.
struct CountedNumber {
  int64_t low = 0, high = 0;
  graph::ValueId scalar = graph::kNone;  // i64, where one is known that holds it
};

// Numbers that are made of a count and a constant: min(a, b), max(a - b, 0), a * b, a / b.
enum class CountOp { kAtMost, kWithout, kTimes, kOver };

// What is known of one model's counts.
struct CountBook {
  std::unordered_map<graph::ValueId, Counts> counts;
  std::unordered_map<graph::ValueId, std::vector<CountedNumber>> numbers;
  // Values that are made once: numbers made of counts, masks of axes, and the places of the elements of a mask.
  std::map<std::tuple<CountOp, graph::ValueId, int64_t>, graph::ValueId> derived;
  std::map<std::pair<std::vector<graph::ValueId>, int64_t>, graph::ValueId> sums;      // of sorted counts and a number
  std::map<std::pair<std::vector<graph::ValueId>, int64_t>, graph::ValueId> products;  // likewise
  std::map<std::pair<std::vector<graph::ValueId>, std::vector<int64_t>>, graph::ValueId> places;  // in concatenations
  std::map<std::pair<std::vector<graph::ValueId>, std::vector<int64_t>>, graph::ValueId> packed;  // of joined axes
  std::map<std::tuple<graph::ValueId, int64_t, size_t>, graph::ValueId> masks;
  std::map<graph::ValueId, std::pair<graph::ValueId, graph::ValueId>> found;
};

// The operator on inputs of which some have counts, as NodeContext::emit gives it.
Result<graph::ValueId> emit_counted(NodeContext& c, graph::Op op, graph::Attributes attrs,
                                    std::vector<graph::ValueId> inputs);
// What is known of the elements of the node's result, where its inputs are integers made of counts.
std::optional<std::vector<CountedNumber>> follow_numbers(const graph::Graph& graph, const CountBook& book,
                                                         const graph::Node& node);

// Do the operator's handlers take inputs with counts? Its nodes need not: they say which they take.
bool takes_counts(const std::string& domain, const std::string& op);

// The elements that do not count made false: the result has no counts.
Result<graph::ValueId> without_counts(NodeContext& c, graph::ValueId mask);
struct Found {
  graph::ValueId places = graph::kNone;  // positions of true elements among all, in order
  graph::ValueId count = graph::kNone;
};
// Of bools of any shape; at most `most` are found.
Result<Found> find_true(NodeContext& c, graph::ValueId mask, int64_t most);
// Made once.
Result<graph::ValueId> derived_count(NodeContext& c, CountOp op, graph::ValueId a, int64_t b);
// One of two tensors by a condition: extents and counts may differ.
Result<graph::ValueId> choose_counted(NodeContext& c, graph::ValueId condition, graph::ValueId yes, graph::ValueId no);

}  // namespace tcc::onnx
