// A tuned model as files that a C program links: libID.so, ID.h, ID.json, example.c, ID.pc and a CMake package. The
// library holds the kernels, the weights in the layouts that the kernels want, the plan and rt; it needs libc and libm
// only. Kernels for GPUs are cubins inside; the CUDA driver is opened when a context is made.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tcc/codegen/artifact.h"
#include "tcc/graph/dynamic.h"
#include "tcc/graph/graph.h"
#include "tcc/graph/passes.h"
#include "tcc/support/result.h"
#include "tcc/target/target.h"
#include "tcc/task/task.h"

namespace tcc::package {

// Where a task's schedule comes from.
enum class Origin : uint8_t { kDefault, kMeasured, kPredicted };
const char* origin_name(Origin origin);

// What was chosen for one task.
struct TaskCode {
  codegen::Artifact artifact;  // symbols unique among the plan's tasks
  double seconds = 0;          // measured or predicted time of one run; 0: neither
  std::string trace;           // JSON text of the schedule's trace; "": not tuned
  std::string ir;              // the lowered kernel as text, for Emit::ir; may be empty
  std::string ptx_text;        // for Emit::ptx; may be empty
  std::string assembly = {};   // for Emit::assembly; may be empty
  Origin origin = Origin::kDefault;
  std::string launch_models = {};  // JSON text of cost::launch_models(), for the description; "": not known
};

// All tasks for one GPU architecture: cubins, or PTX that the driver compiles. Or, of a library for several kinds of
// CPUs, for one of them: host objects.
struct ArchitectureCode {
  target::Target target;
  bool ptx = false;
  std::vector<TaskCode> codes;  // one per task
};

// Of a model with dimensions of several sizes, or with outputs whose extents it computes. The graph, its groups and
// tasks are those of all buckets, one behind the other, each at the largest sizes that it serves; the last one serves
// all.
struct DynamicPlan {
  struct Bucket {
    std::vector<int64_t> bounds;  // one a dimension, then the greatest value of each count
    int64_t first_step = 0, steps = 0;
  };
  std::vector<graph::DimRange> dims;
  // Of the model's. Symbols from the number of dimensions on are counts: extents that a run computes.
  std::vector<graph::SymbolicShape> inputs, outputs;
  int32_t counts = 0;
  std::vector<int32_t> appends_to, append_axis;  // by output, as in graph::BoundGraph
  std::vector<Bucket> buckets;                   // in the order in which they are tried
  // What the graph's inputs and outputs are: the model's, by number; from the number of its inputs on, the size of a
  // dimension; from the number of its outputs on, a count.
  std::vector<int32_t> input_numbers, output_numbers;
};

// Everything that a library is made of. Pointers are borrowed for the call.
struct PackagePlan {
  const graph::Graph* graph = nullptr;  // optimized
  const std::vector<graph::FusionGroup>* groups = nullptr;
  const graph::MemoryPlan* memory = nullptr;
  const task::TaskList* tasks = nullptr;
  std::vector<TaskCode> codes;           // for a CPU: one per task, host objects
  target::Target target;                 // what the code was compiled for; with several GPUs, the first
  const DynamicPlan* dynamic = nullptr;  // nullptr: every size is fixed. For CPUs
  // For CPUs with fewer features than `target`, from the most to the fewest: what create() takes where this CPU lacks
  // features that the kernels before use. Symbols are unique over all of these, too.
  std::vector<ArchitectureCode> older;
  // For GPUs, each architecture once: then `codes` is empty.
  std::vector<ArchitectureCode> architectures;
  int64_t cuda_toolkit = 0;            // that compiled them, 13000 for 13.0
  std::vector<std::string> conformed;  // functions of the CUDA prelude that were checked on a device: "sm_80 NAME"
};

// Which files beside the library and its companions (ID.h, ID.json, example.c, ID.pc, ID-config.cmake) to write. They
// go to <folder>/kernels/, named by task key.
struct Emit {
  bool objects = false;   // KEY.o, and model.o and rt.o, which with them are all that the library is linked from
  bool llvm = false;      // KEY.ll, or what ending Artifact::source has
  bool assembly = false;  // KEY.s: TaskCode::assembly
  bool ir = false;        // KEY.tir
  bool traces = false;    // KEY.trace.json
  // For GPUs, ARCH being sm_80 and so on; ir and traces are named KEY.ARCH.* there as well.
  bool cuda = false;   // KEY.ARCH.cu
  bool cubin = false;  // KEY.ARCH.cubin
  bool ptx = false;    // KEY.ARCH.ptx: TaskCode::ptx_text
};

struct PackageOptions {
  std::string folder;        // made when missing
  std::string id;            // [A-Za-z][A-Za-z0-9_]*, at most 64 characters: names files and the query function
  std::string tool_version;  // goes into the metadata
  std::string source_json;  // JSON object: how to get the model again; goes into the metadata as "source". May be empty
  std::string linker;       // "": the best one here; "lld": inside this process; else a program: "ld.lld", "ld", "cc"
  Emit emit;
};

struct PackageReport {
  std::string library;             // path of libID.so
  std::vector<std::string> files;  // every file written, library first
  std::string linker;              // what linked it
  int64_t library_bytes = 0;
  int64_t weights_bytes = 0;    // constants in the kernels' layouts, padded to 64 bytes each
  int64_t workspace_bytes = 0;  // values between tasks and the kernels' own scratch
};

// The same plan and options give the same bytes, whatever the folder. Errors: a bad id (input), a folder that cannot be
// written, no linker, a failed link (environment); nothing is left half-written under a final name.
Result<PackageReport> build_library(const PackagePlan& plan, const PackageOptions& options);

// Of the kernel's own buffers in the workspace, as build_library places them one after the other.
int64_t scratch_bytes(const codegen::Artifact& kernel);

// A valid id made from any text ("res net-50.onnx" -> "res_net_50_onnx"); "model" when nothing is left.
std::string make_id(const std::string& text);

}  // namespace tcc::package
