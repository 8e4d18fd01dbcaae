// What a Workspace keeps. Private to the room.
#pragma once

#include <array>
#include <cmath>
#include <string>

#include "features/nest_reader.h"
#include "tcc/features/sample.h"

namespace tcc::features {

inline constexpr size_t kTaskWords = 10;

// What a variable of a trace holds, as far as the trace alone tells.
struct TraceValue {
  enum class Kind : uint8_t { kBlock, kLoop, kNumber } kind = Kind::kNumber;
  bool sampled = false;  // a decision made it
  bool known = false;    // `number`: the number itself, or the loop's extent
  int64_t number = 0;
  int64_t stage = 0;     // of blocks and loops: the block, counted as the trace names them
  int64_t position = 0;  // of loops: among the loops that one instruction gave
  int32_t block = -1;    // of blocks and loops of the task: in TaskFacts::blocks; -1: the schedule made the block
};
// What tables hold of a task, whatever its program.
inline constexpr size_t kTaskFacts = 16;
struct TaskFacts {
  std::array<float, kTaskWords> words;   // TenSet's embedding
  std::array<double, kTaskFacts> facts;  // of the first row of a trace
  struct Block {
    std::string name;
    std::vector<int64_t> extents;  // of the loops around it in the plain kernel
  };
  std::vector<Block> blocks;
};
TaskFacts make_task_facts(const task::Task& task);
// One step of a schedule.
struct TraceStep {
  const schedule::Instruction* instruction;
  bool decided;  // by a number that was sampled
};

struct Workspace::Impl {
  // Lists the nest of the program, once for all of its tables.
  const NestReader& nest(const Program& program) {
    if (!read) reader.read(program.nest);
    read = true;
    return reader;
  }

  const TaskFacts& facts(const task::Task& of) {
    if (task != of.key) task_facts = make_task_facts(of), task = of.key;
    return task_facts;
  }

  NestReader reader;
  bool read = false;  // of the program at hand
  std::string task;   // key of the task whose facts these are
  TaskFacts task_facts = {};
  bool gpu = false;
  std::vector<int32_t> order;  // scratch of one row
  std::vector<int32_t> rows;   // statements
  std::vector<TraceValue> values;
  std::vector<TraceStep> steps;
  std::vector<int64_t> numbers, tokens;
  std::vector<bool> changed;  // TaskFacts::blocks whose loops a step has changed
};

// sign(x) * log2(|x| + 1), the papers' scale.
inline float slog(double x) {
  return static_cast<float>(std::copysign(std::log2(std::abs(x) + 1), x));
}

// The machine as one row of kHardware's columns, values in [0, 1].
inline constexpr size_t kCpuFacts = 11, kGpuFacts = 12;
std::array<float, kCpuFacts + kGpuFacts> hardware_row(const target::Target& target, int64_t threads);

}  // namespace tcc::features
