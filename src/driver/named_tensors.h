// Tensors of files for the inputs and outputs of a library. Private to the room.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tcc/driver/tensor_file.h"
#include "tcc/package/loaded_model.h"

namespace tcc::driver {

// "'x' (f32 1x3x224x224)"
std::string describe_tensor(const package::TensorSpec& spec);

// The bytes of a tensor for `spec`; `from` names it in errors. Errors: another type or shape.
Result<std::vector<std::byte>> take_tensor(const package::TensorSpec& spec, const TensorFile& tensor,
                                           const std::string& from);

// `what`: "input" or "output". Errors: the library has none of that name; the nearest is named.
Result<void> check_tensor_name(const std::string& name, const std::vector<package::TensorSpec>& specs,
                               const char* what);
template <class Map>
Result<void> check_tensor_names(const Map& given, const std::vector<package::TensorSpec>& specs, const char* what) {
  for (const auto& [name, value] : given) TCC_TRY_VOID(check_tensor_name(name, specs, what));
  return {};
}

}  // namespace tcc::driver
