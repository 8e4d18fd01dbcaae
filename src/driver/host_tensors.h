// Inputs and outputs of a library in the host's memory, for timing it. Private to the room.
#pragma once

#include <memory>
#include <vector>

#include "tcc/graph/reference.h"
#include "tcc/package/loaded_model.h"

namespace tcc::driver {

// Memory of the host for all tensors of a model, inputs filled.
struct HostTensors {
  HostTensors(const package::LoadedModel& model, uint64_t seed) {
    for (const package::TensorSpec& spec : model.inputs()) {
      graph::Value value;
      value.dtype = spec.dtype;
      value.shape = spec.shape;
      inputs.push_back(
          graph::make_constant_from_doubles(spec.dtype, graph::random_tensor(value, seed + inputs.size()).data));
    }
    for (const graph::Constant& bytes : inputs) input_pointers.push_back(bytes.bytes.data());
    for (const package::TensorSpec& spec : model.outputs()) {
      const auto bytes = static_cast<size_t>(spec.bytes);
      size_t room = bytes + kAlignment;
      void* data = outputs.emplace_back(room).data();
      output_pointers.push_back(std::align(kAlignment, bytes, data, room));
    }
  }
  // As frameworks allocate tensors: kernels may then write whole lines past the caches.
  static constexpr size_t kAlignment = 64;

  std::vector<graph::Constant> inputs;
  std::vector<std::vector<std::byte>> outputs;
  std::vector<const void*> input_pointers;
  std::vector<void*> output_pointers;
};

}  // namespace tcc::driver
