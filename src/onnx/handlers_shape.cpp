// Constants, and operators that change shapes or move elements.
#include <algorithm>

#include "handlers.h"
#include "tcc/support/text.h"

namespace tcc::onnx {

namespace {

constexpr int64_t kMaxSplatBytes = int64_t{1} << 31;

Result<std::vector<int64_t>> required_ints(NodeContext& c, const char* name) {
  TCC_TRY(auto list, c.get_ints(name));
  if (!list) return input_error("attribute '{}' is missing", name);
  return *list;
}

// `axes`: an attribute before opset 13, an input from then on. Nothing when not given.
Result<std::optional<std::vector<int64_t>>> read_axes(NodeContext& c) {
  if (c.opset() < 13) {
    if (c.has_input(1)) return input_error("axes became an input only at opset 13, this model has opset {}", c.opset());
    return c.get_ints("axes");
  }
  if (!c.has_input(1)) return std::nullopt;
  TCC_TRY(auto axes, c.constant_integers(1, "axes"));
  return axes;
}

Result<void> finish_reshape(NodeContext& c, Shape shape) {
  return c.finish(Op::kReshape, graph::ReshapeAttrs{std::move(shape)}, {c.input(0)});
}

}  // namespace

Result<void> import_constant(NodeContext& c) {
  TCC_TRY(auto tensor, c.get_tensor("value"));
  if (tensor) {
    return c.finish(c.constant(tensor->dtype, tensor->shape, tensor->constant), c.small_type_of("value"));
  }
  if (c.opset() >= 12) {
    TCC_TRY(auto ints, c.get_ints("value_ints"));
    TCC_TRY(auto floats, c.get_floats("value_floats"));
    if (ints) {
      return c.finish(c.constant(DType::kI64, {static_cast<int64_t>(ints->size())}, graph::make_constant_i64(*ints)));
    }
    if (floats) {
      return c.finish(c.constant(DType::kF32, {static_cast<int64_t>(floats->size())},
                                 graph::make_constant_from_doubles(DType::kF32, *floats)));
    }
    if (c.has_attribute("value_int")) {
      TCC_TRY(int64_t v, c.get_int("value_int", 0));
      return c.finish(c.constant(DType::kI64, {}, graph::make_constant_i64(std::vector<int64_t>{v})));
    }
    if (c.has_attribute("value_float")) {
      TCC_TRY(double v, c.get_float("value_float", 0));
      return c.finish(c.constant(DType::kF32, {}, graph::make_splat(DType::kF32, v)));
    }
  }
  return refuse(Refusal::kAttribute,
                "needs one of the attributes value, value_int, value_ints, value_float, value_floats");
}

// The extents in the graph, and the counts of those that are known at run time only.
std::pair<Shape, Counts> split_extents(const std::vector<Extent>& extents) {
  std::pair<Shape, Counts> result;
  for (const Extent& e : extents) {
    result.first.push_back(e.most);
    result.second.push_back(e.count);
  }
  return result;
}

Result<void> import_constant_of_shape(NodeContext& c) {
  TCC_TRY(const std::vector<Extent> extents, c.extents(0, "shape"));
  auto [shape, counts] = split_extents(extents);
  TCC_TRY_VOID(graph::check_shape(shape, "the result"));
  TCC_TRY(auto tensor, c.get_tensor("value"));
  DType dtype = tensor ? tensor->dtype : DType::kF32;
  graph::Constant element = graph::make_splat(DType::kF32, 0);
  if (tensor) {
    if (graph::element_count(tensor->shape) != 1) return input_error("attribute 'value' must have one element");
    element = tensor->constant;
    element.splat = true;
  }
  if (graph::element_count(shape) * graph::dtype_size(dtype) > kMaxSplatBytes) {
    return input_error("the result of shape {} is larger than {}", graph::shape_text(shape),
                       format_bytes(static_cast<double>(kMaxSplatBytes)));
  }
  const ValueId id = c.constant(dtype, shape, element);
  c.set_counts(id, std::move(counts));
  return c.finish(id);
}

Result<void> import_flatten(NodeContext& c) {
  const Shape& shape = c.input_value(0).shape;
  int64_t rank = c.rank(0);
  TCC_TRY(int64_t axis, c.get_int("axis", 1));
  if (axis < (c.opset() >= 11 ? -rank : 0) || axis > rank)
    return input_error("axis {} is out of range for rank {}", axis, rank);
  if (axis < 0) axis += rank;
  auto split = shape.begin() + axis;
  return finish_reshape(
      c, {graph::element_count(Shape(shape.begin(), split)), graph::element_count(Shape(split, shape.end()))});
}

Result<void> import_reshape(NodeContext& c) {
  Shape target;
  if (c.opset() < 5) {
    TCC_TRY(target, required_ints(c, "shape"));
  } else {
    if (!c.has_input(1)) return input_error("the new shape (input 1) is missing");
    TCC_TRY(const std::vector<Extent> extents, c.extents(1, "shape"));
    target = split_extents(extents).first;
  }
  TCC_TRY(bool allow_zero, c.get_flag("allowzero", false, 14));
  const Shape& from = c.input_value(0).shape;
  int64_t unknown = -1;
  for (size_t i = 0; i < target.size(); ++i) {
    if (target[i] == -1) {
      if (unknown >= 0) return input_error("shape [{}] has more than one -1", fmt::join(target, ", "));
      unknown = static_cast<int64_t>(i);
      target[i] = 1;
    } else if (target[i] == 0 && !allow_zero) {
      if (i >= from.size())
        return input_error("shape [{}] copies axis {}, the input has rank {}", fmt::join(target, ", "), i, from.size());
      target[i] = from[i];
    }
  }
  TCC_TRY_VOID(graph::check_shape(target, "the new shape"));
  if (unknown >= 0) {
    int64_t rest = graph::element_count(target), all = c.input_value(0).elements();
    if (rest == 0 || all % rest != 0) {
      return input_error("cannot reshape {} to [{}]: no value fits -1", graph::shape_text(from),
                         fmt::join(target, ", "));
    }
    target[static_cast<size_t>(unknown)] = all / rest;
  }
  return finish_reshape(c, target);
}

Result<void> import_squeeze(NodeContext& c) {
  const Shape& from = c.input_value(0).shape;
  TCC_TRY(auto listed, read_axes(c));
  std::vector<int64_t> axes;
  if (listed) {
    TCC_TRY(axes, c.normalize_axes(*listed, c.rank(0)));
    for (int64_t axis : axes) {
      if (from[static_cast<size_t>(axis)] != 1)
        return input_error("axis {} of {} is not 1", axis, graph::shape_text(from));
    }
  }
  Shape to;
  for (size_t i = 0; i < from.size(); ++i) {
    if (!listed && from[i] == 1 && c.count(0, i) != graph::kNone)
      return c.refuse_count(c.input(0), i, "may be 1, and then disappears");
    bool drop = listed ? std::binary_search(axes.begin(), axes.end(), static_cast<int64_t>(i)) : from[i] == 1;
    if (!drop) to.push_back(from[i]);
  }
  return finish_reshape(c, to);
}

Result<void> import_unsqueeze(NodeContext& c) {
  const Shape from = c.input_value(0).shape;
  TCC_TRY(auto listed, read_axes(c));
  if (!listed) return input_error("axes are missing");
  auto rank = c.rank(0) + static_cast<int64_t>(listed->size());
  if (rank > graph::kMaxRank)
    return input_error("the result has {} dimensions; at most {} are supported", rank, graph::kMaxRank);
  TCC_TRY(auto axes, c.normalize_axes(*listed, rank));
  Shape to;
  size_t next = 0;
  for (int64_t i = 0; i < rank; ++i) {
    to.push_back(std::binary_search(axes.begin(), axes.end(), i) ? 1 : from[next++]);
  }
  return finish_reshape(c, to);
}

Result<void> import_transpose(NodeContext& c) {
  TCC_TRY(auto perm, c.get_ints("perm"));
  if (!perm) {
    perm.emplace();
    for (int64_t i = c.rank(0) - 1; i >= 0; --i) perm->push_back(i);
  }
  return c.finish(Op::kTranspose, graph::TransposeAttrs{*perm}, {c.input(0)});
}

Result<void> import_concat(NodeContext& c) {
  if (c.opset() >= 4 && !c.has_attribute("axis")) return input_error("attribute 'axis' is missing");
  TCC_TRY(int64_t axis, c.get_axis(1, c.rank(0)));
  return c.finish(Op::kConcat, graph::AxisAttrs{axis}, c.inputs());
}

Result<void> import_shape(NodeContext& c) {
  Shape shape = c.input_value(0).shape;
  int64_t rank = c.rank(0);
  TCC_TRY(int64_t start, c.get_int("start", 0, 15));
  TCC_TRY(int64_t end, c.get_int("end", rank, 15));
  if (start < 0) start += rank;
  if (end < 0) end += rank;
  start = std::clamp<int64_t>(start, 0, rank);
  end = std::clamp<int64_t>(end, start, rank);
  if (c.is_counted(0) && start < end) {
    std::vector<Made> numbers;
    for (int64_t i = start; i < end; ++i) {
      const ValueId count = c.count(0, static_cast<size_t>(i));
      const std::vector<int64_t> fixed{shape[static_cast<size_t>(i)]};
      numbers.push_back(count == graph::kNone ? Made(c.constant(DType::kI64, {1}, graph::make_constant_i64(fixed)))
                                              : c.emit_reshape(count, {1}));
    }
    return c.finish(Op::kConcat, graph::AxisAttrs{0}, numbers);
  }
  std::vector<int64_t> part(shape.begin() + start, shape.begin() + end);
  return c.finish(c.constant(DType::kI64, {end - start}, graph::make_constant_i64(part)));
}

}  // namespace tcc::onnx
