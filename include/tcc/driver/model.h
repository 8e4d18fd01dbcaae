// Naming a model, loading it, and writing down how to load the same model again.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tcc/graph/dynamic.h"
#include "tcc/graph/graph.h"
#include "tcc/onnx/importer.h"
#include "tcc/onnx/zoo.h"
#include "tcc/target/precision.h"

namespace tcc::driver {

// Layouts of the tensors between tasks: as in the model, with channels in blocks wherever an operator can, or
// whichever the estimate prefers (graph::assign_layouts).
enum class Layouts { kPlain, kBlocked, kAuto };

using graph::DimRange;

// Of ModelSource::winograd: each convolution takes the form that its records say is the fastest (driver/forms.h).
inline constexpr int64_t kAutoForm = -1;

// What the user named: a file or zoo:NAME, and what is fixed or replaced on the way in.
struct ModelSource {
  std::string model;
  onnx::ImportOptions import_options;
  onnx::ZooOptions zoo;
  std::optional<uint64_t> reseed;             // --reseed-weights
  std::map<std::string, std::string> frozen;  // --freeze: input's name -> .npy or .pb that fixes its value
  Layouts layouts = Layouts::kPlain;          // --layouts
  int64_t winograd = kAutoForm;               // --winograd: 2 or 4; 0: every convolution keeps its direct form
  target::Precision precision = target::Precision::kF32;  // --precision
  bool fast_math = false;                                 // --fast-math: see graph::Graph::fast_math
  // --dim NAME=LOW..HIGH: dimensions whose size is known at run time. The model is imported at the largest sizes.
  std::vector<graph::DimRange> ranges;
};

struct Model {
  ModelSource source;
  graph::Graph graph;  // as imported, weights replaced where asked; not optimized
  std::string hash;    // 16 hex digits, of the bytes of the file and of its external data
};

// Dimensions of a zoo model in --dim are "batch", "seq" (tokens), "past" (of a step of decoding, tokens before it) and
// "image" (height and width); those of a file have its names.
Result<Model> load_model(const ModelSource& source);

// Writes a model of the zoo as an ONNX file, or, with source.reseed, any model with the weights that it has then.
// `model` is a name of the zoo or a file; source.model is not looked at.
Result<void> write_model(const std::string& model, const ModelSource& source, const std::string& path);

// "resnet18" for zoo:resnet18, "net" for a/b/net.onnx: what libraries are called unless told otherwise.
std::string model_stem(const std::string& model);

// How to load the model again, as a JSON object: source, hash, arithmetic operations of one run. It goes into the
// library's metadata, which is how `verify` finds the model of a library.
std::string source_to_json(const Model& model, double flops);
struct RecordedSource {
  ModelSource source;
  std::string hash;
  std::map<std::string, std::string> frozen_hashes;  // of the values in source.frozen
  double flops = 0;
};
// From a library's metadata; `library` stands for it in messages.
Result<RecordedSource> source_from_metadata(const std::string& metadata, const std::string& library);
// Loads the model of a library, from `path` where it is given and else from where it was; so with the files of frozen
// inputs. Errors: something is not there, or it is not what the library was built from.
Result<Model> load_recorded(const RecordedSource& recorded, const std::string& path,
                            const std::map<std::string, std::string>& frozen = {});

}  // namespace tcc::driver
