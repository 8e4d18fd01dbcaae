#include "cli/arguments.h"

#include <algorithm>

#include "cli/options.h"
#include "tcc/backend/backend.h"
#include "tcc/driver/catalogue.h"

namespace tcc::cli {

void add_common(Options& options, Common& common) {
  options.section(kOutputGroup);
  options.flag("--json", common.json, "Print results as JSON");
  options.flag("-q,--quiet", common.quiet, "No progress, no remarks");
  options.flag("--wide", common.wide, "Tables with all their columns and lines of any length, also on a terminal");
  options.count("-v,--verbose", common.verbose, "Say what is being done; twice for more");
  options
      .option("--config", common.config, "Options as NAME = VALUE lines (TOML); [COMMAND] sections are for one command")
      .value("FILE");
}

void add_model(Options& options, ModelArguments& model, const char* what, bool required) {
  options.section("Model");
  std::vector<std::string> zoo;
  for (const onnx::ZooEntry& entry : onnx::zoo_models()) zoo.push_back("zoo:" + entry.name);
  Option name = options.option("MODEL", model.model, what).words(std::move(zoo));
  if (required) name.required();
  add_shapes(options, model);
  options.list("--freeze", model.frozen, "Fix the value of an input, as NAME=@FILE.npy or .pb; may be repeated")
      .value("NAME=@FILE")
      .noted(model.given);
  options.flag("--allow-external-symlinks", model.external_symlinks,
               "Follow symbolic links to external data, also out of the model's folder");
  add_reseed(options, model);
  options
      .option(
          "--layouts", model.layouts,
          "Channels between tasks on a CPU: plain (auto where a model convolves 8-bit integers), blocked, or auto by "
          "estimate")
      .one_of({"plain", "blocked", "auto"})
      .show_default()
      .noted(model.given);
  options
      .option("--winograd", model.winograd,
              "Compute 3x3 convolutions by Winograd tiles of 2x2 or 4x4 outputs where an estimate prefers them: fewer "
              "products, less accurate; 0: never; auto: tune measures all forms, and the fastest one is built")
      .value("M")
      .one_of({"auto", "0", "2", "4"})
      .show_default()
      .noted(model.given);
  options
      .option("--precision", model.precision,
              "Multiply single precision in a shorter type, with sums in f32, where the target can; inputs, outputs, "
              "norms and what needs the range stay f32")
      .one_of({"f32", "tf32", "f16", "bf16"})
      .show_default()
      .noted(model.given);
  options
      .flag("--fast-math", model.fast_math,
            "Take floats to be numbers: results of NaN are open, and kernels leave out what ONNX's rules about it cost")
      .noted(model.given);
  add_zoo(options, model);
}

void add_shapes(Options& options, ModelArguments& model) {
  options.list("--shape", model.shapes, "Shape of an input, as NAME=1x3x224x224; may be repeated")
      .value("NAME=DIMS")
      .noted(model.given);
  options
      .list("--dim", model.dims,
            "Size of a named dimension, as NAME=8, or its range at run time and the sizes to tune for, as "
            "NAME=1..64@8,32; "
            "may be repeated")
      .value("NAME=N")
      .noted(model.given);
}

void add_reseed(Options& options, ModelArguments& model) {
  options.option("--reseed-weights", model.reseed, "Replace the weights by seeded random ones of sane scale")
      .value("SEED")
      .noted(model.given);
}

void add_zoo(Options& options, ModelArguments& model) {
  options.option("--batch", model.zoo_batch, "Batch size of zoo models")
      .value("N")
      .show_default()
      .noted(model.zoo_given);
  options.option("--image", model.zoo_image, "Height and width of zoo image models")
      .value("N")
      .show_default()
      .noted(model.zoo_given);
  options.option("--sequence", model.zoo_sequence, "Tokens of zoo language models")
      .value("N")
      .show_default()
      .noted(model.zoo_given);
  options.option("--width", model.zoo_width, "Percent of the channels of zoo:mobilenet_v2")
      .value("N")
      .show_default()
      .noted(model.zoo_given);
  options.option("--layers", model.zoo_layers, "Layers of zoo transformers [the network's own]")
      .value("N")
      .noted(model.zoo_given);
  options
      .option("--past", model.zoo_past,
              "Tokens before those of --sequence whose keys and values are inputs of zoo decoders")
      .value("N")
      .show_default()
      .noted(model.zoo_given);
  options.option("--opset", model.zoo_opset, "Of the zoo's file [the oldest with the network's operators]")
      .value("N")
      .noted(model.zoo_given);
  options.option("--zoo-precision", model.zoo_precision, "Type of the floats in the zoo's file")
      .one_of({"f32", "f16", "bf16"})
      .show_default()
      .noted(model.zoo_given);
  options.option("--zoo-seed", model.zoo_seed, "Seed of zoo weights").value("N").show_default().noted(model.zoo_given);
}

void add_target(Options& options, TargetArguments& target, const char* what) {
  options.section("Machine");
  std::vector<std::string> names = target::target_names();
  names.push_back("cuda");
  options
      .option("--target", target.name,
              what != nullptr ? what : "Machine to compile for; see `tcc targets`. cuda is the GPU here")
      .comma_words(std::move(names))
      .show_default()
      .noted(target.given)
      .usual();
  options.option("--target-file", target.file, "The machine as JSON; see `tcc targets NAME --json`")
      .value("FILE")
      .noted(target.given);
  add_cuda_driver(options, target);
}
void add_cuda_driver(Options& options, TargetArguments& target) {
  options.option("--cuda-driver", target.cuda_driver, "The CUDA driver's library [libcuda.so.1]").value("FILE");
}
void add_cupti(Options& options, std::string& library) {
  options.option("--cupti", library, "The library for the device's own times and counters [libcupti.so.13]")
      .value("FILE");
}

void add_db(Options& options, RecordArguments& records) {
  options.section("Records");
  options.option("--db", records.db, "File of tuning records [$XDG_DATA_HOME/tcc/records.db]")
      .value("FILE")
      .noted(records.given)
      .usual();
}
// For commands that only read records, or read more than they write.
void add_records(Options& options, RecordArguments& records) {
  add_db(options, records);
  options
      .list("--also", records.also,
            "Another file of records, only read: the best of it and of --db counts; may be repeated")
      .value("FILE")
      .noted(records.given);
  options
      .list("--fallback", records.fallback,
            "A file of records, only read, for tasks without a record in --db and --also; may be repeated")
      .value("FILE")
      .noted(records.given);
}

void add_space(Options& options, std::string& space) {
  std::vector<std::string> names = {"default", "wide", "none"};
  for (const backend::Backend* backend : {&backend::kCpu, &backend::kCuda})
    for (const space::Module& module : backend->modules->modules)
      if (std::find(names.begin(), names.end(), module.name) == names.end()) names.emplace_back(module.name);
  options
      .option(
          "--space", space,
          "The design spaces: default; wide, which adds those that the rules of MetaSchedule make alone; or names "
          "of modules, as a,b. none: the plain loops. `tcc explain` names the module behind each step of a schedule")
      .comma_words(std::move(names))
      .value("NAMES")
      .show_default();
}

void add_threads(Options& options, int64_t& threads, const char* what) {
  options.section("Machine");
  options.option("--threads", threads, what).range(1, 1024).value("N").usual();
}

void add_tasks(Options& options, TaskArguments& tasks, const char* target) {
  add_target(options, tasks.target, target);
  add_threads(options, tasks.threads, "Prefer schedules that were measured on this many threads [all]");
  add_model(options, tasks.model);
  add_records(options, tasks.records);
}

void add_library(Options& options, LibraryArguments& library, bool required) {
  add_target(options, library.target);
  add_threads(options, library.threads, "Threads to run on [all]");
  add_model(options, library.model, "A library built by tcc, or a model (built into a temporary folder)", required);
  add_records(options, library.records);
}

}  // namespace tcc::cli
