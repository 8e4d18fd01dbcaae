// Which programs of a pool are worth measuring, for a model that shall learn from a few of them: TCL's RDU sampler
// (Algorithm 1) beside three others. The caller measures what was chosen, trains, predicts again and asks again.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tcc/support/result.h"

namespace tcc::cost {

// clang-format off
// X(Name, text)
//   rdu     representativeness, diversity, uncertainty (TCL, section 4.2): repeatedly the program with the highest
//           t = f * d + u. f: predicted score, d: distance to the nearest chosen score, u: variance of the chosen
//           scores with f. Classes get shares by their sizes.
//   random  uniform draws
//   alt     uncertainty alone, as active learning by a committee has it: the highest spread of the model's own scores
//   balto   diversity alone with a bias towards programs that are expected to be fast: the farthest from all chosen
//           ones in the space of features, among candidates drawn in proportion to their scores
#define TCC_SAMPLERS(X) X(Rdu, "rdu") X(Random, "random") X(Alt, "alt") X(Balto, "balto")
// clang-format on
enum class Sampler : uint8_t {
#define TCC_X(name, text) k##name,
  TCC_SAMPLERS(TCC_X)
#undef TCC_X
};
std::span<const std::string_view> sampler_names();
Result<Sampler> find_sampler(std::string_view name);

// The programs to choose among, all spans of one length.
struct SamplingPool {
  std::span<const float> scores;     // normalized predictions, in [0, 1]
  std::span<const int32_t> classes;  // each gets its share (TCL: the type of an assignment's operator)
  std::span<const float> spreads;    // how unsure the model is; alt only
  std::span<const float> features;   // rows of `width`; balto only
  int64_t width = 0;
};

struct SamplingOptions {
  Sampler sampler = Sampler::kRdu;
  uint64_t seed = 1;
  // The variance u falls with the number of chosen programs, while d does not; TCL does not discuss this. True
  // standardizes both terms over the pool before they are added.
  bool standardize = false;
};

// Numbers of `budget` programs of the pool that are not chosen yet, in the order of the choice; fewer where the pool
// has fewer. `chosen`: numbers of those that are. Deterministic.
std::vector<int64_t> choose_programs(const SamplingPool& pool, std::span<const int64_t> chosen, int64_t budget,
                                     const SamplingOptions& options = {});

// `total` in parts that are proportional to `sizes`, by largest remainders; no part exceeds its size.
std::vector<int64_t> split_budget(int64_t total, std::span<const int64_t> sizes);

}  // namespace tcc::cost
