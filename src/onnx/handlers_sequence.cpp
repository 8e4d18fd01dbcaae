// Sequences whose length is known, and optionals: they exist while the model is imported only.
#include <algorithm>

#include "handlers.h"

namespace tcc::onnx {

namespace {

using List = std::vector<ValueId>;

Item item_of(List list) {
  return Item{graph::kNone, std::make_shared<const List>(std::move(list))};
}

Result<void> finish_list(NodeContext& c, List list) {
  c.set_output(0, item_of(std::move(list)));
  return {};
}

Result<void> finish_item(NodeContext& c, Item item) {
  c.set_output(0, std::move(item));
  return {};
}

// A position among `count` elements; negative ones count from the end.
Result<int64_t> position_of(NodeContext& c, size_t input, int64_t count) {
  TCC_TRY(auto given, c.constant_integers(input, "the position"));
  if (given.size() != 1) return input_error("the position must be one number");
  int64_t at = given[0] < 0 ? given[0] + count : given[0];
  if (at < 0 || at >= count) return input_error("position {} is out of range for {} elements", given[0], count);
  return at;
}

}  // namespace

Result<void> import_sequence_empty(NodeContext& c) {
  c.ignore_attribute("dtype");
  return finish_list(c, {});
}

Result<void> import_sequence_construct(NodeContext& c) {
  List list;
  for (size_t i = 0; i < c.input_count(); ++i) {
    if (!c.has_input(i)) return input_error("input {} must be a tensor", i);
    if (c.input_value(i).dtype != c.input_value(0).dtype)
      return input_error("inputs 0 and {} have different element types", i);
    list.push_back(c.input(i));
  }
  return finish_list(c, std::move(list));
}

Result<void> import_sequence_insert(NodeContext& c) {
  TCC_TRY(const List* from, c.list(0));
  if (!c.has_input(1)) return input_error("input 1 must be a tensor");
  List list = *from;
  auto at = static_cast<int64_t>(list.size());
  // The position behind the last element may be given, too.
  if (c.has_input(2)) {
    TCC_TRY(auto given, c.constant_integers(2, "the position"));
    if (given.size() != 1 || given[0] < -at || given[0] > at)
      return input_error("the position must be one number from {} to {}", -at, at);
    at = given[0] < 0 ? given[0] + at : given[0];
  }
  list.insert(list.begin() + at, c.input(1));
  return finish_list(c, std::move(list));
}

Result<void> import_sequence_erase(NodeContext& c) {
  TCC_TRY(const List* from, c.list(0));
  List list = *from;
  if (list.empty()) return input_error("the sequence has no elements");
  auto at = static_cast<int64_t>(list.size()) - 1;
  if (c.has_input(1)) TCC_TRY_SET(at, position_of(c, 1, static_cast<int64_t>(list.size())));
  list.erase(list.begin() + at);
  return finish_list(c, std::move(list));
}

Result<void> import_sequence_at(NodeContext& c) {
  TCC_TRY(const List* list, c.list(0));
  TCC_TRY(int64_t at, position_of(c, 1, static_cast<int64_t>(list->size())));
  return finish_item(c, Item{(*list)[static_cast<size_t>(at)]});
}

Result<void> import_sequence_length(NodeContext& c) {
  TCC_TRY(const List* list, c.list(0));
  const std::vector<int64_t> length{static_cast<int64_t>(list->size())};
  return c.finish(c.constant(DType::kI64, {}, graph::make_constant_i64(length)));
}

Result<void> import_concat_from_sequence(NodeContext& c) {
  TCC_TRY(const List* list, c.list(0));
  TCC_TRY(bool new_axis, c.get_flag("new_axis", false));
  if (list->empty()) return refuse(Refusal::kNoElements, "the sequence has no elements");
  auto rank = static_cast<int64_t>(c.value((*list)[0]).shape.size()) + (new_axis ? 1 : 0);
  if (!c.has_attribute("axis")) return input_error("attribute 'axis' is missing");
  TCC_TRY(int64_t axis, c.get_axis(0, rank));
  std::vector<Made> parts;
  for (ValueId id : *list) {
    Shape shape = c.value(id).shape;
    if (new_axis && static_cast<int64_t>(shape.size()) + 1 != rank)
      return input_error("the elements have different ranks");
    if (new_axis) shape.insert(shape.begin() + axis, 1);
    parts.push_back(c.emit_reshape(id, shape));
  }
  return c.finish(Op::kConcat, graph::AxisAttrs{axis}, parts);
}

Result<void> import_split_to_sequence(NodeContext& c) {
  TCC_TRY_VOID(c.need_inputs({0}));
  TCC_TRY(int64_t axis, c.get_axis(0, c.rank(0)));
  TCC_TRY(bool keep, c.get_flag("keepdims", true));
  const Shape shape = c.input_value(0).shape;
  const int64_t extent = shape[static_cast<size_t>(axis)];
  std::vector<int64_t> sizes;
  if (c.has_input(1)) {
    keep = true;
    TCC_TRY(sizes, c.constant_integers(1, "split"));
    // A scalar is the size of each part but the last.
    if (c.input_value(1).shape.empty()) {
      if (sizes[0] < 1) return input_error("parts of {} elements are asked for", sizes[0]);
      const int64_t each = std::min(sizes[0], std::max<int64_t>(extent, 1));
      sizes.assign(static_cast<size_t>((extent + each - 1) / each), each);
      if (!sizes.empty()) sizes.back() = extent - each * (static_cast<int64_t>(sizes.size()) - 1);
    }
  } else {
    if (extent > kMaxTable) return refuse(Refusal::kTooLarge, "a sequence of {} elements", extent);
    sizes.assign(static_cast<size_t>(extent), 1);
  }
  List list;
  int64_t at = 0;
  for (int64_t size : sizes) {
    if (size < 0 || size > extent - at) return input_error("the sizes do not add up to the {} elements", extent);
    TCC_TRY(ValueId part, c.slice(c.input(0), axis, size == 0 ? 0 : at, size));
    if (!keep) {
      Shape reduced = shape;
      reduced.erase(reduced.begin() + axis);
      TCC_TRY(part, c.emit_reshape(part, reduced));
    }
    list.push_back(part);
    at += size;
  }
  if (at != extent) return input_error("the sizes add up to {}, expected the {} elements of the axis", at, extent);
  return finish_list(c, std::move(list));
}

// The body of every position: lists give their element, tensors themselves.
Result<void> import_sequence_map(NodeContext& c) {
  TCC_TRY(auto* body, c.get_graph("body"));
  TCC_TRY(const List* first, c.list(0));
  std::vector<List> results(static_cast<size_t>(body->output_size()));
  for (size_t at = 0; at < first->size(); ++at) {
    Items inputs;
    for (const Item& item : c.items()) {
      if (item.list == nullptr) {
        inputs.push_back(item);
        continue;
      }
      if (item.list->size() != first->size())
        return input_error("its sequences have {} and {} elements", first->size(), item.list->size());
      inputs.push_back(Item{(*item.list)[at]});
    }
    TCC_TRY(Items outputs, c.import_body(*body, inputs));
    for (size_t k = 0; k < outputs.size(); ++k) {
      if (outputs[k].tensor == graph::kNone)
        return refuse(Refusal::kNotATensor, "output {} of its body is not a tensor", k);
      results[k].push_back(outputs[k].tensor);
    }
  }
  for (size_t k = 0; k < results.size(); ++k) c.set_output(k, item_of(std::move(results[k])));
  return {};
}

Result<void> import_optional(NodeContext& c) {
  c.ignore_attribute("type");
  if (c.input_count() == 0) return finish_item(c, Item{graph::kNone, nullptr, true});
  return finish_item(c, c.item(0));
}

Result<void> import_optional_has_element(NodeContext& c) {
  const bool has = c.input_count() > 0 && !c.item(0).empty_optional;
  return c.finish(c.scalar(DType::kBool, has ? 1 : 0));
}

Result<void> import_optional_get_element(NodeContext& c) {
  if (c.item(0).empty_optional) return input_error("the optional is empty");
  return finish_item(c, c.item(0));
}

// Of a tensor a copy, so that outputs of the model are values of their own.
Result<void> import_identity(NodeContext& c) {
  if (!c.has_input(0)) return finish_item(c, c.item(0));
  return c.finish(Op::kIdentity, graph::NoAttrs{}, {c.input(0)});
}

}  // namespace tcc::onnx
