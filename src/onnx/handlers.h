// What an operator's handler sees: one ONNX node with its inputs resolved, typed access to its attributes, and a way
// to emit graph nodes. A handler must read every attribute that it serves: one left unread is an error that names it.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "counts.h"
#include "tcc/graph/graph.h"
#include "tcc/graph/passes.h"
#include "tcc/graph/refusal.h"
#include "tensor.h"

namespace tcc::onnx {

// Handlers make nodes of the graph, so they name its types without the namespace.
using graph::BinaryFn;
using graph::DType;
using graph::Op;
using graph::Refusal;
using graph::refuse;
using graph::ScatterReduction;
using graph::Shape;
using graph::UnaryFn;
using graph::ValueId;

struct SmallType;  // small_types.h

// What a name of the model stands for: a tensor, a list of tensors (a sequence, whose length is known), or an optional
// without a value. An input that a node leaves out does not exist.
struct Item {
  graph::ValueId tensor = graph::kNone;
  std::shared_ptr<const std::vector<graph::ValueId>> list = nullptr;
  bool empty_optional = false;
  const SmallType* small = nullptr;  // of a tensor whose bytes hold elements of a type that kernels do not have

  bool exists() const { return tensor != graph::kNone || list != nullptr || empty_optional; }
};
using Items = std::vector<Item>;

// Imports the nodes of a body (of If, Loop, Scan) into the graph, once for each call, and returns its outputs. Names of
// the graphs around the body are known in it.
class BodyImporter {
 public:
  virtual ~BodyImporter() = default;
  virtual Result<Items> import_body(const tcc_onnx::Graph& body, const Items& inputs) = 0;
};

// What handlers share while one model is read.
struct ImportState {
  graph::Graph& graph;
  std::shared_ptr<const void> owner;  // keeps the messages alive
  ExternalFiles& files;
  graph::Evaluator& evaluator;
  BodyImporter* bodies = nullptr;
  std::set<std::string> to_freeze = {};  // inputs whose values had to be known
  int64_t folded_bytes = 0;              // of constants that were computed from others
  CountBook counts = {};
};

// TCC_TRY for a variable that exists already. One statement, which needs no braces.
#define TCC_TRY_SET(place, expression)                                                    \
  do {                                                                                    \
    auto tcc_try_result = (expression);                                                   \
    if (!tcc_try_result) return ::tl::make_unexpected(std::move(tcc_try_result).error()); \
    place = std::move(*tcc_try_result);                                                   \
  } while (0)

constexpr int64_t kMaxTable = int64_t{1} << 24;  // elements of a constant that a handler writes out

// A value, or why it could not be made. What makes values from others takes it and passes the error on: calls nest.
using Made = Result<graph::ValueId>;

class NodeContext {
 public:
  NodeContext(ImportState& state, const tcc_onnx::Node& proto, int64_t opset, Items inputs);

  int64_t opset() const { return opset_; }
  const std::string& op() const { return proto_.op_type(); }
  // Of ai.onnx itself: other domains count their own versions.
  bool standard() const { return proto_.domain().empty() || proto_.domain() == "ai.onnx"; }
  // Of the node in the model.
  int64_t number() const { return std::ssize(graph_.sources); }

  // --- inputs; optional ones at the end are dropped, others may be absent
  size_t input_count() const { return inputs_.size(); }
  bool has_input(size_t i) const { return i < inputs_.size() && inputs_[i].tensor != graph::kNone; }
  graph::ValueId input(size_t i) const { return inputs_[i].tensor; }  // has_input(i)
  std::vector<Made> inputs() const;
  Result<void> need_inputs(std::initializer_list<size_t> numbers) const;
  const graph::Value& value(graph::ValueId id) const { return graph_.value(id); }
  // nullptr for inputs and constants.
  const graph::Node* producer(graph::ValueId id) const {
    return value(id).producer == graph::kNone ? nullptr : &graph_.node(value(id).producer);
  }
  const graph::Value& input_value(size_t i) const { return graph_.value(inputs_[i].tensor); }
  int64_t rank(size_t i) const { return static_cast<int64_t>(input_value(i).shape.size()); }
  // Inputs of operators that take lists and optionals (rows of TCC_ONNX_LIST_OPERATORS).
  const Item& item(size_t i) const { return inputs_[i]; }
  const Items& items() const { return inputs_; }
  Result<const std::vector<graph::ValueId>*> list(size_t i) const;

  // An input that must be known when compiling.
  Result<const graph::Value*> known_input(size_t i, const char* what) const;
  // Its numbers.
  Result<std::vector<int64_t>> constant_integers(size_t i, const char* what) const;
  Result<std::vector<int64_t>> optional_integers(size_t i, const char* what) const;  // empty where the input is absent
  Result<double> constant_scalar(size_t i, const char* what) const;
  Result<double> constant_scalar(size_t i, const char* what,
                                 double otherwise) const;  // `otherwise`: of an absent input
  // Its numbers as extents: known, or made of counts.
  Result<std::vector<Extent>> extents(size_t i, const char* what);

  // --- extents that are known at run time only, see counts.h
  CountBook& book() const { return state_.counts; }
  // nullptr: every extent is fixed.
  const Counts* counts(graph::ValueId id) const;
  bool is_counted(size_t i) const { return has_input(i) && counts(inputs_[i].tensor) != nullptr; }
  // The count of an input's axis; kNone where the extent is fixed.
  graph::ValueId count(size_t i, size_t axis) const;
  void set_counts(graph::ValueId id, Counts counts);
  CountedNumber number(graph::ValueId count) const;
  bool same_number(graph::ValueId a, graph::ValueId b) const;
  // The extent of an axis of `id` (kNone: of a result), `why` being what cannot be done with it.
  tl::unexpected<Error> refuse_count(graph::ValueId id, size_t axis, const char* why) const;

  // --- attributes, some of which operators have from an opset on: `since`
  Result<int64_t> get_int(const char* name, int64_t otherwise, int64_t since = 1);
  Result<bool> get_flag(const char* name, bool otherwise, int64_t since = 1);
  Result<double> get_float(const char* name, double otherwise);
  Result<std::string> get_string(const char* name, const std::string& otherwise, int64_t since = 1);
  Result<std::optional<std::vector<int64_t>>> get_ints(const char* name);
  Result<std::optional<std::vector<double>>> get_floats(const char* name);
  Result<std::optional<std::vector<std::string>>> get_strings(const char* name);
  Result<std::optional<TensorConstant>> get_tensor(const char* name);
  const SmallType* small_type_of(const char* name) const;      // of the elements of a tensor
  Result<const tcc_onnx::Graph*> get_graph(const char* name);  // must be given
  Result<Items> import_body(const tcc_onnx::Graph& body, const Items& inputs) {
    return state_.bodies->import_body(body, inputs);
  }
  bool has_attribute(const char* name) const { return find(name) != nullptr; }
  void ignore_attribute(const char* name) { read_.insert(name); }
  Result<void> check_all_attributes_read() const;

  // Negative axes count from the back; get_axis reads attribute "axis".
  Result<int64_t> get_axis(int64_t otherwise, int64_t rank);
  Result<int64_t> normalize_axis(int64_t axis, int64_t rank) const;
  Result<std::vector<int64_t>> normalize_axes(std::vector<int64_t> axes, int64_t rank) const;  // sorted, distinct

  // --- results
  Made emit(graph::Op op, graph::Attributes attrs, const std::vector<Made>& inputs);
  // The same, whatever counts the inputs have: the result has none.
  Made emit_fixed(graph::Op op, graph::Attributes attrs, std::vector<graph::ValueId> inputs);
  Made emit_reshape(const Made& x, graph::Shape shape);
  // The axes of `split` in the order of `perm`, then as `joined`.
  Made rearrange(const Made& x, graph::Shape split, std::vector<int64_t> perm, graph::Shape joined);
  graph::ValueId constant(graph::DType dtype, graph::Shape shape, graph::Constant constant);
  graph::ValueId scalar(graph::DType dtype, double value) {
    return constant(dtype, {}, graph::make_splat(dtype, value));
  }
  Made unary(graph::UnaryFn fn, const Made& x, double alpha = 0, double beta = 0) {
    return emit(graph::Op::kUnary, graph::UnaryAttrs{fn, alpha, beta}, {x});
  }
  Made binary(graph::BinaryFn fn, const Made& x, const Made& y) {
    return emit(graph::Op::kBinary, graph::BinaryAttrs{fn}, {x, y});
  }
  // Add, Sub, Mul, Div
  Made arithmetic(graph::Op op, const Made& x, const Made& y) { return emit(op, graph::NoAttrs{}, {x, y}); }
  Made where(const Made& condition, const Made& x, const Made& y) {
    return emit(graph::Op::kWhere, graph::NoAttrs{}, {condition, x, y});
  }
  Made reduce(graph::Op op, const Made& x, std::vector<int64_t> axes, bool keep_dims) {
    return emit(op, graph::ReduceAttrs{std::move(axes), keep_dims}, {x});
  }
  Made cast(const Made& x, graph::DType to);
  // Floats of 16 bits in f32: their squares and sums may leave the range of the shorter type. Others as they are.
  Made widened(const Made& x) {
    if (!x) return x;
    const graph::DType dtype = value(*x).dtype;
    return dtype == graph::DType::kF16 || dtype == graph::DType::kBF16 ? cast(x, graph::DType::kF32) : x;
  }
  // Elements [start, start + extent) along one axis.
  Made slice(const Made& x, int64_t axis, int64_t start, int64_t extent);
  // 0, 1, 2, ... along `axis` of a tensor of `rank` axes.
  Made iota(graph::DType dtype, int64_t extent, size_t axis, size_t rank);

  // Outputs beyond the first are made only when the model reads them.
  size_t output_count() const { return static_cast<size_t>(proto_.output_size()); }
  bool wants_output(size_t i) const { return i < output_count() && !proto_.output(static_cast<int>(i)).empty(); }
  void set_output(size_t i, graph::ValueId id) { set_output(i, Item{id}); }
  void set_output(size_t i, Item item) {
    if (outputs_.size() <= i) outputs_.resize(i + 1);
    outputs_[i] = std::move(item);
  }
  // Does not exist when the handler did not make it.
  Item output(size_t i) const { return i < outputs_.size() ? outputs_[i] : Item{}; }
  // Of an input that must be known and is not: names the model's inputs that it is computed from.
  tl::unexpected<Error> refuse_run_time(size_t i, const char* what) const;

  // The handler's end: the first output, with bytes of elements of type `small` where that is given.
  Result<void> finish(Made id, const SmallType* small = nullptr);
  Result<void> finish(graph::Op op, graph::Attributes attrs, const std::vector<Made>& inputs) {
    return finish(emit(op, std::move(attrs), inputs));
  }

 private:
  const tcc_onnx::Attribute* find(const char* name) const;
  Result<const tcc_onnx::Attribute*> take(const char* name, tcc_onnx::Attribute::Type type);

  ImportState& state_;
  graph::Graph& graph_;
  const tcc_onnx::Node& proto_;
  int64_t opset_;
  Items inputs_;
  std::set<std::string> read_;
  Items outputs_;
  int32_t source_;  // of this node, in graph_.sources
};

using Handler = Result<void> (*)(NodeContext&);

struct OperatorRow {
  const char* domain;
  const char* op;
  int64_t since, until;  // opset versions served
  int64_t fewest_inputs, most_inputs;
  Handler handler;
  bool lists = false;  // serves inputs that are lists or optionals
};

// first, first + 1, ... rank - 1
std::vector<int64_t> axes_from(int64_t first, int64_t rank);
// The second operand of an operator; before opset 7 reshaped so that numpy's rule broadcasts it as the attributes say.
Result<graph::ValueId> legacy_broadcast(NodeContext& c, graph::ValueId a, graph::ValueId b);

// A convolution with the node's attributes.
Result<graph::ValueId> emit_convolution(NodeContext& c, graph::ValueId x, graph::ValueId weights,
                                        std::optional<graph::ValueId> bias);

constexpr int64_t kNewestOpset = 28;

const std::vector<OperatorRow>& operator_table();
// The row for a model's opset; newer opsets than kNewestOpset are served by the newest row.
const OperatorRow* find_operator(const std::string& domain, const std::string& op, int64_t opset);

}  // namespace tcc::onnx
