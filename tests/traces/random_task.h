// Random small tasks: extents from 1 on, odd ones and primes among them, groups, strides, dilations and paddings in all
// combinations. A task is a function of the state of the generator.
#pragma once

#include <vector>

#include "sample_tasks.h"
#include "tcc/support/rng.h"
#include "tcc/task/task.h"

namespace tcc::testing {

class RandomTask {
 public:
  explicit RandomTask(Rng& rng) : rng_(rng) {}

  task::Task draw() {
    const int64_t kind = rng_.below(10);
    if (kind < 5) return convolution();
    if (kind < 7) return product();
    if (kind < 8) return pool();
    return row();
  }

  // Half of them grouped or depthwise, half with strides.
  task::Task convolution() {
    task::ConvParams p;
    p.batch = number(1, 2), p.bias = coin(), p.relu = coin(), p.residual = coin();
    const int64_t axes = rng_.below(4) == 0 ? 1 : 2;
    for (int64_t d = 0; d < axes; ++d) {
      p.kernel.push_back(number(1, 5));
      p.strides.push_back(coin() ? 1 : number(1, 3));
      p.dilations.push_back(number(0, 3) > 0 ? 1 : 2);
      const int64_t reach = (p.kernel.back() - 1) * p.dilations.back() + 1;
      p.pads.push_back(coin() ? number(0, reach - 1) : (reach - 1) / 2);
      p.size.push_back(number(std::max<int64_t>(reach - 2 * p.pads.back(), 1), 20) + p.strides.back());
    }
    p.group = coin() ? 1 : number(2, 12);
    p.channels = p.group * (coin() && p.group > 1 ? 1 : number(1, 24 / p.group + 1));
    p.filters = p.group * (coin() && p.group > 1 ? 1 : number(1, 40 / p.group + 1));
    return task::make_conv(p);
  }

  task::Task product() {
    task::GemmParams p{.m = number(1, 70), .n = number(1, 70), .k = number(1, 70)};
    p.bias = coin(), p.relu = coin(), p.constant_weights = coin(), p.trans_a = coin(), p.trans_b = coin();
    return task::make_gemm(p);
  }

  task::Task pool() {
    task::PoolParams p{.average = coin(), .batch = number(1, 2), .channels = number(1, 20)};
    for (int d = 0; d < 2; ++d) {
      p.kernel.push_back(number(1, 4));
      p.strides.push_back(number(1, 3));
      p.pads.push_back(number(0, p.kernel.back() / 2));
      p.size.push_back(number(4, 21));
    }
    p.count_include_pad = coin(), p.ceil_mode = coin();
    return task::make_pool(p);
  }

  task::Task row() {
    switch (rng_.below(4)) {
      case 0:
        return task::make_softmax({number(1, 20), number(2, 70)}, 1);
      case 1:
        return task::make_reduction({number(1, 20), number(1, 9), number(2, 40)}, {coin() ? 2 : 1},
                                    coin() ? graph::Op::kReduceSum : graph::Op::kReduceMax);
      case 2:
        return task::make_elementwise({number(1, 3), number(1, 20), number(1, 40)});
      default:
        return task::make_attention({.heads = number(2, 4),
                                     .queries = number(4, 24),
                                     .keys = number(2, 24),
                                     .depth = number(2, 16),
                                     .mask = coin()});
    }
  }

 private:
  int64_t number(int64_t low, int64_t high) { return low + rng_.below(high - low + 1); }
  bool coin() { return rng_.below(2) == 0; }

  Rng& rng_;
};

}  // namespace tcc::testing
