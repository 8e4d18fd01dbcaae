// A built library, opened and called the way a user's program does: through its query function alone.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tcc/graph/dynamic.h"
#include "tcc/graph/types.h"
#include "tcc/rt/model_abi.h"
#include "tcc/support/dynlib.h"
#include "tcc/support/result.h"

namespace tcc::package {

struct TensorSpec {
  std::string name;
  graph::DType dtype = graph::DType::kF32;
  graph::Shape shape;
  int64_t bytes = 0;
};

// The metadata of a built library, read from the file: nothing of it is executed. Errors: the file is not a library,
// ends early, is damaged, or has no metadata of this form.
Result<std::string> read_metadata(const std::string& path);

class ModelContext;

// Immutable and shared between threads.
class LoadedModel : public std::enable_shared_from_this<LoadedModel> {
 public:
  // `path` ends in lib<ID>.so. Its length and checksum are checked before the file is loaded. Errors (environment): the
  // file does not load, exports no tcc_<ID>_query, or has an ABI
  // that this tool does not know. A path that was opened before and is still loaded gives the old library.
  // `sizes`: of dimensions of several sizes, by name; those not named have their largest. Errors besides (usage): a
  // name or a size that the library does not have.
  static Result<std::shared_ptr<LoadedModel>> open(const std::string& path,
                                                   const std::map<std::string, int64_t>& sizes = {});

  const std::string& id() const { return id_; }
  // At the sizes that open() was given.
  const std::vector<TensorSpec>& inputs() const { return inputs_; }
  const std::vector<TensorSpec>& outputs() const { return outputs_; }
  const std::vector<graph::DimRange>& dims() const { return dims_; }  // of several sizes
  // The sizes that shapes of inputs, by name, say. Shapes that fit no size are left to run().
  std::map<std::string, int64_t> sizes_of(const std::map<std::string, graph::Shape>& shapes) const;
  int64_t workspace_bytes() const;
  int64_t weights_bytes() const;
  const std::string& metadata_json() const { return metadata_; }
  bool on_gpu() const;  // runs on a CUDA device
  const tcc_model_api& api() const { return *api_; }

  struct ContextOptions {
    int threads = 0;  // 0: all CPUs
    int spin_us = 0;  // 0: rt's default
    bool pin = false;
    bool keep_denormals = false;  // of models on a CPU
    // Of models on a GPU: whether run() takes host memory, and the driver's file, "" = the system's. They run on the
    // device of the current CUDA context, else on device 0.
    bool host_tensors = true;
    std::string cuda_driver = {};
  };
  // For one thread at a time. Errors (environment): the CPU lacks instructions, no memory or threads, no driver or a
  // device that the code is not for.
  Result<std::unique_ptr<ModelContext>> create_context(const ContextOptions& options);
  Result<std::unique_ptr<ModelContext>> create_context() { return create_context({}); }

 private:
  LoadedModel() = default;
  std::shared_ptr<DynamicLibrary> library_;
  const tcc_model_api* api_ = nullptr;
  std::string id_, metadata_;
  Result<void> take_sizes(const std::map<std::string, int64_t>& sizes);
  std::vector<TensorSpec> inputs_, outputs_;
  std::vector<graph::DimRange> dims_;
  std::vector<graph::SymbolicShape> symbolic_inputs_;
};

class ModelContext {
 public:
  ~ModelContext();
  ModelContext(const ModelContext&) = delete;
  ModelContext& operator=(const ModelContext&) = delete;

  // One pointer per input and output, to row-major data of the TensorSpec's type and shape. Allocates nothing.
  Result<void> run(std::span<const void* const> inputs, std::span<void* const> outputs);
  // The same, and the nanoseconds of each step in the order of the metadata's "steps"; one element a step. Errors
  // besides: a library that was built before there was this function.
  Result<void> run_timed(std::span<const void* const> inputs, std::span<void* const> outputs,
                         std::span<uint64_t> step_ns);
  // Of models on a GPU: device addresses, and the CUDA stream that the work is enqueued on.
  Result<void> enqueue(std::span<const uint64_t> inputs, std::span<const uint64_t> outputs, void* stream);
  // The actual extents of an output of the last run: those of its TensorSpec, except where they depend on the data.
  const graph::Shape& output_shape(size_t i) const { return shapes_[inputs_.size() + i]; }
  // Two runs on seeded inputs; see tcc_model_api.self_test.
  Result<void> self_test();
  int threads() const;
  tcc_context_info info() const;
  const LoadedModel& model() const { return *model_; }

 private:
  friend class LoadedModel;
  ModelContext(std::shared_ptr<const LoadedModel> model, tcc_context* context);
  Result<void> check(tcc_status status, const char* what) const;
  void take(std::span<const void* const> inputs, std::span<void* const> outputs, tcc_dldevice device);
  std::shared_ptr<const LoadedModel> model_;
  tcc_context* context_;
  std::vector<tcc_dltensor> inputs_, outputs_;
  std::vector<graph::Shape> shapes_;  // of all of them
};

}  // namespace tcc::package
