#include "tcc/nn/loss.h"

#include <algorithm>
#include <cmath>

#include "nn/kernels.h"
#include "tcc/support/check.h"

namespace tcc::nn {

// One group: `members` are samples with a label.
template <class T>
double Loss<T>::rank(std::span<const int64_t> members, std::span<const T> scores, std::span<const float> labels,
                     int64_t heads, int64_t head, std::span<T> grads) {
  const size_t n = members.size();
  auto at = [&](int64_t sample) { return static_cast<size_t>(sample * heads + head); };
  order_.assign(members.begin(), members.end());
  for (std::vector<T>* v : {&score_, &label_, &gain_, &discount_, &grad_}) v->resize(n);
  std::sort(order_.begin(), order_.end(), [&](int64_t a, int64_t b) {
    const float x = labels[at(a)], y = labels[at(b)];
    return x != y ? x > y : a < b;
  });
  auto gain = [&](int64_t sample) { return std::exp2(std::max(static_cast<double>(labels[at(sample)]), 0.0)) - 1; };
  double most = 0;
  for (size_t i = 0; i < n; ++i) most += gain(order_[i]) / std::log2(static_cast<double>(i) + 2);
  most = std::max(most, 1e-10);
  // Equal scores keep the order of the batch. Scores that are not numbers have no order, so they are compared by place.
  std::sort(order_.begin(), order_.end(), [&](int64_t a, int64_t b) {
    const T x = scores[at(a)], y = scores[at(b)];
    const bool nan_x = std::isnan(x), nan_y = std::isnan(y);
    if (nan_x != nan_y) return nan_y;
    return x != y && !nan_x ? x > y : a < b;
  });
  for (size_t i = 0; i < n; ++i) {
    score_[i] = scores[at(order_[i])];
    label_[i] = static_cast<T>(labels[at(order_[i])]);
    gain_[i] = static_cast<T>(gain(order_[i]) / most);
    discount_[i] = static_cast<T>(1 / std::log2(static_cast<double>(i) + 2));
    grad_[i] = 0;
  }
  const double loss =
      kernels_of<T>(level_).rank_pairs(static_cast<int64_t>(n), score_.data(), label_.data(), gain_.data(),
                                       discount_.data(), static_cast<T>(options_.sigma), grad_.data());
  for (size_t i = 0; i < n; ++i) grads[at(order_[i])] = grad_[i];
  return loss;
}

template <class T>
double Loss<T>::operator()(std::span<const T> scores, std::span<const float> labels, std::span<const uint64_t> tasks,
                           int64_t heads, std::span<T> grads) {
  const auto n = static_cast<int64_t>(tasks.size());
  TCC_CHECK(static_cast<int64_t>(scores.size()) == n * heads && labels.size() == scores.size(),
            "a label for each score");
  std::fill(grads.begin(), grads.end(), T(0));
  double total = 0;
  for (int64_t head = 0; head < heads; ++head) {
    members_.clear();
    for (int64_t i = 0; i < n; ++i)
      if (!std::isnan(labels[static_cast<size_t>(i * heads + head)])) members_.push_back(i);
    if (options_.kind == LossKind::kMse) {
      double sum = 0;
      for (int64_t i : members_) {
        const auto at = static_cast<size_t>(i * heads + head);
        const double d = static_cast<double>(scores[at]) - static_cast<double>(labels[at]);
        sum += d * d;
        grads[at] = static_cast<T>(2 * d / static_cast<double>(members_.size()));
      }
      if (!members_.empty()) total += sum / static_cast<double>(members_.size());
      continue;
    }
    if (!options_.per_task) {
      total += rank(members_, scores, labels, heads, head, grads);
      continue;
    }
    std::sort(members_.begin(), members_.end(), [&](int64_t a, int64_t b) {
      const uint64_t x = tasks[static_cast<size_t>(a)], y = tasks[static_cast<size_t>(b)];
      return x != y ? x < y : a < b;
    });
    for (size_t first = 0, last = 0; first < members_.size(); first = last) {
      while (last < members_.size() &&
             tasks[static_cast<size_t>(members_[last])] == tasks[static_cast<size_t>(members_[first])])
        ++last;
      total += rank(std::span(members_).subspan(first, last - first), scores, labels, heads, head, grads);
    }
  }
  return total;
}

template class Loss<float>;
template class Loss<double>;

}  // namespace tcc::nn
