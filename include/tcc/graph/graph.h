// The tensor graph: operators on typed tensors with static shapes, in topological order.
//
// The importer has already normalized what ONNX can say in many ways: Flatten, Squeeze and Unsqueeze are Reshape;
// GlobalAveragePool is ReduceMean over the spatial axes; n-ary Sum is a chain of Add; automatic padding is explicit;
// axes are non-negative; optional inputs at the end are dropped.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "tcc/graph/scalar.h"
#include "tcc/graph/types.h"

namespace tcc::graph {

using ValueId = int32_t;
using NodeId = int32_t;
constexpr int32_t kNone = -1;

// --- attributes --------------------------------------------------------------------------------------------------

struct NoAttrs {};
// Conv, Gemm and MatMul take two tensors of one type, or two of integers of 8 bits, signed or not. Of these the sums
// are exact integers: the result is i32, and a bias is i32, too.
//
// Input N,C,spatial... with one to three spatial axes; weight M,C/group,kernel...; optional bias M. All vectors have
// one entry per spatial axis.
//
// Blocked channels: with block_in = b > 1 the input is N,C/b,spatial...,b, so that b channels of one position are
// adjacent; with block_out the output is. Weight and bias keep their plain shape whatever the blocks are. A depthwise
// convolution (group = C = M) has equal blocks, any other blocked one has one group. Where both sides of that one are
// blocked, its weight may be M/block_out,C/block_in,kernel...,block_in,block_out, as dot products read it.
// winograd = m (2 or 4): the same convolution by tiles of m x m outputs, F(m x m, 3 x 3) of tcc/graph/winograd.h. Two
// spatial axes, 3x3, strides, dilations and group 1, nothing blocked; the weight is the transformed one, of shape
// (m+2)^2,M,C.
struct ConvAttrs {
  std::vector<int64_t> kernel, strides, dilations, pads_begin, pads_end;
  int64_t group = 1;
  int64_t block_in = 1, block_out = 1;
  int64_t winograd = 0;
  int64_t pad_value = 0;  // of the positions outside the input, where that holds integers of 8 bits
};
// Windows over the spatial axes of N,C,spatial.... With ceil_mode the last window may start inside and reach beyond the
// padded input. MaxPool ignores positions outside the input. AveragePool divides by the number of window positions
// inside the input, or, with count_include_pad, inside the padded input [-begin, extent + end). With block = b > 1
// input and output are N,C/b,spatial...,b.
struct PoolAttrs {
  std::vector<int64_t> kernel, strides, dilations, pads_begin, pads_end;
  bool ceil_mode = false;
  bool count_include_pad = false;
  int64_t block = 1;
};
// Y = transpose(transpose(A, perm_a) * transpose(B, perm_b), perm_out), numpy's matmul in the middle; an empty
// permutation leaves the axes as they are.
struct MatMulAttrs {
  std::vector<int64_t> perm_a, perm_b, perm_out;
};
// Y = alpha * op(A) * op(B) + beta * C; A is MxK, B is KxN (before transposition), C broadcasts to MxN.
struct GemmAttrs {
  double alpha = 1, beta = 1;
  bool trans_a = false, trans_b = false;
};
// Inputs X (N,C,...), scale C, bias C, mean C, variance C: (x - mean) / sqrt(variance + epsilon) * scale + bias.
struct BatchNormAttrs {
  double epsilon = 1e-5;
};
struct AxisAttrs {  // Softmax and LogSoftmax over one axis, Concat along one axis
  int64_t axis = 0;
};
// y = x / (bias + alpha / size * sum of squares over channels c - (size-1)/2 .. c + size/2) ^ beta
struct LrnAttrs {
  double alpha = 1e-4, beta = 0.75, bias = 1;
  int64_t size = 1;
};
struct ClipAttrs {
  double min = 0, max = 0;  // may be -inf, +inf
};
struct LeakyAttrs {
  double alpha = 0.01;
};
struct TransposeAttrs {
  std::vector<int64_t> perm;  // output axis i is input axis perm[i]
};
struct PadAttrs {  // constant padding; begin and end have one entry per axis and are >= 0
  std::vector<int64_t> begin, end;
  double value = 0;
};
struct ReduceAttrs {
  std::vector<int64_t> axes;  // sorted, distinct
  bool keep_dims = true;
  // Of ReduceMax and ReduceMin of floats: the result is NaN where an element is. Else NaN is not looked at.
  bool keeps_nan = false;
};
struct ReshapeAttrs {
  Shape shape;  // the output's, without -1
};

struct UnaryAttrs {
  UnaryFn fn = UnaryFn::kAbs;
  double alpha = 0, beta = 0;  // see UnaryFn
};
struct BinaryAttrs {
  BinaryFn fn = BinaryFn::kMax;
};
struct CastAttrs {
  DType to = DType::kF32;
};
// Output index i along an axis reads input index start + i * step. One entry per axis; steps are not 0.
struct SliceAttrs {
  std::vector<int64_t> starts, steps, extents;
};
struct GatherNdAttrs {
  int64_t batch_dims = 0;
};
// (x - mean) / sqrt(variance + epsilon) * scale + bias, mean and variance over the axes from `axis` on.
struct LayerNormAttrs {
  int64_t axis = 0;
  double epsilon = 1e-5;
};

// Elements between those of the input, along some axes; interpolation and nearest neighbors. Inputs: x, and for each
// axis of `axes` the positions and the weights of its taps, both of shape (extent of the result, taps). Element o along
// such an axis is the sum over its taps t of weight[o, t] * x at position[o, t]; several axes multiply their weights.
// Positions are of i32 or i64 and moved inside the input; weights have the type of x, f32 where that is f16 or bf16.
struct ResampleAttrs {
  std::vector<int64_t> axes;  // sorted, distinct
};
// Blocks of an image back in their places; where they overlap their elements are summed. Input: N, C, the extents of a
// block, and how many blocks there are along each axis of the image. Element o of block n belongs at position
// n * stride + o * dilation - pad of the image; elements of positions outside of it are left out. The result is N, C
// and the image.
struct FoldAttrs {
  std::vector<int64_t> image, strides, dilations, pads;  // pads: in front of each axis
};
// Sums, or products, of the elements so far along an axis. With `exclusive` without the element itself; with `reverse`
// from the end.
struct ScanAttrs {
  int64_t axis = 0;
  bool exclusive = false, reverse = false, product = false;
};
enum class ScatterReduction : uint8_t { kNone, kAdd, kMul, kMax, kMin };
// Inputs: data, indices (i32 or i64), updates. The result is the data with updates put, or combined, at the indices.
// With axis >= 0 as ScatterElements, else as ScatterND with indices of two axes at least. Negative indices count from
// the end; updates of indices out of range are left out. Of several updates of one element the last counts, without a
// reduction.
struct ScatterAttrs {
  int64_t axis = -1;
  ScatterReduction reduction = ScatterReduction::kNone;
};
// Indices (i64) of the k greatest, or least, elements along an axis, in that order; of equal ones the first come first.
// NaN counts as greater than every number.
struct TopKAttrs {
  int64_t axis = 0, k = 1;
  bool largest = true;
};
// Index (i64) of the greatest, or least, element along an axis, whose extent in the result is 1; of equal ones the
// first or the last. An element that is NaN is before all numbers.
struct ArgAttrs {
  int64_t axis = 0;
  bool greatest = true, last = false;
};

// Positions (i64) of the elements that are true, in order. Input: bools of one axis. `extent`: how many positions there
// is room for; those behind the last true element are 0.
struct FindAttrs {
  int64_t extent = 0;
};
// Which boxes of a row stay, the best first: each that overlaps none that stays before it by more than `most_overlap`,
// as a share of the area of both. Inputs: boxes (f32, B,N,4: y and x of the lower corner, y and x of the upper one) and
// their scores (f32, B,C,N). Scores above `least_score` count; of equal ones the first comes first. The result is i64,
// B,C,K for the first `most` boxes or all, whichever are fewer: their numbers, and -1 behind the last.
struct SuppressAttrs {
  int64_t most = 0;
  double most_overlap = 0, least_score = -HUGE_VAL;
};

// A product with a constant matrix of numbers of 4 bits. Inputs: x (f32, ..., K), the numbers (u8, P,K/2,32: panels of
// 32 columns; the low bits of byte i are term 2i of the column's sum, the high ones term 2i+1), their scales and zero
// points (f32, P,K/block,32). Column n of the result (f32, ..., columns) is the sum over k of x[k] * (number - zero) *
// scale.
struct PackedMatMulAttrs {
  int64_t columns = 0, block = 0;  // block: terms that share a scale, a divisor of K and even
};
inline constexpr int64_t kPackedColumns = 32;  // of a panel

using Attributes =
    std::variant<NoAttrs, ConvAttrs, PoolAttrs, MatMulAttrs, GemmAttrs, BatchNormAttrs, AxisAttrs, LrnAttrs, ClipAttrs,
                 LeakyAttrs, TransposeAttrs, PadAttrs, ReduceAttrs, ReshapeAttrs, UnaryAttrs, BinaryAttrs, CastAttrs,
                 SliceAttrs, GatherNdAttrs, LayerNormAttrs, ResampleAttrs, FoldAttrs, ScanAttrs, ScatterAttrs,
                 TopKAttrs, ArgAttrs, FindAttrs, SuppressAttrs, PackedMatMulAttrs>;

// --- operators ---------------------------------------------------------------------------------------------------

enum class OpClass : uint8_t {
  kContraction,  // sums of products
  kWindow,       // a window slides over the input
  kReduction,    // axes disappear
  kRowwise,      // every output of a row needs the whole row
  kElementwise,  // output element = f(input elements at the same, broadcast, index)
  kView,         // bytes of other tensors, under another shape, as a part, or side by side
  kMove,         // copies elements to other places
};

// What becomes of an operator where the products of the graph are lowered to f16 or bf16.
enum class OpPrecision : uint8_t {
  kProduct,   // takes and gives the low type; kernels sum in f32
  kFollow,    // has the type of its inputs; kernels sum and normalize in f32
  kFull,      // keeps f32
  kFunction,  // as LowPrecision says of the function
};

// X(enumerator, text, attributes, class, fewest inputs, most inputs (-1: any number), type rule, reference, precision,
//   loops)
// The type rule is a member of Typing, the reference one of Runner (src/graph/ops/op.h), and loops are made by a member
// of GroupNest (src/task/nest.h).
// clang-format off
#define TCC_GRAPH_OPS(X) \
  X(kConv, "Conv", ConvAttrs, kContraction, 2, 3, conv, conv, kProduct, plan_conv) \
  X(kGemm, "Gemm", GemmAttrs, kContraction, 2, 3, gemm, gemm, kProduct, plan_gemm) \
  X(kMatMul, "MatMul", MatMulAttrs, kContraction, 2, 2, matmul, matmul, kProduct, plan_matmul) \
  X(kMaxPool, "MaxPool", PoolAttrs, kWindow, 1, 1, pool, pool, kFollow, plan_pool) \
  X(kAveragePool, "AveragePool", PoolAttrs, kWindow, 1, 1, pool, pool, kFollow, plan_pool) \
  X(kLrn, "LRN", LrnAttrs, kWindow, 1, 1, lrn, lrn, kFollow, plan_lrn) \
  X(kReduceMean, "ReduceMean", ReduceAttrs, kReduction, 1, 1, reduce, reduce, kFollow, plan_reduce) \
  X(kReduceMax, "ReduceMax", ReduceAttrs, kReduction, 1, 1, reduce, reduce, kFollow, plan_reduce) \
  X(kReduceSum, "ReduceSum", ReduceAttrs, kReduction, 1, 1, reduce, reduce, kFull, plan_reduce) \
  X(kReduceMin, "ReduceMin", ReduceAttrs, kReduction, 1, 1, reduce, reduce, kFollow, plan_reduce) \
  X(kReduceProd, "ReduceProd", ReduceAttrs, kReduction, 1, 1, reduce, reduce, kFull, plan_reduce) \
  X(kSoftmax, "Softmax", AxisAttrs, kRowwise, 1, 1, softmax, softmax, kFollow, plan_softmax) \
  X(kLogSoftmax, "LogSoftmax", AxisAttrs, kRowwise, 1, 1, softmax, softmax, kFollow, plan_softmax) \
  X(kLayerNorm, "LayerNorm", LayerNormAttrs, kRowwise, 2, 3, layer_norm, layer_norm, kFollow, plan_layer_norm) \
  X(kBatchNorm, "BatchNorm", BatchNormAttrs, kElementwise, 5, 5, batch_norm, batch_norm, kFull, plan_elementwise) \
  X(kRelu, "Relu", NoAttrs, kElementwise, 1, 1, number_unary, elementwise, kFollow, plan_elementwise) \
  X(kLeakyRelu, "LeakyRelu", LeakyAttrs, kElementwise, 1, 1, leaky_relu, elementwise, kFollow, plan_elementwise) \
  X(kClip, "Clip", ClipAttrs, kElementwise, 1, 1, clip, elementwise, kFollow, plan_elementwise) \
  X(kSigmoid, "Sigmoid", NoAttrs, kElementwise, 1, 1, float_unary, elementwise, kFollow, plan_elementwise) \
  X(kTanh, "Tanh", NoAttrs, kElementwise, 1, 1, float_unary, elementwise, kFollow, plan_elementwise) \
  X(kAdd, "Add", NoAttrs, kElementwise, 2, 2, arithmetic, elementwise, kFollow, plan_elementwise) \
  X(kSub, "Sub", NoAttrs, kElementwise, 2, 2, arithmetic, elementwise, kFollow, plan_elementwise) \
  X(kMul, "Mul", NoAttrs, kElementwise, 2, 2, arithmetic, elementwise, kFollow, plan_elementwise) \
  X(kDiv, "Div", NoAttrs, kElementwise, 2, 2, arithmetic, elementwise, kFollow, plan_elementwise) \
  X(kUnary, "Unary", UnaryAttrs, kElementwise, 1, 1, unary, elementwise, kFunction, plan_elementwise) \
  X(kBinary, "Binary", BinaryAttrs, kElementwise, 2, 2, binary, elementwise, kFunction, plan_elementwise) \
  X(kWhere, "Where", NoAttrs, kElementwise, 3, 3, where, where, kFollow, plan_elementwise) \
  X(kCast, "Cast", CastAttrs, kElementwise, 1, 1, cast, cast, kFull, plan_elementwise) \
  X(kReshape, "Reshape", ReshapeAttrs, kView, 1, 1, reshape, copy, kFollow, plan_nothing) \
  X(kPart, "Part", SliceAttrs, kView, 1, 1, slice, slice, kFollow, plan_nothing) \
  X(kJoin, "Join", AxisAttrs, kView, 1, -1, concat, concat, kFollow, plan_nothing) \
  X(kIdentity, "Identity", NoAttrs, kMove, 1, 1, same, copy, kFollow, plan_move) \
  X(kTranspose, "Transpose", TransposeAttrs, kMove, 1, 1, transpose, transpose, kFollow, plan_move) \
  X(kConcat, "Concat", AxisAttrs, kMove, 1, -1, concat, concat, kFollow, plan_move) \
  X(kPad, "Pad", PadAttrs, kMove, 1, 1, pad, pad, kFollow, plan_move) \
  X(kSlice, "Slice", SliceAttrs, kMove, 1, 1, slice, slice, kFollow, plan_move) \
  X(kExpand, "Expand", ReshapeAttrs, kMove, 1, 1, expand, expand, kFollow, plan_move) \
  X(kGather, "Gather", AxisAttrs, kMove, 2, 2, gather, gather, kFollow, plan_move) \
  X(kGatherElements, "GatherElements", AxisAttrs, kMove, 2, 2, gather_elements, gather_elements, kFollow, plan_move) \
  X(kGatherNd, "GatherND", GatherNdAttrs, kMove, 2, 2, gather_nd, gather_nd, kFollow, plan_move) \
  X(kResample, "Resample", ResampleAttrs, kWindow, 3, -1, resample, resample, kFollow, plan_resample) \
  X(kScan, "Scan", ScanAttrs, kRowwise, 1, 1, scan, scan, kFull, plan_scan) \
  X(kScatter, "Scatter", ScatterAttrs, kRowwise, 3, 3, scatter, scatter, kFollow, plan_scatter) \
  X(kTopK, "TopK", TopKAttrs, kRowwise, 1, 1, top_k, top_k, kFull, plan_top_k) \
  X(kArg, "Arg", ArgAttrs, kRowwise, 1, 1, arg, arg, kFull, plan_arg) \
  X(kFind, "Find", FindAttrs, kRowwise, 1, 1, find, find, kFull, plan_find) \
  X(kSuppress, "Suppress", SuppressAttrs, kRowwise, 2, 2, suppress, suppress, kFull, plan_suppress) \
  X(kFold, "Fold", FoldAttrs, kWindow, 1, 1, fold, fold, kFollow, plan_fold) \
  X(kDeterminant, "Determinant", NoAttrs, kRowwise, 1, 1, determinant, determinant, kFull, plan_determinant) \
  X(kPackedMatMul, "PackedMatMul", PackedMatMulAttrs, kRowwise, 4, 4, packed_matmul, packed_matmul, kFull, \
    plan_packed_matmul)
// The names in the table's columns, each once.
#define TCC_GRAPH_TYPE_RULES(X) \
  X(conv) X(gemm) X(matmul) X(pool) X(lrn) X(reduce) X(softmax) X(layer_norm) X(batch_norm) \
  X(number_unary) X(leaky_relu) X(clip) X(float_unary) X(arithmetic) X(unary) X(binary) X(where) \
  X(cast) X(reshape) X(same) X(transpose) X(concat) X(pad) X(slice) X(expand) X(gather) \
  X(gather_elements) X(gather_nd) X(resample) X(scan) X(scatter) X(top_k) X(arg) X(find) X(suppress) \
  X(fold) X(determinant) X(packed_matmul)
#define TCC_GRAPH_REFERENCES(X) \
  X(conv) X(gemm) X(matmul) X(pool) X(lrn) X(reduce) X(softmax) X(layer_norm) X(batch_norm) \
  X(elementwise) X(where) X(cast) X(copy) X(transpose) X(concat) X(pad) X(slice) X(expand) X(gather) \
  X(gather_elements) X(gather_nd) X(resample) X(scan) X(scatter) X(top_k) X(arg) X(find) X(suppress) \
  X(fold) X(determinant) X(packed_matmul)
#define TCC_GRAPH_LOOPS(X) \
  X(plan_conv) X(plan_gemm) X(plan_matmul) X(plan_pool) X(plan_lrn) X(plan_reduce) X(plan_softmax) \
  X(plan_layer_norm) X(plan_elementwise) X(plan_nothing) X(plan_move) X(plan_resample) X(plan_scan) \
  X(plan_scatter) X(plan_top_k) X(plan_arg) X(plan_find) X(plan_suppress) \
  X(plan_fold) X(plan_determinant) X(plan_packed_matmul)
// clang-format on

enum class Op : uint8_t {
#define X(enumerator, ...) enumerator,
  TCC_GRAPH_OPS(X)
#undef X
};

// Where(c, a, b): the element of `a` where the boolean c is true, else of `b`; all three broadcast.
// Determinant: of each matrix of R,N,N, by elimination with the largest pivot of each column. The result has R
// elements. Expand broadcasts to its shape. The gathers read the data (input 0) at integer indices (input 1): negative
// ones count from the end; those out of range, undefined in the model, read the nearest element.

std::string_view op_name(Op op);
OpClass op_class(Op op);
OpPrecision op_precision(Op op);

// --- graph -------------------------------------------------------------------------------------------------------

struct Value {
  ValueId id = kNone;
  std::string name;  // the model's name, for people and metadata only: never a symbol, a path or source text
  DType dtype = DType::kF32;
  Shape shape;
  std::vector<std::string> dim_names;  // the model's names of the dims of an input ("" = none); may be empty
  std::optional<Constant> constant;
  NodeId producer = kNone;  // kNone for graph inputs and constants

  bool is_constant() const { return constant.has_value(); }
  int64_t elements() const { return element_count(shape); }
  int64_t bytes() const { return elements() * dtype_size(dtype); }
};

// A node of the model's file, for people and metadata only.
struct SourceNode {
  std::string name;  // the model's, or, where it gives none, that of the node's first output
  std::string type;  // the ONNX operator, "BatchNormalization"
  bool operator==(const SourceNode&) const = default;
};

struct Node {
  NodeId id = kNone;
  Op op = Op::kIdentity;
  std::string name;
  // The nodes of the model that this one computes, by index into Graph::sources: its own and those that passes merged
  // into it.
  std::vector<int32_t> sources = {};
  std::vector<ValueId> inputs;
  ValueId output = kNone;  // every operator here has exactly one
  Attributes attrs;

  template <class T>
  const T& as() const {
    return std::get<T>(attrs);
  }
};

struct TensorType {
  DType dtype = DType::kF32;
  Shape shape;
};

// An axis of a model's output whose extent is computed with its elements: the output has the greatest extent that there
// may be, and the elements before `count` are the result. The others are undefined.
struct CountedAxis {
  int32_t output = 0, axis = 0;
  int32_t count = 0;  // which one of the counts
  bool operator==(const CountedAxis&) const = default;
};

// A file beside the model that holds weights.
struct DataFile {
  std::string location;  // relative to the model's folder
  int64_t bytes = 0;
  uint64_t hash = 0;  // of the bytes that constants were read from
};

struct Graph {
  std::string name;
  std::vector<DataFile> data_files;       // external data that constants were read from, by location
  std::vector<ValueId> inputs;            // run-time inputs, in the model's order
  std::vector<ValueId> outputs;           // in the model's order; a value may be repeated, an input or a constant
  std::vector<std::string> output_names;  // the model's names of the outputs, for people and metadata
  // Behind the model's outputs there are `counts` more, i64 scalars: the extents of these axes.
  std::vector<CountedAxis> counted_axes;
  int32_t counts = 0;
  std::vector<Value> values;        // by ValueId; passes may leave unused ones behind
  std::vector<Node> nodes;          // by NodeId
  std::vector<NodeId> order;        // the live nodes, topologically sorted
  std::vector<SourceNode> sources;  // of the model's file; empty where the graph is from no file
  // Kernels may take every float to be a number: what they make of NaN is open. References keep the rules of ONNX.
  bool fast_math = false;

  size_t model_outputs() const { return outputs.size() - static_cast<size_t>(counts); }
  const Value& value(ValueId id) const { return values.at(static_cast<size_t>(id)); }
  Value& value(ValueId id) { return values.at(static_cast<size_t>(id)); }
  const Node& node(NodeId id) const { return nodes.at(static_cast<size_t>(id)); }
  Node& node(NodeId id) { return nodes.at(static_cast<size_t>(id)); }

  ValueId add_input(std::string name, DType dtype, Shape shape);
  void add_output(ValueId value, std::string name);
  ValueId add_constant(std::string name, DType dtype, Shape shape, Constant constant);
  // Checks inputs and attributes, infers the output's type and appends the node. Returns the output value.
  Result<ValueId> add_node(Op op, Attributes attrs, std::vector<ValueId> inputs, std::string name);
};

// The type of the node's output, or what is wrong with its inputs or attributes. Checks every attribute domain, so a
// graph built through add_node is safe to compile and run.
Result<TensorType> infer_type(const Graph& graph, const Node& node);

// `node` computes what these sources say, too. Passes call it where a node replaces others.
void add_sources(Node& node, const std::vector<int32_t>& sources);
// What nodes compute of the model's file, in its order, each once.
std::vector<SourceNode> sources_of(const Graph& graph, const std::vector<NodeId>& nodes);

// Live nodes reading each value (by ValueId; a node that reads a value twice is listed twice).
std::vector<std::vector<NodeId>> find_consumers(const Graph& graph);
// TCC_CHECKs ids, order, producers and inferred types.
void verify_graph(const Graph& graph);

// The operator's name, with the function for Unary and Binary: "Conv", "Gelu", "Pow".
std::string_view node_name(const Node& node);

// Multiply-adds count two. Contractions, windows and reductions exactly; one per element for the rest.
double node_flops(const Graph& graph, const Node& node);

}  // namespace tcc::graph
