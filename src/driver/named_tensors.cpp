#include "driver/named_tensors.h"

#include <algorithm>

#include "tcc/support/text.h"

namespace tcc::driver {

using package::TensorSpec;

std::string describe_tensor(const TensorSpec& spec) {
  return fmt::format("'{}' ({} {})", sanitize(spec.name), graph::dtype_name(spec.dtype), graph::shape_text(spec.shape));
}

Result<void> check_tensor_name(const std::string& name, const std::vector<TensorSpec>& specs, const char* what) {
  std::vector<std::string> known, notes;
  for (const TensorSpec& spec : specs) known.push_back(spec.name);
  if (std::find(known.begin(), known.end(), name) != known.end()) return {};
  for (const TensorSpec& spec : specs) notes.push_back(fmt::format("{} {}", what, describe_tensor(spec)));
  return make_error(ErrorClass::kUsage, fmt::format("the model has no {} '{}'", what, sanitize(name)),
                    suggest(name, known), notes);
}

Result<std::vector<std::byte>> take_tensor(const TensorSpec& spec, const TensorFile& tensor, const std::string& from) {
  if (tensor.dtype != spec.dtype) {
    return make_error(ErrorClass::kInput,
                      fmt::format("{} holds {}, input {} needs {}", from, graph::dtype_name(tensor.dtype),
                                  describe_tensor(spec), graph::dtype_name(spec.dtype)),
                      "convert it first, for example array.astype('float32')");
  }
  if (tensor.shape != spec.shape) {
    return make_error(ErrorClass::kInput,
                      fmt::format("{} has shape {}, input {} needs {}", from, graph::shape_text(tensor.shape),
                                  describe_tensor(spec), graph::shape_text(spec.shape)),
                      fmt::format("reshape the array, or build the model for this shape with --shape {}={}",
                                  sanitize(spec.name), graph::shape_text(tensor.shape)));
  }
  std::vector<std::byte> storage;
  auto bytes = graph::dense_bytes(tensor.constant, tensor.dtype, graph::element_count(tensor.shape), storage);
  return std::vector<std::byte>(bytes.begin(), bytes.end());
}

}  // namespace tcc::driver
