// The model's own object: plan, tensor descriptions, weights, metadata, and the query function.
#pragma once

#include <string>
#include <vector>

#include "elf_object.h"
#include "plan_image.h"
#include "tcc/package/package.h"
#include "tcc/rt/rt.h"

namespace tcc::package {

// One constant in one layout, at a multiple of 64 bytes into the weights.
struct WeightPiece {
  graph::ValueId value = graph::kNone;
  std::string layout;  // ir::print_layout text; "" = row-major
  int64_t offset = 0;
  int64_t bytes = 0;  // physical
};

// Where everything lives at run time.
struct ModelLayout {
  std::vector<WeightPiece> weights;
  int64_t weights_bytes = 0;
  int64_t workspace_bytes = 0;  // the memory plan's with scratch, then copies of tensors
  int64_t steps_bytes = 0;      // the same without the copies
  // Per group, in the order of the artifact's buffers; one such list for each architecture, and one for a CPU.
  std::vector<std::vector<std::vector<tcc_rt_arg>>> args;
  // That kernels assume of the model's inputs and outputs, bytes; 0: the element size.
  std::vector<uint64_t> input_alignment, output_alignment;
  // That the instructions of the kernels need, for the plan's CPU and each older one; nothing for GPUs.
  std::vector<target::CpuFeatures> used_features;
};

// The model's inputs or outputs among the values of the graph; of a model with several sizes, those at the largest.
struct PublicTensors {
  std::vector<graph::ValueId> values;
  std::vector<std::string> names;
};
PublicTensors public_inputs(const PackagePlan& plan);
PublicTensors public_outputs(const PackagePlan& plan);

// Places constants and kernels' scratch. Errors (input): layouts that do not parse.
Result<ModelLayout> place_model(const PackagePlan& plan);

tcc_dldtype dl_type(graph::DType dtype);

// Adds the tcc_rt_gpu of a plan with architectures and returns its place.
int64_t add_gpu_code(const PackagePlan& plan, const ModelLayout& layout, PlanImage& image, StringPool& strings);

// Names of the CUDA prelude that the source of a kernel, which begins with it, uses; sorted.
std::vector<std::string> prelude_functions(const std::string& source);

// Writes the object to `path`; weights go straight from the constants, one at a time.
Result<void> write_model_object(const PackagePlan& plan, const ModelLayout& layout, const std::string& id,
                                const std::string& metadata, const std::string& path);

// ID.json: what is in the library and how it was made.
std::string make_metadata(const PackagePlan& plan, const ModelLayout& layout, const PackageOptions& options);

// The files beside the library. Generated text holds ids and types, never the model's own strings.
std::string make_header(const PackagePlan& plan, const ModelLayout& layout, const std::string& id);
std::string make_example(const PackagePlan& plan, const std::string& id);
std::string make_pkg_config(const PackageOptions& options);
std::string make_cmake_config(const std::string& id);

}  // namespace tcc::package
