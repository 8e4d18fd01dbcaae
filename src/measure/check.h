// The numeric gate on everything that a program leaves behind, wherever it ran.
#pragma once

#include <functional>
#include <vector>

#include "measure/wire.h"

namespace tcc::measure {

// What buffers are filled with before a run. Differs between sets: all ones is NaN and -1, 0x7f is a huge finite
// number, so nothing left unwritten can be right twice.
inline uint8_t poison_of(int64_t set) {
  return set == 0 ? 0xff : 0x7f;
}

// An output's elements, row-major; `scratch` may hold them.
using LogicalOutput = std::function<const std::byte*(size_t param, std::vector<std::byte>& scratch)>;

// Compares all outputs with the references of the set, which are in the task's memory `data`. False: the result says
// what is wrong; in any case it says how large the largest error is, and where.
bool outputs_are_right(const TaskDescription& task, const std::byte* data, int64_t set, const LogicalOutput& output,
                       WorkerResult& result);

// `damaged`: the first buffer with something written beside it; -1: none. False: the result says so.
bool margins_are_intact(int64_t damaged, WorkerResult& result);

}  // namespace tcc::measure
