// Conv and the pools: automatic padding and defaults become explicit numbers here.
#include <algorithm>

#include "handlers.h"
#include "tcc/support/text.h"

namespace tcc::onnx {

using graph::Op;
using graph::Shape;

namespace {

constexpr int64_t kMaxAttribute = int64_t{1} << 20;

struct WindowAttributes {
  std::vector<int64_t> kernel, strides, dilations, pads_begin, pads_end;
};

Result<std::vector<int64_t>> list_of(NodeContext& c, const char* name, size_t entries, int64_t otherwise,
                                     int64_t least) {
  TCC_TRY(auto list, c.get_ints(name));
  // Some exporters write an empty list where they mean the default.
  if (!list || list->empty()) return std::vector<int64_t>(entries, otherwise);
  if (list->size() != entries)
    return input_error("attribute '{}' has {} entries, {} are needed", name, list->size(), entries);
  for (int64_t v : *list) {
    if (v < least || v > kMaxAttribute)
      return input_error("attribute '{}' has the entry {}; it must be at least {}", name, v, least);
  }
  return *list;
}

// Reads strides, dilations, pads and auto_pad for the window `kernel` over the spatial axes of `input`.
Result<WindowAttributes> read_window(NodeContext& c, const Shape& input, std::vector<int64_t> kernel, bool dilations) {
  WindowAttributes w;
  size_t spatial = kernel.size();
  w.kernel = std::move(kernel);
  for (int64_t k : w.kernel) {
    if (k < 1 || k > kMaxAttribute) return input_error("kernel extent {} must be at least 1", k);
  }
  TCC_TRY(w.strides, list_of(c, "strides", spatial, 1, 1));
  w.dilations.assign(spatial, 1);
  if (dilations) {
    TCC_TRY(w.dilations, list_of(c, "dilations", spatial, 1, 1));
  }
  TCC_TRY(std::string mode, c.get_string("auto_pad", "NOTSET"));
  TCC_TRY(auto pads, list_of(c, "pads", 2 * spatial, 0, 0));
  w.pads_begin.assign(pads.begin(), pads.begin() + static_cast<int64_t>(spatial));
  w.pads_end.assign(pads.begin() + static_cast<int64_t>(spatial), pads.end());
  if (mode == "NOTSET" || mode.empty()) return w;
  if (mode != "VALID" && mode != "SAME_UPPER" && mode != "SAME_LOWER") {
    return input_error("auto_pad '{}' is not one of NOTSET, VALID, SAME_UPPER, SAME_LOWER", sanitize(mode));
  }
  if (std::any_of(pads.begin(), pads.end(), [](int64_t p) { return p != 0; })) {
    return input_error("auto_pad {} and explicit pads exclude each other", mode);
  }
  if (mode == "VALID") return w;
  for (size_t i = 0; i < spatial; ++i) {
    int64_t out = (input[i + 2] + w.strides[i] - 1) / w.strides[i];
    int64_t reach = (w.kernel[i] - 1) * w.dilations[i] + 1;
    int64_t total = std::max<int64_t>(0, (out - 1) * w.strides[i] + reach - input[i + 2]);
    w.pads_begin[i] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
    w.pads_end[i] = total - w.pads_begin[i];
  }
  return w;
}

Result<size_t> spatial_axes(const NodeContext& c) {
  if (c.rank(0) < 3)
    return input_error("needs an input of rank 3 or more, got {}", graph::shape_text(c.input_value(0).shape));
  return static_cast<size_t>(c.rank(0) - 2);
}

Result<graph::PoolAttrs> read_pool(NodeContext& c, bool dilations) {
  TCC_TRY(size_t spatial, spatial_axes(c));
  TCC_TRY(auto kernel, c.get_ints("kernel_shape"));
  if (!kernel || kernel->size() != spatial)
    return input_error("attribute 'kernel_shape' must have {} entries", spatial);
  TCC_TRY(WindowAttributes w, read_window(c, c.input_value(0).shape, *kernel, dilations));
  graph::PoolAttrs attrs{w.kernel, w.strides, w.dilations, w.pads_begin, w.pads_end, false, false};
  if (c.opset() >= 10) {
    TCC_TRY(int64_t ceil_mode, c.get_int("ceil_mode", 0));
    attrs.ceil_mode = ceil_mode != 0;
  }
  return attrs;
}

Result<void> global_pool(NodeContext& c, Op op) {
  TCC_TRY(size_t spatial, spatial_axes(c));
  graph::ReduceAttrs attrs;
  for (size_t i = 0; i < spatial; ++i) attrs.axes.push_back(static_cast<int64_t>(i) + 2);
  return c.finish(op, attrs, {c.input(0)});
}

}  // namespace

Result<void> import_conv(NodeContext& c) {
  TCC_TRY(size_t spatial, spatial_axes(c));
  const Shape& weight = c.input_value(1).shape;
  if (weight.size() != spatial + 2) {
    return input_error("weight {} and input {} differ in rank", graph::shape_text(weight),
                       graph::shape_text(c.input_value(0).shape));
  }
  std::vector<int64_t> kernel(weight.begin() + 2, weight.end());
  TCC_TRY(auto declared, c.get_ints("kernel_shape"));
  if (declared && *declared != kernel) {
    return input_error("kernel_shape [{}] differs from the weight's shape {}", fmt::join(*declared, ", "),
                       graph::shape_text(weight));
  }
  TCC_TRY(WindowAttributes w, read_window(c, c.input_value(0).shape, kernel, true));
  TCC_TRY(int64_t group, c.get_int("group", 1));
  graph::ConvAttrs attrs{w.kernel, w.strides, w.dilations, w.pads_begin, w.pads_end, group};
  std::vector<graph::ValueId> inputs{c.input(0), c.input(1)};
  if (c.has_input(2)) inputs.push_back(c.input(2));
  return c.finish(Op::kConv, attrs, inputs);
}

Result<void> import_max_pool(NodeContext& c) {
  TCC_TRY(auto attrs, read_pool(c, c.opset() >= 10));
  if (c.opset() >= 8) {
    TCC_TRY(int64_t storage_order, c.get_int("storage_order", 0));
    if (storage_order != 0) return input_error("storage_order {} (column major) is not supported", storage_order);
  }
  return c.finish(Op::kMaxPool, attrs, {c.input(0)});
}

Result<void> import_average_pool(NodeContext& c) {
  TCC_TRY(auto attrs, read_pool(c, c.opset() >= 19));
  if (c.opset() >= 7) {
    TCC_TRY(int64_t include, c.get_int("count_include_pad", 0));
    attrs.count_include_pad = include != 0;
  }
  return c.finish(Op::kAveragePool, attrs, {c.input(0)});
}

Result<void> import_global_average_pool(NodeContext& c) {
  return global_pool(c, Op::kReduceMean);
}
Result<void> import_global_max_pool(NodeContext& c) {
  return global_pool(c, Op::kReduceMax);
}

Result<void> import_lrn(NodeContext& c) {
  graph::LrnAttrs attrs;
  TCC_TRY(attrs.alpha, c.get_float("alpha", 1e-4));
  TCC_TRY(attrs.beta, c.get_float("beta", 0.75));
  TCC_TRY(attrs.bias, c.get_float("bias", 1));
  if (!c.has_attribute("size")) return input_error("attribute 'size' is missing");
  TCC_TRY(attrs.size, c.get_int("size", 1));
  return c.finish(Op::kLrn, attrs, {c.input(0)});
}

}  // namespace tcc::onnx
