// Passes over the tensor graph, in the order in which `optimize` runs them.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tcc/graph/graph.h"

namespace tcc::graph {

// Evaluates nodes whose inputs are all constant. The exact integer arithmetic and the byte-moving operators are built
// in; an Evaluator serves the other operators (see reference_evaluator, and driver for one that runs tasks).
class Evaluator {
 public:
  virtual ~Evaluator() = default;
  // All inputs of the node are constant. The result has the node's output type.
  virtual Result<Constant> evaluate(const Graph& graph, const Node& node) = 0;
};

// Recomputes every type and compares it with the stored one.
Result<void> infer_shapes(const Graph& graph);

// The exact part: Reshape, Identity, Transpose, Concat, Slice, Expand and the gathers of constants of any type, integer
// Add, Sub, Mul, Div.
// Nothing when the node is not of that kind or an input is not constant; an error for overflow or division by zero.
Result<std::optional<Constant>> evaluate_exactly(const Graph& graph, const Node& node);

// The exact part, else the evaluator's result. Nothing when an input is not constant, the result is too large (see
// fold_constants) or an integer is too large for double.
Result<std::optional<Constant>> evaluate_constant(const Graph& graph, const Node& node, Evaluator* evaluator);

// Replaces nodes with constant inputs by constants. A float result is folded only where it is at most 1 MiB or twice
// its inputs' bytes. `evaluator` may be null: then only the exact part is folded.
Result<void> fold_constants(Graph& graph, Evaluator* evaluator);

// Conv, Gemm or BatchNorm followed by a per-channel affine map with constants (BatchNorm, or Mul, Add, Sub, Div
// by a per-channel or scalar constant), with no other reader: new weights and bias, computed in double. What remains
// of BatchNorm with constant parameters becomes Mul and Add by per-channel constants.
Result<void> fold_batch_norm(Graph& graph);

// Removes Identity, Reshape to the same shape, Reshape of Reshape, zero padding, identity Transpose, Concat of one
// input, dead nodes. Afterwards every graph output is the output of a live node, not a view of an input, a constant
// or another output (an Identity node copies where needed).
void eliminate(Graph& graph);

// Matrix products of more axes than their weights: the leading axes of the left operand become one, so that a product
// with a matrix is one of two matrices (Gemm), and elementwise consumers follow it under that shape.
void flatten_products(Graph& graph);
// The same for convolutions of one window over the whole input, as those between global pools: they become Gemms.
// Behind `fold_batch_norm`, which looks for convolutions.
void flatten_convolutions(Graph& graph);

// Transposes cancel each other, move into the operands and results of matrix products (MatMulAttrs, trans_a, trans_b),
// and become Reshapes where they only move axes of extent 1.
void fold_transposes(Graph& graph);

// Gemm by a constant matrix of f32 that is stored K x N: its transpose, with trans_b. Terms are side by side in both
// operands then, as instructions for tf32 read them. Returns how many. Run `fold_constants` afterwards.
int64_t transpose_weights(Graph& graph);

// A Slice that is one run of bytes of its source becomes a Part, and a Concat whose parts are runs of bytes of its
// result a Join: views, which need no kernel. The parts of a Join are made in its result; an Identity copies those that
// have a place already or that callers own. All offsets are multiples of kWorkspaceAlignment. `optimize` runs no
// `eliminate` behind it, which would take the copies away.
void share_memory(Graph& graph);

// --- integers of 8 bits ----------------------------------------------------------------------------------------------

// A product of quantized operands that stays in floats.
struct FloatProduct {
  NodeId node = kNone;
  std::string reason;
};

// Convolutions and matrix products whose operands are (q - zero) * scale, with q of 8 bits, become products of these
// integers (u8, or with `is_signed` i8, by i8; sums in i32), scaled afterwards. What zero points add to a sum is a
// vector where they are constant, and is computed where not; positions around an image hold the zero point. Scales that
// follow each other become one. `pad_channels`: a convolution has the channels of its input padded to a multiple of
// this. Call it before `fold_constants`: constants that the importer folded still have the nodes that made them.
// Returns what stays in floats. Run `fold_constants` and `eliminate` afterwards.
struct ByteOptions {
  int64_t pad_channels = 1;
  bool is_signed = false;
};
std::vector<FloatProduct> quantize_products(Graph& graph, const ByteOptions& options = {});

// --- precision -----------------------------------------------------------------------------------------------------

// Single precision to f16 or bf16, where a table allows it (src/graph/precision.cpp): contractions take and give `low`
// (kernels sum in f32); norms, pools, moves and most elementwise operators have the type of their inputs; operators
// whose results may leave the range of `low` keep f32. Constants are rounded once; those that do not fit keep their
// readers in f32. Inputs and outputs of the graph keep their types. Values of other types are left as they are. Returns
// how many contractions are lowered. Run `eliminate` afterwards.
int64_t lower_precision(Graph& graph, DType low);

// --- layouts -------------------------------------------------------------------------------------------------------

// What the choice of layouts knows of a CPU. Times are estimates before anything is measured: only their order counts.
struct LayoutModel {
  // Of depthwise convolutions. The meaning of each, and the numbers of a target, are in target/core_model.h.
  struct Depthwise {
    double share = 1, long_rows = 1, half_row = 0, cap = 1, strided = 1;
  };
  int64_t block = 16;               // channels side by side: one vector, or two
  int64_t byte_block = 16;          // where convolutions multiply bytes, at most: see assign_layouts
  bool fills_byte_blocks = false;   // the last block may have channels that nothing reads
  double flops_per_second = 1e11;   // of a well-shaped convolution
  double bytes_per_second = 1e10;   // of copying between layouts
  double plain_efficiency = 0.8;    // share of the peak that a convolution of plain operands reaches, by estimate,
  double blocked_efficiency = 1.0;  // and one of blocked operands
  // Blocks every convolution that blocks divide, whatever the estimates say; the operators between them are blocked
  // where that saves conversions.
  bool always_blocked = false;
  Depthwise depthwise;
};

// Decides for every convolution, pool and elementwise operator between them whether its channels are plain (NCHW) or
// blocked (NCHW16c): the cheapest assignment of the chain by LayoutModel, conversions counted. Conversions are Reshape
// and Transpose nodes; neighbors that agree have none. Where convolutions multiply bytes, channels that byte_block
// does not divide have blocks of half as many, as often as it takes, of four at the least; with fills_byte_blocks, or
// larger ones whose last one is filled up, with Pad and Slice nodes around. Returns how many convolutions are blocked.
int64_t assign_layouts(Graph& graph, const LayoutModel& model);

// Products and convolutions of the types, halves, are computed in f32 on converted operands, where many results read
// each operand. For targets without instructions that multiply them. Returns how many. Run `fold_constants` afterwards.
int64_t widen_products(Graph& graph, std::span<const DType> types);

struct OptimizeOptions {
  std::optional<LayoutModel> layouts;  // nothing: every tensor keeps the model's layout
  int64_t winograd = 0;                // 2 or 4: convolutions that gain become F(2x2,3x3) or F(4x4,3x3); 0: none
  double winograd_transform = 4;       // multiply-adds of a product that one of a transform costs (target/core_model.h)
  std::optional<DType> precision;      // f16 or bf16: see lower_precision; nothing: as the model says
  std::vector<DType> widened;          // see widen_products
  bool transpose_weights = false;      // see transpose_weights
  bool signed_bytes = false;           // see quantize_products
  bool fast_math = false;              // see Graph::fast_math
  bool packed_weights = false;         // weights of 4 bits stay so (PackedMatMul); else they become floats
};
// As many neighbors along a sum of products of 8 bits are multiplied at once: dot products of CPUs and GPUs.
inline constexpr int64_t kByteGroup = 4;

// infer_shapes, eliminate, quantize_products, fold_constants, LayerNorm and Gelu patterns, fold_batch_norm, products
// and transposes; transposed weights, lower precision, wider products, Winograd forms and layouts where asked;
// eliminate.
Result<void> optimize(Graph& graph, Evaluator* evaluator, const OptimizeOptions& options = {});

// --- fusion --------------------------------------------------------------------------------------------------------

// One unit of compilation: an anchor, elementwise nodes that read its result, and branches that they read. An operator
// that picks elements (Gather, Slice, Transpose, ...) is the anchor of a group, too. With FuseOptions::attention a
// group may be a whole attention: MatMul, elementwise nodes, Softmax, MatMul, elementwise nodes.
struct FusionGroup {
  int64_t id = 0;             // position in execution order
  std::vector<NodeId> nodes;  // topological order, the anchor first, or behind what a reduction or a Concat reads
  NodeId anchor = kNone;
  std::vector<ValueId> inputs;     // run-time values read from outside, by first use, each once
  std::vector<ValueId> constants;  // constants read, by first use, each once
  ValueId output = kNone;          // the one value that leaves the group
};

// Groups in execution order. Every live node is in exactly one group, except views and nodes whose results, and all
// that is made of them, have no elements. A consumer joins when it is
// elementwise, the group's output has no other reader and is not a graph output, it keeps the shape (the fused value is
// not broadcast up), its other operands are constants or are computed before the group runs, and the group's expression
// stays small: one whose members read a value twice doubles with each of them. Such an operand may be a branch, too:
// elementwise nodes, and slices unless the anchor is a product or a window, that read values which are there, and of
// which nothing else reads a result. They join with the consumer. A Concat takes the branches that make its parts. A
// reduction joins an elementwise group of which it is the only reader, and is its anchor.
struct FuseOptions {
  // A product whose result goes, through elementwise nodes, into a Softmax over its last axis and from there into the
  // left side of a second product is one group, where nothing else reads the values between, the second product's right
  // side is there before, and there are a few rows at least. Its weights may be rounded by a Cast on the way.
  bool attention = false;
};
std::vector<FusionGroup> fuse(const Graph& graph, const FuseOptions& options = {});

// "Conv+Add+Relu"
std::string group_text(const Graph& graph, const FusionGroup& group);
double group_flops(const Graph& graph, const FusionGroup& group);

// --- memory --------------------------------------------------------------------------------------------------------

enum class StorageKind : uint8_t {
  kNone,       // not materialised: lives inside a group, or unused
  kInput,      // graph input number `index`
  kOutput,     // graph output number `index`
  kConstant,   // the value's constant data
  kWorkspace,  // `offset` bytes into the workspace
};

struct ValueStorage {
  StorageKind kind = StorageKind::kNone;
  int64_t index = 0;   // kInput, kOutput
  int64_t offset = 0;  // kWorkspace; a multiple of kWorkspaceAlignment
  int64_t bytes = 0;
};

constexpr int64_t kWorkspaceAlignment = 64;

// What the kernel of a group needs beside its tensors, and allows.
struct GroupMemory {
  int64_t scratch_bytes = 0;          // of its own, while it runs
  std::vector<ValueId> overwritable;  // inputs whose memory its output may take
};

struct MemoryPlan {
  std::vector<ValueStorage> storage;  // by ValueId; a view has its source's storage, or a part of it
  std::vector<int64_t> scratch;       // by group, where its scratch begins; empty: none was asked for
  int64_t workspace_bytes = 0;
  int64_t unshared_bytes = 0;  // what the workspace would take without reuse
};

// Where the bytes of a view are: `offset` bytes into those of `root`, which no view has made.
struct Place {
  ValueId root = kNone;
  int64_t offset = 0;
};
// Follows Reshape and Part nodes to their source. The result of a Join is a root: its parts are other roots, which
// plan_memory places in it.
Place place_of(const Graph& graph, ValueId id);
ValueId storage_root(const Graph& graph, ValueId id);

// Offsets for the values between groups: two values share bytes only when no group runs while both are live, or when
// one is a part of the other, or a group's output takes the place of an input that nothing reads later. Scratch is
// where nothing is live. `needs`: of each group; empty: none has any, and no output overlaps an input. Call on an
// `optimize`d graph.
MemoryPlan plan_memory(const Graph& graph, const std::vector<FusionGroup>& groups,
                       std::span<const GroupMemory> needs = {});

// --- weights -------------------------------------------------------------------------------------------------------

// Replaces every constant float weight of Conv, Gemm, MatMul and BatchNorm, and every float constant of more than one
// element read by elementwise nodes, by seeded numbers of sane scale: He for contractions (biases small), BatchNorm
// scale near 1, bias and mean small, variance near 1; multipliers near 1, addends small. The same seed gives the same
// numbers. Call before optimize.
void reseed_weights(Graph& graph, uint64_t seed);

}  // namespace tcc::graph
