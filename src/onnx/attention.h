// Scaled dot-product attention, as every operator that contains it emits it: one product, elementwise operators, a
// softmax over keys, one product. `fuse` makes one group of them.
#pragma once

#include "handlers.h"

namespace tcc::onnx {

struct AttentionParts {
  // Batch, heads, positions, features. Keys and values may have fewer heads: neighboring query heads share them.
  graph::ValueId query = graph::kNone, key = graph::kNone, value = graph::kNone;
  double scale = 1;
  double softcap = 0;  // above 0: scores become softcap * tanh(scores / softcap)
  // Added to the scores; broadcasts to batch, heads, queries, keys.
  std::optional<graph::ValueId> bias;
  std::optional<graph::DType> softmax_type;
  // Rows whose bias is -inf everywhere give zeros; otherwise the bias has no such rows.
  bool guard = false;
};

struct AttentionResult {
  graph::ValueId output = graph::kNone;  // batch, heads, queries, features
  // Batch, heads, queries, keys: before the softcap, after it, with bias, the weights.
  graph::ValueId scores = graph::kNone, capped = graph::kNone, biased = graph::kNone, weights = graph::kNone;
};

Result<AttentionResult> emit_attention(NodeContext& c, const AttentionParts& parts);

// Batch, positions, heads * features to batch, heads, positions, features, and back.
Made split_heads(NodeContext& c, const Made& x, int64_t heads);
Made join_heads(NodeContext& c, const Made& x);

// 0 where `allowed`, -inf elsewhere.
Made mask_bias(NodeContext& c, const Made& allowed, graph::DType dtype);
Made add_bias(NodeContext& c, const std::optional<graph::ValueId>& bias, const Made& more);

// Which keys a query may see: those with first <= key - query - offset <= last.
struct Window {
  std::optional<int64_t> before, after;  // keys before and after the query's own position; nothing: all
};
// Constant for offsets that are known, else of `offset`, a value that broadcasts to batch, 1, queries, keys.
Made window_mask(NodeContext& c, int64_t queries, int64_t keys, int64_t offset, const Window& window);
Made window_mask(NodeContext& c, int64_t queries, int64_t keys, graph::ValueId offset, const Window& window);

// Rotates pairs of features of x (batch, positions, heads, features) by angles whose cosines and sines are `cos` and
// `sin` (batch, positions, 1, features / 2); the features beyond `rotated` stay.
Made rotate(NodeContext& c, graph::ValueId x, const Made& cos, const Made& sin, int64_t rotated, bool interleaved);

}  // namespace tcc::onnx
