// Programs without a search: Roller and Gensor construct tile sizes from what a machine can hold and move, and nothing
// is measured (Zhu et al., Roller, OSDI 2022; Gensor). Both decide the sampled tiles of the traces that a design space
// makes, so what they construct is a trace like any other.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tcc/ir/kernel.h"
#include "tcc/schedule/trace.h"
#include "tcc/target/target.h"

namespace tcc::construct {

enum class Method : uint8_t { kRoller, kGensor };

// Roller has three: two of its published branches, and one for operators without reuse, which it takes for those.
enum class RollerVariant : uint8_t {
  kArtifact,  // of its artifact: scored by operations per byte after growing an axis by one
  kPaper,     // closest to the paper: scored by traffic saved per byte of memory
  kPlain,     // axes innermost first, without scores
};

// Where Gensor's text leaves something open or contradicts itself: as printed, or as its prose means it.
enum class Reading : uint8_t { kLiteral, kRecommended };

enum class Order : uint8_t { kModel, kDiscovery };  // of the programs: by the analytical model, or as they were found

struct Options {
  Method method = Method::kRoller;
  RollerVariant variant = RollerVariant::kPaper;
  Reading reading = Reading::kRecommended;
  Order order = Order::kModel;
  bool vthreads = true;  // Gensor's virtual threads; on CPUs independent accumulators
  int64_t threads = 1;   // that the program runs on, on a CPU
  int64_t top = 10;      // results after which Roller stops, of one kind of nest
  int64_t chains = 64;   // of Gensor
  int64_t most = 64;     // programs returned
  uint64_t seed = 1;
};

struct Program {
  size_t trace = 0;                // of those given
  std::vector<int64_t> decisions;  // of its sampling instructions; replay repairs none of them
  double seconds = 0;              // by the analytical model; 0: a simple schedule
};

struct Construction {
  std::vector<Program> programs;  // the best first; not checked by lowering
  // What made them: "roller", "gensor", "plain policy" or "simple schedule".
  std::string rule;
  std::string reason;     // why the method asked for does not fit; "": it does
  int64_t looked_at = 0;  // tiles whose worth was computed
};
inline constexpr std::string_view kPlainPolicy = "plain policy", kSimpleSchedule = "simple schedule";
std::string_view method_name(Method method);

// `traces` replay on `start` (Stage::Built), as space::explore_space gives them. Operators without a sampled tile get
// the simple schedule: each trace with the decisions that it has. One thread; a function of its arguments alone.
Construction construct(std::span<const schedule::Trace> traces, const ir::Kernel& start, const target::Target& target,
                       const Options& options);

}  // namespace tcc::construct
