#pragma once

#include "measure/shared_memory.h"
#include "measure/wire.h"
#include "tcc/measure/task.h"

namespace tcc::measure {

// The memory begins with the length of the description (int64), then the description, then the arrays.
struct MeasureTask::Segment {
  TaskDescription description;
  SharedMemory memory;
};

}  // namespace tcc::measure
