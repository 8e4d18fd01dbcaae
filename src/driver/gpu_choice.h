// Which program a task gets on a GPU. Private to the room.
#pragma once

#include <string>

#include "tcc/package/package.h"
#include "tcc/search/search.h"

namespace tcc::driver {

struct GpuKernel {
  search::Chosen program;
  codegen::Artifact artifact;  // without code where none was made
  package::Origin origin = package::Origin::kDefault;
};

// The program of the fastest measurement, else of the best prediction, else the default: of the best by the model among
// a few hundred seeded draws the first that compiles and keeps all its values in registers, else the first that
// compiles; the plain loops are the last resort. `program.note` says why it is not tuned. store may be nullptr.
// Errors: no NVRTC, or none for this architecture (environment).
Result<GpuKernel> choose_gpu_kernel(const task::Task& task, const target::Target& target, const record::Database* store,
                                    const std::string& prefix);

// What `build` takes for a task, whatever the target: on a CPU search::choose_program. Where nothing can be compiled
// for a GPU, its program as if everything could.
struct TaskProgram {
  search::Chosen program;
  bool predicted = false;  // its seconds are an analytical model's
};
Result<TaskProgram> program_of_task(const task::Task& task, const target::Target& target, const record::Database* store,
                                    int64_t threads);

}  // namespace tcc::driver
