// Tensors in files: NumPy's .npy and .npz, and .pb (a serialized ONNX TensorProto).
#pragma once

#include <map>
#include <span>
#include <string>

#include "tcc/onnx/importer.h"

namespace tcc::driver {

using onnx::TensorFile;

// By the name's ending. Fortran order is rearranged; big-endian data, objects and pickles are refused. NumPy has no
// bfloat16: 16-bit unsigned integers are read as its bits when asked for.
// Errors name the file and what is wrong with it; nothing is allocated beyond what the file holds.
Result<TensorFile> read_tensor(const std::string& path, bool bfloat16_as_uint16 = false);
Result<TensorFile> parse_npy(std::string_view bytes, const std::string& name, bool bfloat16_as_uint16 = false);
// All arrays of a .npz, by name.
Result<std::map<std::string, TensorFile>> read_npz(const std::string& path, bool bfloat16_as_uint16 = false);

struct NamedTensor {
  std::string name;
  graph::DType dtype = graph::DType::kF32;
  graph::Shape shape;
  std::span<const std::byte> bytes;  // row-major
};
// bfloat16 is written as the 16-bit unsigned integers of its bits.
std::string npy_bytes(const NamedTensor& tensor);
// By the name's ending, whole or not at all.
Result<void> write_tensor(const std::string& path, const NamedTensor& tensor);
// The same tensors give the same bytes. Names become files of the archive: NAME.npy.
Result<void> write_npz(const std::string& path, std::span<const NamedTensor> tensors);

}  // namespace tcc::driver
