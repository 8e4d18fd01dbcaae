// NonMaxSuppression of boxes that are known when the model is compiled: the number of boxes it keeps depends on them.
#include <algorithm>
#include <limits>
#include <numeric>

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

}  // namespace

Result<void> import_non_max_suppression(NodeContext& c) {
  Suppression rule;
  TCC_TRY(rule.centered_box, c.get_flag("center_point_box", false));
  TCC_TRY(const double most, c.constant_scalar(2, "max_output_boxes_per_class", 0));
  TCC_TRY(const double most_overlap, c.constant_scalar(3, "iou_threshold", 0));
  TCC_TRY(const double least, c.constant_scalar(4, "score_threshold", -std::numeric_limits<double>::infinity()));
  if (!(most >= 0 && most <= static_cast<double>(graph::kMaxElements)))
    return input_error("max_output_boxes_per_class is {}, expected 0 or more", most);
  if (!(most_overlap >= 0 && most_overlap <= 1))
    return input_error("iou_threshold is {}, expected 0 to 1", most_overlap);
  rule.most = static_cast<int64_t>(most);
  rule.most_overlap = static_cast<float>(most_overlap);
  rule.least_score = static_cast<float>(least);
  TCC_TRY(const graph::Value* boxes, c.known_input(0, "the boxes"));
  TCC_TRY(const graph::Value* scores, c.known_input(1, "the scores"));
  const Shape b = boxes->shape, s = scores->shape;
  if (b.size() != 3 || b[2] != 4 || s.size() != 3 || s[0] != b[0] || s[2] != b[1])
    return input_error("boxes of shape {} and scores of shape {}; expected BxNx4 and BxCxN", graph::shape_text(b),
                       graph::shape_text(s));
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
