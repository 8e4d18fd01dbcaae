// The weights of an ONNX file, found in its bytes before anything is parsed.
//
// A parsed message holds a copy of every weight beside the file's own. So the large weights are cut out of the wire
// format first (protobuf's encoding: keys, lengths, nested messages), and what is parsed is the small rest; the weights
// stay where they are, as views of the file.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tcc::onnx {

struct SplitModel {
  std::string rest;                                            // a model without the raw data of its large initializers
  std::vector<std::optional<std::span<const std::byte>>> raw;  // of each initializer, in order, where it was cut out
};

// Nothing when the bytes are not a model with one graph in the plain form that every exporter writes: the parser reads
// those whole.
std::optional<SplitModel> split_weights(std::span<const std::byte> file);

}  // namespace tcc::onnx
