// Cycles from first principles: vector multiply-adds and loads on the ports of the core model, the latency of too few
// accumulators, spilled accumulators, gathers, cache traffic, loop overhead, idle threads.
#include <algorithm>
#include <cmath>

#include "tcc/cost/cost_model.h"
#include "tcc/features/features.h"
#include "tcc/support/check.h"

namespace tcc::cost {
namespace {

using features::Feature;

// Minus log2 of the estimated cycles.
float rule_score(const target::CoreModel& core, std::span<const float> row) {
  auto raw = [&](Feature f) { return static_cast<double>(row[static_cast<size_t>(f)]); };
  auto count = [&](Feature f) { return std::exp2(raw(f)) - 1; };  // undoes log2(1 + x)
  double lanes = std::max(count(Feature::vector_lanes), 1.0), threads = std::max(count(Feature::threads), 1.0);
  double flops = count(Feature::flops) + count(Feature::int_ops), hot = flops * raw(Feature::hot_share);
  double width = std::max(count(Feature::hot_vector), 1.0),
         registers = std::max(count(Feature::hot_vector_registers), 1.0);
  double tile = std::max(count(Feature::hot_register_tile), 1.0);

  double operations = hot / 2 / width * registers;  // vector multiply-adds
  double ports = operations / core.fmas_per_cycle;
  double latency = std::max(core.sums_in_flight() / tile, 1.0);
  double spilled = 1 - std::min(1.0, 1 / std::max(raw(Feature::hot_register_pressure), 1e-3));
  bool in_registers = raw(Feature::hot_reduce_inside) > 0 && raw(Feature::hot_accumulator_local) > 0;
  double memory_operands = in_registers ? spilled * 2 : 2;
  double loads = operations * (count(Feature::hot_loads_per_flop) + memory_operands) / core.loads_per_cycle;
  double slow = operations * (raw(Feature::hot_loads_gather) * lanes + raw(Feature::hot_loads_strided) * 3) +
                operations * raw(Feature::hot_masked) * 0.5;
  double compute = std::max(ports * latency, loads) + slow;

  double iterations = operations / std::max(tile * std::max(count(Feature::code_size) / std::max(tile, 1.0), 1.0), 1.0);
  double overhead = iterations * 3 + operations / std::max(tile, 1.0) * (1 + raw(Feature::hot_loads_broadcast));
  if (count(Feature::code_size) > core.decoded_statements)
    overhead += operations * 0.5;  // leaves the decoded-instruction cache
  // The accumulators are set up and stored once per reduction.
  double epilogue = operations / std::max(count(Feature::hot_inner_trip), 1.0) * 4;
  double rest = (flops - hot) / 4 + count(Feature::scalar_flops) * (1 - raw(Feature::vector_share)) / 2 +
                count(Feature::strided_stores) * 1.5 + count(Feature::copy_bytes) / 16 + count(Feature::math_calls) * 2;
  double memory =
      count(Feature::traffic_l1) / core.l1_bytes_per_cycle + count(Feature::traffic_l2) / core.l2_bytes_per_cycle;
  double cycles = std::max(compute, memory) + 0.3 * std::min(compute, memory) + overhead + epilogue + rest;

  double used = std::min(threads, std::max(count(Feature::parallel_extent), 1.0)) *
                std::max(raw(Feature::parallel_balance), 1e-3);
  used = std::clamp(used, 1.0, threads);
  double total =
      cycles / used + core.launch_cycles * raw(Feature::launches) + core.task_cycles * count(Feature::parallel_extent);
  return static_cast<float>(-std::log2(std::max(total, 1.0)));
}

class RuleModel : public CostModel {
 public:
  explicit RuleModel(const target::CoreModel& core) : core_(core) {}
  const features::Schema& schema() const override { return features::kHotStatement; }
  void predict(const features::Batch& rows, std::span<float> scores) const override {
    TCC_CHECK(rows.size() == scores.size() && (rows.empty() || rows.schema() == &schema()));
    for (size_t i = 0; i < scores.size(); ++i) scores[i] = rule_score(core_, rows[i]);
  }

 private:
  target::CoreModel core_;
};

}  // namespace

std::unique_ptr<CostModel> make_rule_model(const target::CoreModel& core) {
  return std::make_unique<RuleModel>(core);
}

}  // namespace tcc::cost
