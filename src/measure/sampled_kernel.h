// A naive kernel that computes only some elements of its outputs: the reference of tasks that are too large for all.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tcc/ir/kernel.h"

namespace tcc::measure {

// Elements of an output to look at, row-major numbers, ascending and without repetition: the corners, both sides of the
// edges of tiles (multiples of the powers of two), and `random` others. All of them where that is no more.
std::vector<int64_t> sample_positions(std::span<const int64_t> shape, int64_t random, uint64_t seed);

struct SampledKernel {
  // The parameters of the original in their order, sampled outputs with the shape [samples]. Then inputs of type i64,
  // one for each dimension of each sampled output, in that order: the coordinates of the samples.
  ir::Kernel kernel;
  struct Output {
    int64_t param;                // number among the parameters
    std::vector<int64_t> coords;  // numbers of the coordinate inputs among the parameters
  };
  std::vector<Output> outputs;
};

// `samples[i]`: how many elements of parameter i are wanted; 0 for inputs and weights, and for outputs that are wanted
// whole. A block is cut down when its buffer is such an output, or a temporary that only such blocks read, at the very
// element that they compute. Everything else is computed whole, as what a chain of producers or a reduction over
// several outputs needs. Nothing: no block can be cut down.
std::optional<SampledKernel> sample_outputs(const ir::Kernel& kernel, std::span<const int64_t> samples);

}  // namespace tcc::measure
