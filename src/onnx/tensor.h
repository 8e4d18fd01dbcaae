// ONNX tensors to constants: every size is checked before memory is touched.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "tcc/graph/graph.h"
#include "tcc/onnx/importer.h"
#include "tcc/support/files.h"
#include "tcc_onnx.pb.h"

namespace tcc::onnx {

// The element type for a TensorProto.DataType number, or an error that names the type.
Result<graph::DType> dtype_of(int32_t onnx_type);
// The other way.
int32_t number_of(graph::DType dtype);

// Opens external data files inside one folder. A location must be a relative path without "..", and no component may
// be a symbolic link unless links are allowed.
class ExternalFiles {
 public:
  explicit ExternalFiles(std::string folder, bool symlinks = false) : folder_(std::move(folder)), symlinks_(symlinks) {}
  struct OpenFile {
    std::shared_ptr<MappedFile> file;
    std::vector<std::pair<int64_t, int64_t>> used;  // bytes that tensors were read from: from, to
  };
  Result<OpenFile*> open(const std::string& location);
  // Every file opened so far: its size, and a hash of the bytes that were used.
  std::vector<graph::DataFile> opened() const;

 private:
  std::string folder_;  // empty: no external data
  bool symlinks_;
  std::map<std::string, OpenFile> open_files_;
};

using TensorConstant = TensorFile;

// `owner` keeps `tensor` alive: raw data is viewed, typed fields are converted. `what` names the tensor in messages.
Result<TensorConstant> read_tensor(const tcc_onnx::Tensor& tensor, const std::shared_ptr<const void>& owner,
                                   ExternalFiles& files, const std::string& what);

// The same for a tensor whose raw data was cut out of its message: `raw`, kept alive by `owner`.
Result<TensorConstant> read_raw_tensor(const tcc_onnx::Tensor& tensor, std::span<const std::byte> raw,
                                       const std::shared_ptr<const void>& owner, ExternalFiles& files,
                                       const std::string& what);

}  // namespace tcc::onnx
