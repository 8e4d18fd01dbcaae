#include "cli/lookup.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "cli/output.h"
#include "tcc/driver/dynamic.h"
#include "tcc/driver/gpu_target.h"
#include "tcc/driver/library.h"
#include "tcc/driver/machine_facts.h"
#include "tcc/support/files.h"
#include "tcc/support/text.h"

namespace tcc::cli {
namespace {

bool parse_int(std::string_view text, int64_t& value) {
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  return code == std::errc() && end == text.data() + text.size();
}

tl::unexpected<Error> bad_word(const char* flag, const std::string& word, const char* expected, const char* hint) {
  return make_error(ErrorClass::kUsage, fmt::format("{}: expected {}, not '{}'", flag, expected, sanitize(word)), hint);
}

// Options of zoo models that would change nothing: about a file, or about a model without this size.
Result<void> check_zoo_sizes(const ModelArguments& a) {
  constexpr std::string_view kPrefix = "zoo:";
  if (a.model.empty() || a.zoo_given.empty()) return {};
  if (!a.model.starts_with(kPrefix))
    return make_error(ErrorClass::kUsage,
                      fmt::format("{}: expected a model of the zoo, not '{}'", a.zoo_given[0], sanitize(a.model)),
                      "sizes of a file's inputs are set by --shape NAME=DIMS and --dim NAME=N");
  for (const std::string& option : a.zoo_given)
    if (auto has = onnx::check_zoo_size(a.model.substr(kPrefix.size()),
                                        option == "--zoo-precision" ? "precision" : option.substr(2));
        !has)
      return tl::make_unexpected(std::move(has).error().with_context(option));
  return {};
}

// A library is what it was built to be: options of models, targets and records would change nothing about it.
Result<void> check_library_options(const LibraryArguments& a, bool takes_frozen) {
  std::vector<std::string> given = a.model.given;
  std::erase(given, "--dim");  // the sizes of one run
  if (takes_frozen) std::erase(given, "--freeze");
  for (const auto* more : {&a.model.zoo_given, &a.target.given, &a.records.given})
    given.insert(given.end(), more->begin(), more->end());
  if (given.empty()) return {};
  return make_error(ErrorClass::kUsage,
                    fmt::format("{}: expected a model, found the library '{}', which keeps the models, records and "
                                "options that it was built with",
                                given[0], sanitize(a.model.model)),
                    fmt::format("leave {} out, or build again: tcc build MODEL {} ... -o DIR", given[0], given[0]));
}

// The sizes that only some models of the zoo have.
constexpr std::pair<const char*, int64_t ModelArguments::*> kZooSizes[] = {
    {"--image", &ModelArguments::zoo_image},
    {"--sequence", &ModelArguments::zoo_sequence},
    {"--width", &ModelArguments::zoo_width},
    {"--layers", &ModelArguments::zoo_layers},
    {"--past", &ModelArguments::zoo_past}};

}  // namespace

Result<double> parse_duration(const std::string& text) {
  double seconds = 0;
  std::string_view rest = text;
  bool valid = !rest.empty();
  while (valid && !rest.empty()) {
    double number = 0;
    auto [end, code] = std::from_chars(rest.data(), rest.data() + rest.size(), number, std::chars_format::fixed);
    valid = code == std::errc() && number >= 0;
    rest.remove_prefix(valid ? static_cast<size_t>(end - rest.data()) : 0);
    const char unit = rest.empty() ? 's' : rest.front();
    valid = valid && (unit == 's' || unit == 'm' || unit == 'h');
    if (!rest.empty()) rest.remove_prefix(1);
    seconds += number * (unit == 'h' ? 3600 : unit == 'm' ? 60 : 1);
  }
  if (!valid || !(seconds > 0)) return bad_word("--time", text, "a time above 0", "write it as 90s, 10m or 1h30m");
  return seconds;
}

Result<int64_t> parse_record(const char* flag, const std::string& text) {
  int64_t id = 0;
  if (!parse_int(text, id) || id < 0)
    return bad_word(flag, text, "the number of a record", "`tcc explain` and `tcc db export` name records");
  return id;
}

Result<std::map<std::string, std::string>> parse_files(const char* flag, const std::vector<std::string>& words) {
  std::map<std::string, std::string> files;
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == word.size())
      return bad_word(flag, word, "NAME=FILE", "`tcc inspect` lists the names");
    if (!files.emplace(word.substr(0, equals), word.substr(equals + 1)).second)
      return bad_word(flag, word, "each name once", "leave one of the two out");
  }
  return files;
}

Result<std::map<std::string, std::string>> parse_frozen(const ModelArguments& arguments) {
  TCC_TRY(auto files, parse_files("--freeze", arguments.frozen));
  for (auto& [name, file] : files) {
    if (!file.starts_with("@"))
      return bad_word("--freeze", name + "=" + file, "NAME=@FILE.npy or NAME=@FILE.pb", "put an @ before the file");
    file.erase(0, 1);
  }
  return files;
}

Result<driver::ModelSource> parse_model(const ModelArguments& arguments) {
  TCC_TRY_VOID(check_zoo_sizes(arguments));
  driver::ModelSource source;
  source.model = arguments.model;
  source.reseed = arguments.reseed;
  source.winograd = arguments.winograd == "auto" ? driver::kAutoForm : arguments.winograd.at(0) - '0';
  source.precision = target::find_precision(arguments.precision).value();
  source.fast_math = arguments.fast_math;
  source.import_options.external_symlinks = arguments.external_symlinks;
  source.layouts = arguments.layouts == "blocked" ? driver::Layouts::kBlocked
                   : arguments.layouts == "auto"  ? driver::Layouts::kAuto
                                                  : driver::Layouts::kPlain;
  source.zoo = {arguments.zoo_batch,    arguments.zoo_image, arguments.zoo_seed,
                arguments.zoo_sequence, arguments.zoo_width, arguments.zoo_layers,
                arguments.zoo_past,     arguments.zoo_opset, onnx::find_zoo_precision(arguments.zoo_precision).value()};
  for (const std::string& word : arguments.shapes) {
    const size_t equals = word.rfind('=');
    bool valid = equals != std::string::npos && equals > 0;
    graph::Shape shape;
    std::string_view rest = valid ? std::string_view(word).substr(equals + 1) : "";
    while (valid && !rest.empty()) {
      const size_t x = std::min(rest.find('x'), rest.size());
      int64_t extent = 0;
      valid = parse_int(rest.substr(0, x), extent) && extent >= 0 && x + 1 != rest.size();
      shape.push_back(extent);
      rest.remove_prefix(std::min(x + 1, rest.size()));
    }
    if (!valid) return bad_word("--shape", word, "NAME=1x3x224x224", "`tcc inspect` lists the inputs");
    if (!source.import_options.input_shapes.emplace(word.substr(0, equals), shape).second)
      return bad_word("--shape", word, "each name once", "leave one of the two out");
  }
  for (const std::string& word : arguments.dims) {
    const size_t equals = word.rfind('=');
    int64_t extent = 0;
    if (equals == std::string::npos || equals == 0)
      return bad_word("--dim", word, "NAME=8 or NAME=1..64@8,32", "give a number from 0 on, or a range");
    const std::string name = word.substr(0, equals), size = word.substr(equals + 1);
    const bool ranged =
        std::any_of(source.ranges.begin(), source.ranges.end(), [&](const auto& range) { return range.name == name; });
    if (ranged || source.import_options.dims.contains(name))
      return bad_word("--dim", word, "each name once", "leave one of the two out");
    if (size.find("..") != std::string::npos || size.find('@') != std::string::npos) {
      TCC_TRY(auto range, driver::parse_range(name, size));
      source.ranges.push_back(std::move(range));
      continue;
    }
    if (!parse_int(size, extent) || extent < 0)
      return bad_word("--dim", word, "NAME=8 or NAME=1..64@8,32", "give a number from 0 on, or a range");
    source.import_options.dims.emplace(name, extent);
  }
  TCC_TRY(source.frozen, parse_frozen(arguments));
  return source;
}

Result<std::vector<ModelArguments>> arguments_of_each(const ModelArguments& all,
                                                      const std::vector<std::string>& models) {
  std::vector<ModelArguments> each(models.size(), all);
  for (size_t i = 0; i < models.size(); ++i) each[i].model = models[i];
  for (const auto& [option, field] : kZooSizes) {
    if (std::count(all.zoo_given.begin(), all.zoo_given.end(), option) == 0) continue;
    Result<void> none;
    size_t without = 0;
    for (ModelArguments& one : each) {
      ModelArguments only = one;
      only.zoo_given = {option};
      none = check_zoo_sizes(only);
      if (none) continue;
      one.*field = ModelArguments().*field;
      std::erase(one.zoo_given, option);
      ++without;
    }
    if (!each.empty() && without == each.size()) return tl::make_unexpected(std::move(none).error());
  }
  return each;
}

Result<driver::Model> open_model(const ModelArguments& arguments) {
  TCC_TRY(driver::ModelSource source, parse_model(arguments));
  Stopwatch watch;
  TCC_TRY(driver::Model model, driver::load_model(source));
  spdlog::info("loaded {} in {}: {} nodes, hash {}", sanitize(source.model), format_duration(watch.seconds()),
               model.graph.order.size(), model.hash);
  for (const std::string& note : onnx::import_notes(model.graph)) print_warning(note);
  return model;
}

driver::GpuSources gpu_sources(const TargetArguments& arguments) {
  return {arguments.cuda_driver, cache_folder()};
}

Result<target::Target> open_target(const TargetArguments& arguments) {
  if (arguments.file.empty()) return driver::find_target(arguments.name, gpu_sources(arguments));
  TCC_TRY(std::string text, read_file(arguments.file, 1 << 20));
  auto target = target::target_from_json(text);
  if (!target) return tl::make_unexpected(std::move(target).error().with_context(sanitize(arguments.file)));
  return target;
}

Result<std::vector<target::Target>> open_targets(const TargetArguments& arguments) {
  if (arguments.file.empty()) return driver::find_targets(arguments.name, gpu_sources(arguments));
  TCC_TRY(target::Target target, open_target(arguments));
  return std::vector<target::Target>{std::move(target)};
}

Result<std::string> store_path(const std::string& db) {
  if (!db.empty()) return db;
  const char* data = std::getenv("XDG_DATA_HOME");
  if (data != nullptr && data[0] == '/') return std::string(data) + "/tcc/records.db";
  const char* home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/') return std::string(home) + "/.local/share/tcc/records.db";
  return make_error(ErrorClass::kEnvironment,
                    "no place for the tuning records: expected a folder, from / on, in XDG_DATA_HOME or HOME",
                    "name a file with --db FILE");
}

namespace {

Result<void> add_file(const std::string& path, const char* hint, Records& records) {
  if (!file_exists(path))
    return make_error(ErrorClass::kInput,
                      fmt::format("expected a file of tuning records, but '{}' does not exist", sanitize(path)), hint);
  spdlog::info("records: {}", path);
  TCC_TRY(std::unique_ptr<record::Store> store, record::Store::open(path, record::Store::Mode::kReadOnly));
  records.parts.push_back(std::move(store));
  return {};
}

Result<void> add_main_file(const std::string& db, Records& records) {
  Result<std::string> path = store_path(db);
  if (!path) {  // nowhere to look: the same as no records
    spdlog::info("no records: {}", path.error().message);
    return {};
  }
  if (!db.empty() || file_exists(*path)) return add_file(*path, "`tcc tune` makes it", records);
  spdlog::info("no records: '{}' does not exist", *path);
  return {};
}

// The parts so far are equals; the fallbacks come behind them.
Result<Records> join(Records records, const RecordArguments& arguments) {
  constexpr const char* kHint = "--also and --fallback name files that exist; `tcc tune --db FILE` makes one";
  for (const std::string& file : arguments.also) TCC_TRY_VOID(add_file(file, kHint, records));
  std::vector<record::Database*> equals;
  for (const auto& part : records.parts) equals.push_back(part.get());
  std::vector<record::Database*> order = equals;
  if (equals.size() > 1) {
    records.parts.push_back(record::make_union(std::move(equals)));
    order = {records.parts.back().get()};
  }
  for (const std::string& file : arguments.fallback) {
    TCC_TRY_VOID(add_file(file, kHint, records));
    order.push_back(records.parts.back().get());
  }
  if (order.size() > 1) records.parts.push_back(record::make_ordered_union(std::move(order)));
  if (!records.parts.empty()) records.all = records.parts.back().get();
  return records;
}

}  // namespace

Result<Records> open_records(const RecordArguments& arguments) {
  Records records;
  TCC_TRY_VOID(add_main_file(arguments.db, records));
  return join(std::move(records), arguments);
}

Result<Records> open_other_records(const RecordArguments& arguments) {
  return join({}, arguments);
}

Result<OpenTasks> open_tasks(const TaskArguments& arguments) {
  OpenTasks open;
  TCC_TRY(open.target, open_target(arguments.target));
  TCC_TRY(open.model, open_model(arguments.model));
  TCC_TRY(open.records, open_records(arguments.records));
  TCC_TRY(open.program,
          driver::make_program(
              open.model, open.target,
              {.store = open.records.all, .threads = threads_or_all(arguments.threads), .estimated = true}));
  return open;
}

std::string cache_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && cache[0] == '/') return std::string(cache) + "/tcc";
  const char* home = std::getenv("HOME");
  return home != nullptr && home[0] == '/' ? std::string(home) + "/.cache/tcc" : "";
}

int64_t threads_or_all(int64_t threads) {
  return threads > 0 ? threads : target::host_target().cpu.threads;
}

Result<std::map<std::string, int64_t>> library_sizes(const ModelArguments& arguments) {
  std::map<std::string, int64_t> sizes;
  if (!driver::is_library(arguments.model)) return sizes;
  for (const std::string& word : arguments.dims) {
    const size_t equals = word.rfind('=');
    int64_t size = 0;
    if (equals == std::string::npos || equals == 0 || !parse_int(std::string_view(word).substr(equals + 1), size) ||
        !sizes.emplace(word.substr(0, equals), size).second)
      return bad_word("--dim", word, "NAME=8, each name once", "a library has its ranges: give the size of this run");
  }
  return sizes;
}

Result<LibraryOnDisk> find_library(const LibraryArguments& arguments, bool quiet, bool takes_frozen) {
  if (driver::is_library(arguments.model.model)) {
    if (!file_exists(arguments.model.model))
      return make_error(ErrorClass::kInput,
                        fmt::format("expected a library, but '{}' does not exist", sanitize(arguments.model.model)),
                        "check the name; `tcc build` makes libraries");
    TCC_TRY_VOID(check_library_options(arguments, takes_frozen));
    return LibraryOnDisk{arguments.model.model, nullptr};
  }
  TCC_TRY(driver::Model model, open_model(arguments.model));
  TCC_TRY(const Records records, open_records(arguments.records));
  TCC_TRY(auto created, TemporaryDirectory::create("tcc-"));
  std::shared_ptr<TemporaryDirectory> folder = std::move(created);
  driver::BuildOptions options;
  options.folder = folder->path();
  options.store = records.all;
  options.threads = threads_or_all(arguments.threads);
  TCC_TRY(target::Target target, open_target(arguments.target));
  options.targets = {std::move(target)};
  Stopwatch watch;
  TCC_TRY(driver::BuildReport report, driver::build_model(model, options));
  spdlog::info("built {} in {}", report.package.library, format_duration(watch.seconds()));
  int64_t untuned = 0;
  for (const driver::KernelChoice& kernel : report.kernels) untuned += kernel.tuned ? 0 : 1;
  if (untuned > 0)
    remark(quiet,
           fmt::format("{} of {} {} not tuned; `tcc tune` makes them faster", untuned,
                       plural(static_cast<int64_t>(report.kernels.size()), "kernel"), untuned == 1 ? "is" : "are"));
  return LibraryOnDisk{report.package.library, folder};
}

void remeasure_device(double rate, bool quiet) {
  const driver::MachineFactsOptions options{cache_folder(), false, driver::kBriefProbe};
  if (options.folder.empty()) return;
  auto facts = driver::machine_facts(options);
  if (!facts || facts->file.empty()) return;  // what cannot be kept was said when the command began
  facts->notes.clear();
  facts = driver::remeasure_if_beaten(std::move(*facts), rate, options);
  if (!facts) return;
  for (const std::string& note : facts->notes) remark(quiet, "note: " + note);
}

std::optional<target::Target> measured_device(bool quiet) {
  const std::string folder = cache_folder();
  if (folder.empty()) return std::nullopt;
  const auto facts = driver::machine_facts({folder, false, driver::kBriefProbe});
  if (!facts) {
    print_warning(fmt::format("records will name this machine's nominal rates: {}", facts.error().message));
    return std::nullopt;
  }
  for (const std::string& note : facts->notes) remark(quiet, "note: " + note);
  remark(quiet, fmt::format("machine: {:.0f} GFLOP/s, memory {:.1f} GB/s, parallel launch {:.1f} us ({})",
                            facts->probe.fp32.all_cores / 1e9, facts->probe.dram_read.all_cores / 1e9,
                            facts->fork_join_seconds * 1e6,
                            facts->cached ? "kept from an earlier run"
                                          : fmt::format("measured now, in {}", format_seconds(facts->seconds))));
  return facts->target;
}

}  // namespace tcc::cli
