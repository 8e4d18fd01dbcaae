#include "tcc/package/package.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>

#include "library_file.h"
#include "linker.h"
#include "model_data.h"
#include "tcc/rt/blob.h"
#include "tcc/support/check.h"
#include "tcc/support/files.h"
#include "tcc/support/text.h"

namespace tcc::package {
namespace {

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

Result<void> check_id(const std::string& id) {
  bool valid = !id.empty() && id.size() <= 64 && is_letter(id[0]) &&
               std::all_of(id.begin(), id.end(), [](char c) { return is_letter(c) || is_digit(c) || c == '_'; });
  if (valid) return {};
  return make_error(ErrorClass::kInput, fmt::format("'{}' cannot name a library", sanitize(id)),
                    fmt::format("use letters, digits and underscores, for example {}", make_id(id)));
}

// A folder inside the output folder, so that big objects land on the same disk and the result can be renamed.
class ScratchFolder {
 public:
  static Result<std::unique_ptr<ScratchFolder>> create(const std::string& folder) {
    std::string pattern = folder + "/.tcc-build-XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) {
      return make_error(ErrorClass::kEnvironment, fmt::format("cannot write in '{}': {}", folder, std::strerror(errno)),
                        "choose another folder with -o");
    }
    return std::unique_ptr<ScratchFolder>(new ScratchFolder(pattern));
  }
  ~ScratchFolder() {
    std::error_code ignored;  // a left-over scratch folder is not worth failing for
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

void check_plan(const PackagePlan& plan) {
  TCC_CHECK(plan.graph != nullptr && plan.groups != nullptr && plan.memory != nullptr && plan.tasks != nullptr);
  TCC_CHECK(plan.tasks->bindings.size() == plan.groups->size());
  auto check_codes = [&](const std::vector<TaskCode>& codes, std::set<std::string> symbols = {}) {
    TCC_CHECK(codes.size() == plan.tasks->tasks.size(), "{} codes for {} tasks", codes.size(),
              plan.tasks->tasks.size());
    for (const TaskCode& code : codes)
      for (const codegen::Launch& launch : code.artifact.launches)
        TCC_CHECK(symbols.insert(launch.symbol).second, "two tasks define {}", launch.symbol);
    return symbols;
  };
  if (plan.architectures.empty()) {
    std::set<std::string> symbols = check_codes(plan.codes);
    for (const ArchitectureCode& cpu : plan.older) symbols = check_codes(cpu.codes, std::move(symbols));
    return;
  }
  TCC_CHECK(plan.codes.empty(), "a library runs on a CPU or on GPUs");
  std::set<std::pair<std::string, bool>> names;
  for (const ArchitectureCode& architecture : plan.architectures) {
    check_codes(architecture.codes);
    TCC_CHECK(names.emplace(target::sm_name(architecture.target), architecture.ptx).second, "an architecture twice");
  }
}

Result<std::string> link_objects(const PackagePlan& plan, const ModelLayout& layout, const PackageOptions& options,
                                 const std::string& metadata, const std::string& scratch) {
  LinkRequest request;
  request.scratch = scratch;
  request.output = scratch + "/library.so";
  request.soname = fmt::format("lib{}.so", options.id);
  request.exported = fmt::format("tcc_{}_query", options.id);
  request.objects = {scratch + "/model.o", scratch + "/rt.o"};
  TCC_TRY_VOID(write_model_object(plan, layout, options.id, metadata, request.objects[0]));
  std::string_view rt(reinterpret_cast<const char*>(tcc_rt_object_begin),
                      static_cast<size_t>(tcc_rt_object_end - tcc_rt_object_begin));
  TCC_TRY_VOID(write_file(request.objects[1], rt));
  size_t number = 0;
  auto add_kernels = [&](const std::vector<TaskCode>& codes) -> Result<void> {
    for (const TaskCode& code : codes) {
      request.objects.push_back(fmt::format("{}/kernel_{}.o", scratch, number++));
      TCC_TRY_VOID(write_file(request.objects.back(), code.artifact.code));
    }
    return {};
  };
  TCC_TRY_VOID(add_kernels(plan.codes));
  for (const ArchitectureCode& cpu : plan.older) TCC_TRY_VOID(add_kernels(cpu.codes));
  TCC_TRY(std::string linker, link_library(request, options.linker));
  TCC_TRY_VOID(seal_library(request.output));
  return linker;
}

class FileWriter {
 public:
  FileWriter(const std::string& folder, PackageReport& report) : folder_(folder), report_(report) {}
  Result<void> write(const std::string& name, const std::string& text) {
    std::string path = folder_ + "/" + name;
    TCC_TRY_VOID(write_file(path, text));
    report_.files.push_back(path);
    return {};
  }

 private:
  const std::string& folder_;
  PackageReport& report_;
};

// The objects that the library is linked from besides the kernels: a program may link all of them into itself.
Result<void> keep_objects(const std::string& scratch, const std::string& folder, PackageReport& report) {
  for (const char* name : {"model.o", "rt.o"}) {
    const std::string to = folder + "/kernels/" + name;
    if (std::rename((scratch + "/" + name).c_str(), to.c_str()) != 0)
      return make_error(ErrorClass::kEnvironment, fmt::format("cannot write '{}': {}", to, std::strerror(errno)),
                        "choose another folder with -o");
    report.files.push_back(to);
  }
  return {};
}

// What a task's code is made of besides the code itself.
Result<void> write_parts(const TaskCode& code, const Emit& emit, const std::string& base, FileWriter& writer) {
  if (emit.ir) TCC_TRY_VOID(writer.write(base + ".tir", code.ir));
  if (emit.traces && !code.trace.empty()) TCC_TRY_VOID(writer.write(base + ".trace.json", code.trace));
  return {};
}

Result<void> write_architecture(const PackagePlan& plan, const ArchitectureCode& architecture, const Emit& emit,
                                FileWriter& writer) {
  if (architecture.ptx) return {};  // of programs that are written as those of their own architecture
  for (size_t i = 0; i < architecture.codes.size(); ++i) {
    const TaskCode& code = architecture.codes[i];
    const std::string base =
        fmt::format("kernels/{}.{}", plan.tasks->tasks[i].key, target::sm_name(architecture.target));
    if (emit.cuda) TCC_TRY_VOID(writer.write(base + ".cu", code.artifact.source));
    if (emit.cubin) TCC_TRY_VOID(writer.write(base + ".cubin", code.artifact.code));
    if (emit.ptx) TCC_TRY_VOID(writer.write(base + ".ptx", code.ptx_text));
    TCC_TRY_VOID(write_parts(code, emit, base, writer));
  }
  return {};
}

// `of`: behind the tasks' keys, in the names of files.
Result<void> write_host_kernels(const PackagePlan& plan, const std::vector<TaskCode>& codes, const std::string& of,
                                const Emit& emit, FileWriter& writer) {
  for (size_t i = 0; i < codes.size(); ++i) {
    const TaskCode& code = codes[i];
    const std::string base = "kernels/" + plan.tasks->tasks[i].key + of;
    if (emit.objects) TCC_TRY_VOID(writer.write(base + ".o", code.artifact.code));
    if (emit.llvm)
      TCC_TRY_VOID(writer.write(fmt::format("{}{}", base, code.artifact.source_ending), code.artifact.source));
    if (emit.assembly) TCC_TRY_VOID(writer.write(base + ".s", code.assembly));
    TCC_TRY_VOID(write_parts(code, emit, base, writer));
  }
  return {};
}

Result<void> write_kernels(const PackagePlan& plan, const PackageOptions& options, FileWriter& writer) {
  const Emit& emit = options.emit;
  const bool on_gpu = emit.cuda || emit.cubin || emit.ptx;
  if (!emit.objects && !emit.llvm && !emit.assembly && !emit.ir && !emit.traces && !on_gpu) return {};
  const std::string folder = options.folder + "/kernels";
  std::error_code none;
  if (std::filesystem::is_symlink(folder, none))
    return make_error(ErrorClass::kInput, fmt::format("'{}': expected a folder, found a link", folder),
                      "remove the link, or name another folder with -o");
  TCC_TRY_VOID(make_directories(folder));
  for (const ArchitectureCode& architecture : plan.architectures)
    TCC_TRY_VOID(write_architecture(plan, architecture, emit, writer));
  TCC_TRY_VOID(write_host_kernels(plan, plan.codes, "", emit, writer));
  for (const ArchitectureCode& cpu : plan.older)
    TCC_TRY_VOID(write_host_kernels(plan, cpu.codes, "." + cpu.target.name, emit, writer));
  return {};
}

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  return text;
}

}  // namespace

const char* origin_name(Origin origin) {
  constexpr const char* kNames[] = {"default", "measured", "predicted"};
  return kNames[static_cast<size_t>(origin)];
}

std::string make_id(const std::string& text) {
  std::string id;
  for (char c : text) {
    if (is_letter(c) || is_digit(c))
      id += c;
    else if (!id.empty() && id.back() != '_')
      id += '_';
  }
  while (!id.empty() && id.back() == '_') id.pop_back();
  if (!id.empty() && !is_letter(id[0])) id = "model_" + id;
  return id.empty() ? "model" : id.substr(0, 64);
}

Result<PackageReport> build_library(const PackagePlan& plan, const PackageOptions& options) {
  check_plan(plan);
  TCC_TRY_VOID(check_id(options.id));
  TCC_TRY_VOID(make_directories(options.folder));
  TCC_TRY(auto scratch, ScratchFolder::create(options.folder));
  TCC_TRY(ModelLayout layout, place_model(plan));
  std::string metadata = make_metadata(plan, layout, options);

  PackageReport report;
  TCC_TRY(report.linker, link_objects(plan, layout, options, metadata, scratch->path()));
  report.library = fmt::format("{}/lib{}.so", options.folder, options.id);
  std::string linked = scratch->path() + "/library.so";
  if (std::rename(linked.c_str(), report.library.c_str()) != 0) {
    return make_error(ErrorClass::kEnvironment,
                      fmt::format("cannot write '{}': {}", report.library, std::strerror(errno)),
                      "choose another folder with -o, or move away what is in the place of the library");
  }
  std::error_code code;
  report.library_bytes = static_cast<int64_t>(std::filesystem::file_size(report.library, code));
  if (code)
    return make_error(ErrorClass::kEnvironment,
                      fmt::format("cannot read back '{}': {}", report.library, code.message()),
                      "was it moved meanwhile? Build it again");
  report.weights_bytes = layout.weights_bytes;
  report.workspace_bytes = layout.workspace_bytes;
  report.files.push_back(report.library);

  FileWriter writer(options.folder, report);
  const std::string& id = options.id;
  TCC_TRY_VOID(writer.write(id + ".h", make_header(plan, layout, id)));
  TCC_TRY_VOID(writer.write(id + ".json", metadata));
  TCC_TRY_VOID(writer.write("example.c", make_example(plan, id)));
  TCC_TRY_VOID(writer.write(id + ".pc", make_pkg_config(options)));
  // CMake looks for the lower-case name whatever the package is called.
  TCC_TRY_VOID(writer.write(lower_case(id) + "-config.cmake", make_cmake_config(id)));
  TCC_TRY_VOID(write_kernels(plan, options, writer));
  if (options.emit.objects) TCC_TRY_VOID(keep_objects(scratch->path(), options.folder, report));
  return report;
}

}  // namespace tcc::package
