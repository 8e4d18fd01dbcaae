// Losses of scores. A label is in [0, 1]; higher is better, as it is for scores.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tcc/nn/model.h"

namespace tcc::nn {

// kRank: LambdaRank, the loss of TenSet-MLP, TLP, PaCM and TCL. Samples are ranked by score, position p = 1, 2, ...;
//   G_i = (2^y_i - 1) / maxDCG,   w_ij = |G_i - G_j| |1 / log2(1 + p_i) - 1 / log2(1 + p_j)|
//   loss = sum over pairs with y_i > y_j of w_ij log2(1 + exp(-sigma (s_i - s_j)))
// maxDCG = sum of (2^y - 1) / log2(1 + p) over the labels in descending order, at least 1e-10. The weights count as
// constants in the gradient. (Eq. 6 of TCL has the opposite sign, which would be maximized.)
// kMse: mean of (s - y)^2.
enum class LossKind { kRank, kMse };

struct LossOptions {
  LossKind kind = LossKind::kRank;
  // Pairs are made of the samples of one task. The papers make them of whole batches, which mix tasks; the labels are
  // relative to their task in both cases.
  bool per_task = false;
  double sigma = 1;
};

// Reuses its memory. The same input gives the same bits.
template <class T>
class Loss {
 public:
  Loss(const LossOptions& options, Level level) : options_(options), level_(level) {}
  // scores and labels: n x heads; tasks: n. A label that is not a number makes no pair and gets gradient 0. Returns the
  // loss, summed over heads (and tasks), and fills d loss / d scores.
  double operator()(std::span<const T> scores, std::span<const float> labels, std::span<const uint64_t> tasks,
                    int64_t heads, std::span<T> grads);

 private:
  double rank(std::span<const int64_t> members, std::span<const T> scores, std::span<const float> labels, int64_t heads,
              int64_t head, std::span<T> grads);

  LossOptions options_;
  Level level_;
  std::vector<int64_t> members_;
  std::vector<T> score_, label_, gain_, discount_, grad_;
  std::vector<int64_t> order_;
};

extern template class Loss<float>;
extern template class Loss<double>;

}  // namespace tcc::nn
