// Small tasks of every family that search meets, a measurer for them, and a look at their references.
#pragma once

#include <catch2/catch.hpp>
#include <memory>
#include <span>
#include <vector>

#include "measure/task_segment.h"
#include "sample_tasks.h"
#include "tcc/measure/host.h"
#include "tcc/task/task.h"

namespace tcc::measure::test {

inline IsolatedHostMeasurer& measurer() {
  static std::unique_ptr<IsolatedHostMeasurer> shared = [] {
    HostMeasureOptions options;
    options.worker_path = TCC_BINARY_DIR "/tools/tcc-worker";
    options.budget_seconds = 0.02;
    auto created = IsolatedHostMeasurer::create(options);
    if (!created) FAIL(created.error().message);
    return std::move(*created);
  }();
  return *shared;
}

inline std::vector<task::Task> small_tasks() {
  std::vector<task::Task> tasks;
  tasks.push_back(task::make_gemm({.m = 65, .n = 70, .k = 19, .bias = true, .relu = true, .constant_weights = true}));
  task::ConvParams conv;
  conv.size = {14, 13};
  conv.channels = 5;
  conv.filters = 31;
  conv.kernel = {3, 3};
  conv.pads = {1, 1};
  tasks.push_back(task::make_conv(conv));
  tasks.push_back(task::make_softmax({37, 41}, 1));
  tasks.push_back(task::make_reduction({40, 50, 6}, {1}, graph::Op::kReduceSum));
  tasks.push_back(task::make_elementwise({130, 70}));
  return tasks;
}

inline std::span<const double> doubles(const MeasureTask& task, int64_t offset, int64_t count) {
  return {reinterpret_cast<const double*>(task.segment().memory.data() + offset), static_cast<size_t>(count)};
}

}  // namespace tcc::measure::test
