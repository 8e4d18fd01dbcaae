// NonMaxSuppression. Of boxes that are known when the model is compiled it is computed here. Of others it becomes the
// choice of those that stay (Suppress) and their places (Find): their number is known at run time only.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>

#include "count_masks.h"
#include "handlers.h"

namespace tcc::onnx {

namespace {

constexpr int64_t kMaxComparisons = int64_t{1} << 28;

struct Box {
  float low_y, low_x, high_y, high_x;
};

Box read_box(const float* b, bool centered_box) {
  // Either the center with width and height, or two opposite corners, y first.
  if (centered_box) return {b[1] - b[3] / 2, b[0] - b[2] / 2, b[1] + b[3] / 2, b[0] + b[2] / 2};
  return {std::min(b[0], b[2]), std::min(b[1], b[3]), std::max(b[0], b[2]), std::max(b[1], b[3])};
}

// The common area's share of the area of both.
float overlap(const Box& a, const Box& b) {
  const float height = std::min(a.high_y, b.high_y) - std::max(a.low_y, b.low_y);
  const float width = std::min(a.high_x, b.high_x) - std::max(a.low_x, b.low_x);
  if (height <= 0 || width <= 0) return 0;
  const float common = height * width;
  const float both = (a.high_y - a.low_y) * (a.high_x - a.low_x) + (b.high_y - b.low_y) * (b.high_x - b.low_x);
  return common / (both - common);
}

struct Suppression {
  bool centered_box = false;
  int64_t most = 0;
  float most_overlap = 0, least_score = -std::numeric_limits<float>::infinity();

  // The boxes that are kept, the best first; of equal scores the first.
  std::vector<int64_t> keep(const std::vector<Box>& boxes, const float* scores) const {
    std::vector<int64_t> order(boxes.size()), kept;
    std::iota(order.begin(), order.end(), 0);
    std::erase_if(order, [&](int64_t i) { return !(scores[i] > least_score); });
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return scores[a] > scores[b]; });
    for (int64_t i : order) {
      if (std::ssize(kept) >= most) break;
      const bool hidden = std::any_of(kept.begin(), kept.end(), [&](int64_t k) {
        return overlap(boxes[static_cast<size_t>(k)], boxes[static_cast<size_t>(i)]) > most_overlap;
      });
      if (!hidden) kept.push_back(i);
    }
    return kept;
  }
};

std::vector<float> floats_of(const graph::Value& v) {
  const std::vector<double> values = graph::constant_doubles(*v.constant, v.dtype, v.elements());
  return {values.begin(), values.end()};
}

// The number that the model's writer meant: kernels and references of other precisions round it each by themselves.
double shortest_decimal(float x) {
  return std::strtod(fmt::format("{}", x).c_str(), nullptr);
}

// Boxes [B, N, 4] as y and x of the lower corner, y and x of the upper one.
Made lower_and_upper(NodeContext& c, ValueId boxes, bool centered_box) {
  auto column = [&](int64_t i) { return c.slice(boxes, 2, i, 1); };
  if (centered_box) {
    auto half = [&](int64_t i) { return c.arithmetic(Op::kMul, column(i), c.scalar(DType::kF32, 0.5)); };
    return c.emit(Op::kConcat, graph::AxisAttrs{2},
                  {c.arithmetic(Op::kSub, column(1), half(3)), c.arithmetic(Op::kSub, column(0), half(2)),
                   c.arithmetic(Op::kAdd, column(1), half(3)), c.arithmetic(Op::kAdd, column(0), half(2))});
  }
  return c.emit(Op::kConcat, graph::AxisAttrs{2},
                {c.binary(BinaryFn::kMin, column(0), column(2)), c.binary(BinaryFn::kMin, column(1), column(3)),
                 c.binary(BinaryFn::kMax, column(0), column(2)), c.binary(BinaryFn::kMax, column(1), column(3))});
}

Result<void> suppress_at_run_time(NodeContext& c, const Suppression& rule) {
  const Shape s = c.input_value(1).shape;
  const int64_t batches = s[0], classes = s[1], count = s[2];
  for (size_t axis : {size_t{0}, size_t{1}})
    if (c.count(1, axis) != graph::kNone)
      return c.refuse_count(c.input(1), axis, "counts batches or classes of scores");
  if (c.count(0, 0) != graph::kNone) return c.refuse_count(c.input(0), 0, "counts batches of boxes");
  if (c.input_value(1).elements() == 0 || c.input_value(1).elements() > kMaxTable)
    return refuse(c.input_value(1).elements() == 0 ? Refusal::kNoElements : Refusal::kTooLarge,
                  "{} scores; 1 to {} are supported", c.input_value(1).elements(), kMaxTable);
  const int64_t most = std::min(rule.most, count), room = batches * classes * most;
  if (room == 0) return c.finish(c.constant(DType::kI64, {0, 3}, graph::make_constant_i64({})));
  // Scores behind the actual ones are masked: from here on no extent depends on data.
  const Made scores = masked(c, c.input(1), 2, counts_of(c, c.input(1))[2], Fill::kLeast);
  const Made boxes = lower_and_upper(c, c.input(0), rule.centered_box);
  auto fixed = [&](const Made& x) { return x ? c.emit_fixed(Op::kIdentity, graph::NoAttrs{}, {*x}) : x; };
  TCC_TRY(const ValueId stay,
          c.emit(Op::kSuppress, graph::SuppressAttrs{rule.most, shortest_decimal(rule.most_overlap), rule.least_score},
                 {fixed(boxes), fixed(scores)}));
  auto number = [&](int64_t n) { return c.scalar(DType::kI64, static_cast<double>(n)); };
  TCC_TRY(const ValueId is_box, c.binary(BinaryFn::kGreaterOrEqual, stay, number(0)));
  TCC_TRY(const Found found, find_true(c, is_box, room));
  const Made row = c.arithmetic(Op::kDiv, found.places, number(most));
  const Made batch = c.arithmetic(Op::kDiv, row, number(classes));
  const Made kind = c.binary(BinaryFn::kMod, row, number(classes));
  const Made box = c.emit(Op::kGather, graph::AxisAttrs{0}, {c.emit_reshape(stay, {room}), found.places});
  TCC_TRY(const ValueId rows,
          c.emit(Op::kConcat, graph::AxisAttrs{1},
                 {c.emit_reshape(batch, {room, 1}), c.emit_reshape(kind, {room, 1}), c.emit_reshape(box, {room, 1})}));
  c.set_counts(rows, {found.count, graph::kNone});
  return c.finish(rows);
}

}  // namespace

Result<void> import_non_max_suppression(NodeContext& c) {
  Suppression rule;
  TCC_TRY(rule.centered_box, c.get_flag("center_point_box", false));
  TCC_TRY(const double most, c.constant_scalar(2, "max_output_boxes_per_class", 0));
  TCC_TRY(const double most_overlap, c.constant_scalar(3, "iou_threshold", 0));
  TCC_TRY(const double least, c.constant_scalar(4, "score_threshold", -std::numeric_limits<double>::infinity()));
  if (!(most >= 0)) return input_error("max_output_boxes_per_class is {}, expected 0 or more", most);
  if (!(most_overlap >= 0 && most_overlap <= 1))
    return input_error("iou_threshold is {}, expected 0 to 1", most_overlap);
  rule.most = static_cast<int64_t>(std::min(most, static_cast<double>(graph::kMaxElements)));
  rule.most_overlap = static_cast<float>(most_overlap);
  rule.least_score = static_cast<float>(least);
  const Shape b = c.input_value(0).shape, s = c.input_value(1).shape;
  if (b.size() != 3 || b[2] != 4 || s.size() != 3 || s[0] != b[0] || s[2] != b[1])
    return input_error("boxes of shape {} and scores of shape {}; expected BxNx4 and BxCxN", graph::shape_text(b),
                       graph::shape_text(s));
  if (c.input_value(0).dtype != DType::kF32 || c.input_value(1).dtype != DType::kF32)
    return refuse(Refusal::kElementType, "boxes and scores must be f32, not {} and {}",
                  graph::dtype_name(c.input_value(0).dtype), graph::dtype_name(c.input_value(1).dtype));
  if (!c.input_value(0).is_constant() || !c.input_value(1).is_constant() || c.is_counted(0) || c.is_counted(1))
    return suppress_at_run_time(c, rule);
  TCC_TRY(const graph::Value* boxes, c.known_input(0, "the boxes"));
  TCC_TRY(const graph::Value* scores, c.known_input(1, "the scores"));
  const int64_t batches = b[0], count = b[1], classes = s[1];
  if (boxes->elements() > kMaxTable || scores->elements() > kMaxTable ||
      scores->elements() > kMaxComparisons / std::max<int64_t>(std::min(count, rule.most), 1))
    return refuse(Refusal::kTooLarge, "boxes of shape {} and scores of shape {}", graph::shape_text(b),
                  graph::shape_text(s));
  const std::vector<float> corners = floats_of(*boxes), all_scores = floats_of(*scores);
  std::vector<int64_t> rows;
  for (int64_t batch = 0; batch < batches; ++batch) {
    std::vector<Box> of_batch;
    for (int64_t i = 0; i < count; ++i)
      of_batch.push_back(read_box(corners.data() + 4 * (batch * count + i), rule.centered_box));
    for (int64_t k = 0; k < classes; ++k) {
      for (int64_t box : rule.keep(of_batch, all_scores.data() + (batch * classes + k) * count))
        rows.insert(rows.end(), {batch, k, box});
    }
  }
  return c.finish(c.constant(DType::kI64, {std::ssize(rows) / 3, 3}, graph::make_constant_i64(rows)));
}

}  // namespace tcc::onnx
