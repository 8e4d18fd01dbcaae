// Targets as JSON, for --target-file and for records.
//
// Reading starts from a base (a named target, the limits of the compute capability, or a bare x86-64), applies the
// keys given, derives what follows from them where it was not given, and then checks the whole.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <nlohmann/json.hpp>

#include "target/cpu_targets.h"
#include "target/gpu_descriptors.h"
#include "tcc/support/text.h"
#include "tcc/target/target.h"

namespace tcc::target {
namespace {

using Json = nlohmann::ordered_json;

// T is a U, or a constant one.
template <class T, class U>
concept As = std::same_as<std::remove_const_t<T>, U>;

std::string_view kind_name(TargetKind kind) {
  constexpr std::string_view kNames[] = {"cpu", "cuda"};
  return static_cast<size_t>(kind) < std::size(kNames) ? kNames[static_cast<size_t>(kind)] : "other";
}

// One list of fields of each part serves reading, writing and checking: fn(name, member, smallest allowed value). A
// member may be a part itself.
void visit(As<CpuFeatures> auto& f, auto&& fn) {
#define TCC_VISIT(field, llvm) fn(#field, f.field, 0);
  TCC_CPU_FEATURES(TCC_VISIT)
#undef TCC_VISIT
}
void visit(As<CudaFeatures> auto& f, auto&& fn) {
#define TCC_VISIT(field) fn(#field, f.field, 0);
  TCC_CUDA_FEATURES(TCC_VISIT)
#undef TCC_VISIT
}
void visit(As<CoreModel> auto& core, auto&& fn) {
#define TCC_VISIT(field, value, least) fn(#field, core.field, least);
  TCC_CORE_MODEL(TCC_VISIT)
#undef TCC_VISIT
}
void visit(As<SmModel> auto& model, auto&& fn) {
#define TCC_VISIT(field, value, least, meaning, source) fn(#field, model.field, least);
  TCC_SM_MODEL(TCC_VISIT)
#undef TCC_VISIT
}
void visit(As<CpuInfo> auto& cpu, auto&& fn) {
  fn("vector_bits", cpu.vector_bits, 128);
  fn("num_vector_registers", cpu.num_vector_registers, 8);
  fn("cores", cpu.cores, 1);
  fn("threads", cpu.threads, 1);
  fn("l1_bytes", cpu.l1_bytes, 1024);
  fn("l2_bytes", cpu.l2_bytes, 1024);
  fn("l3_bytes", cpu.l3_bytes, 0);
  fn("cache_line_bytes", cpu.cache_line_bytes, 16);
  fn("core", cpu.core, 0);
  fn("features", cpu.features, 0);
}
void visit(As<CudaInfo> auto& cuda, auto&& fn) {
  fn("sm_arch", cuda.sm_arch, 37);
  fn("sm_suffix", cuda.sm_suffix, 0);
  fn("sm_count", cuda.sm_count, 1);
  fn("warp_size", cuda.warp_size, 32);
  fn("schedulers_per_sm", cuda.schedulers_per_sm, 1);
  fn("fp32_lanes_per_sm", cuda.fp32_lanes_per_sm, 1);
  fn("max_threads_per_block", cuda.max_threads_per_block, 32);
  fn("max_threads_per_sm", cuda.max_threads_per_sm, 32);
  fn("max_blocks_per_sm", cuda.max_blocks_per_sm, 1);
  fn("registers_per_sm", cuda.registers_per_sm, 1024);
  fn("registers_per_block", cuda.registers_per_block, 1024);
  fn("max_registers_per_thread", cuda.max_registers_per_thread, 16);
  fn("register_allocation_unit", cuda.register_allocation_unit, 1);
  fn("shared_per_block", cuda.shared_per_block, 1024);
  fn("shared_per_block_optin", cuda.shared_per_block_optin, 1024);
  fn("shared_per_sm", cuda.shared_per_sm, 1024);
  fn("shared_reserved_per_block", cuda.shared_reserved_per_block, 0);
  fn("shared_allocation_unit", cuda.shared_allocation_unit, 1);
  fn("shared_banks", cuda.shared_banks, 1);
  fn("l2_bytes", cuda.l2_bytes, 1024);
  fn("memory_transaction_bytes", cuda.memory_transaction_bytes, 1);
  fn("launch_seconds", cuda.launch_seconds, 0);
  fn("clusters_of_2", cuda.clusters_of_2, 0);
  fn("clusters_of_4", cuda.clusters_of_4, 0);
  fn("clusters_of_8", cuda.clusters_of_8, 0);
  fn("simulated", cuda.simulated, 0);
  fn("model", cuda.model, 0);
  fn("calibrated", cuda.calibrated, 0);
  fn("features", cuda.features, 0);
}
void visit(As<Peaks> auto& peak, auto&& fn) {
  fn("fp32", peak.fp32, 1);
  fn("tf32", peak.tf32, 0);
  fn("fp16", peak.fp16, 0);
  fn("bf16", peak.bf16, 0);
  fn("int8", peak.int8, 0);
}
void visit(As<Target> auto& t, auto&& fn) {
  fn("name", t.name, 0);
  fn("source", t.source, 0);
  fn("clock_hz", t.clock_hz, 1);
  fn("memory_bandwidth", t.memory_bandwidth, 1);
  fn("memory_bytes", t.memory_bytes, 1);
  fn("measured", t.measured, 0);
  fn("notes", t.notes, 0);
  fn("peak", t.peak, 0);
  if (t.is_cpu())
    fn("cpu", t.cpu, 0);
  else
    fn("cuda", t.cuda, 0);
}

// Written as the list of those that are set.
template <class T>
concept Features = As<T, CpuFeatures> || As<T, CudaFeatures>;
// Written as an object.
template <class T>
concept Part = As<T, Target> || As<T, CpuInfo> || As<T, CudaInfo> || As<T, CoreModel> || As<T, SmModel> || As<T, Peaks>;

// Collects the first problem and goes on, so that the readers stay plain.
struct Reader {
  std::string problem;

  void fail(std::string text) {
    if (problem.empty()) problem = std::move(text);
  }
  void read(const std::string& path, const Json& value, int64_t& out) {
    // Doubles are taken where they are whole: people write 1e9.
    if (value.is_number_integer()) {
      out = value.get<int64_t>();
    } else if (value.is_number_float() && std::floor(value.get<double>()) == value.get<double>() &&
               std::fabs(value.get<double>()) < 9e15) {
      out = static_cast<int64_t>(value.get<double>());
    } else {
      fail(fmt::format("'{}' must be a whole number", path));
    }
  }
  void read(const std::string& path, const Json& value, double& out) {
    if (!value.is_number()) return fail(fmt::format("'{}' must be a number", path));
    out = value.get<double>();
  }
  void read(const std::string& path, const Json& value, std::string& out) {
    if (!value.is_string()) return fail(fmt::format("'{}' must be a string", path));
    out = sanitize(value.get_ref<const std::string&>(), 2000);
  }
  void read(const std::string& path, const Json& value, bool& out) {
    if (!value.is_boolean()) return fail(fmt::format("'{}' must be true or false", path));
    out = value.get<bool>();
  }
  void read(const std::string& path, const Json& value, std::vector<std::string>& out) {
    out.clear();
    if (!value.is_array()) return fail(fmt::format("'{}' must be an array of strings", path));
    for (const Json& item : value) read(path, item, out.emplace_back());
  }
  void read(const std::string& path, const Json& list, Features auto& out) {
    std::vector<std::string> names, known;
    read(path, list, names);
    visit(out, [&](const char* name, bool& member, double) {
      known.push_back(name);
      member = std::erase(names, name) > 0;
    });
    for (const std::string& wanted : names)
      fail(fmt::format("'{}' names an unknown feature '{}'{}", path, wanted, hint(wanted, known)));
  }
  // Unknown keys are errors.
  void read(const std::string& path, const Json& object, Part auto& out) {
    if (!object.is_object()) return fail(fmt::format("'{}' must be an object", path.empty() ? "the file" : path));
    for (const auto& [key, value] : object.items()) {
      const std::string where = path.empty() ? sanitize(key, 60) : path + "." + sanitize(key, 60);
      std::vector<std::string> known;
      if (path.empty()) known = {"base", "kind"};  // which starting_point() has read
      bool found = std::find(known.begin(), known.end(), key) != known.end();
      visit(out, [&](const char* name, auto& member, double) {
        known.push_back(name);
        if (found || key != name) return;
        found = true;
        read(where, value, member);
      });
      if (!found) fail(fmt::format("unknown key '{}'{}", where, hint(key, known)));
    }
  }

 private:
  static std::string hint(const std::string& word, const std::vector<std::string>& known) {
    const std::string near = suggest(word, known);
    return near.empty() ? "" : "; " + near;
  }
};

// What is wrong with the values of a part's fields; sizes are capped so that products of two of them stay in int64.
std::string check_values(const std::string& prefix, const Part auto& part) {
  std::string problem;
  visit(part, [&]<class T>(const char* name, const T& value, double least) {
    if (!problem.empty()) return;
    if constexpr (Part<T>) {
      problem = check_values(fmt::format("{}{}.", prefix, name), value);
    } else if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, double>) {
      const auto v = static_cast<double>(value);
      if (!(v >= least && v <= 1e18))
        problem = fmt::format("'{}{}' is {} but must be {:g} to 1e18", prefix, name, value, least);
    }
  });
  return problem;
}

std::string check_cpu(const CpuInfo& cpu) {
  if (cpu.vector_bits != 128 && cpu.vector_bits != 256 && cpu.vector_bits != 512)
    return fmt::format("'cpu.vector_bits' is {} but must be 128, 256 or 512", cpu.vector_bits);
  if (cpu.vector_bits == 512 && !cpu.features.avx512f) return "'cpu.vector_bits' is 512 without the feature avx512f";
  if (cpu.vector_bits == 256 && !cpu.features.avx) return "'cpu.vector_bits' is 256 without the feature avx";
  if (cpu.cache_line_bytes & (cpu.cache_line_bytes - 1)) return "'cpu.cache_line_bytes' must be a power of two";
  return "";
}

std::string check_cuda(const CudaInfo& cuda) {
  for (const auto& [name, share] : {std::pair{"copy_share", cuda.model.copy_share},
                                    {"cache_share", cuda.model.cache_share},
                                    {"small_cache_share", cuda.model.small_cache_share},
                                    {"warp_matrix_share", cuda.model.warp_matrix_share}})
    if (share > 1) return fmt::format("'cuda.model.{}' is {} but a share is at most 1", name, share);
  if (cuda.warp_size != 32) return "'cuda.warp_size' must be 32";
  if (!cuda.sm_suffix.empty() && cuda.sm_suffix != "a") return "'cuda.sm_suffix' must be \"\" or \"a\"";
  if (cuda.shared_per_block > cuda.shared_per_block_optin)
    return "'cuda.shared_per_block_optin' must not be smaller than 'cuda.shared_per_block'";
  if (cuda.shared_per_block_optin > cuda.shared_per_sm)
    return "'cuda.shared_per_sm' must not be smaller than 'cuda.shared_per_block_optin'";
  return "";
}

std::string check_target(const Target& t) {
  const std::string problem = check_values("", t);
  if (!problem.empty()) return problem;
  return t.is_cpu() ? check_cpu(t.cpu) : check_cuda(t.cuda);
}

tl::unexpected<Error> file_error(const std::string& problem, std::string hint = {}) {
  if (hint.empty()) hint = "'tcc targets --json NAME' prints a complete example";
  return make_error(ErrorClass::kInput, "target description: " + problem, hint);
}

// What the given keys build on: "base", else the compute capability, else a bare x86-64.
Result<Target> starting_point(const Json& json) {
  if (json.contains("base")) {
    if (!json["base"].is_string()) return file_error("'base' must be the name of a target");
    auto base = find_target(json["base"].get<std::string>());
    if (!base) return file_error("'base': " + base.error().message, base.error().hint);
    base->source += "; changed by a target file";
    return base;
  }
  const bool cuda = json.contains("cuda");
  if (!json.contains("kind") && cuda == json.contains("cpu"))
    return file_error("it needs a 'base', or exactly one of 'cpu' and 'cuda'");
  if (json.contains("kind") && json["kind"] != "cpu" && json["kind"] != "cuda")
    return file_error("'kind' must be \"cpu\" or \"cuda\"");
  if (json.contains("kind") ? json["kind"] == "cpu" : !cuda) {
    Target t;
    t.source = "target file";
    return t;
  }
  if (!cuda || !json["cuda"].is_object() || !json["cuda"].contains("sm_arch") ||
      !json["cuda"]["sm_arch"].is_number_integer())
    return file_error("'cuda.sm_arch' is needed, for example 80 for compute capability 8.0");
  auto t = cuda_target_for(json["cuda"]["sm_arch"].get<int64_t>());
  if (!t) return file_error(t.error().message, t.error().hint);
  t->source = "target file; limits of the compute capability";
  return t;
}

// What follows from the keys given, where it is not given itself.
void derive(const Json& json, Target& t) {
  const Json none = Json::object();
  const Json& cpu = json.contains("cpu") ? json["cpu"] : none;
  const Json& cuda = json.contains("cuda") ? json["cuda"] : none;
  if (cpu.contains("features")) {
    CpuInfo derived = t.cpu;
    set_vector_shape(derived);
    if (!cpu.contains("vector_bits")) t.cpu.vector_bits = derived.vector_bits;
    if (!cpu.contains("num_vector_registers")) t.cpu.num_vector_registers = derived.num_vector_registers;
  }
  if ((cuda.contains("sm_arch") || cuda.contains("sm_suffix")) && !cuda.contains("features"))
    t.cuda.features = cuda_features(t.cuda.sm_arch, t.cuda.sm_suffix);
}

Json to_json(const Part auto& part) {
  Json json;
  visit(part, [&]<class T>(const char* name, const T& member, double) {
    if constexpr (Features<T>) {
      json[name] = Json::array();
      visit(member, [&](const char* feature, bool set, double) {
        if (set) json[name].push_back(feature);
      });
    } else if constexpr (Part<T>) {
      json[name] = to_json(member);
    } else {
      json[name] = member;
    }
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(part)>, Target>)
      if (json.size() == 1) json["kind"] = kind_name(part.kind);  // right after the name
  });
  return json;
}

}  // namespace

Result<Target> target_from_json(std::string_view text) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::parse_error& error) {  // the library's only way to tell the position
    return file_error(fmt::format("not JSON at byte {}: {}", error.byte, sanitize(error.what())));
  } catch (const Json::exception& error) {  // a number that a double cannot hold, as 1e999
    return file_error(fmt::format("a value is out of range: {}", sanitize(error.what())),
                      "give numbers that a double holds, below 1.8e308");
  }
  if (!json.is_object()) return file_error("the file must hold one JSON object");
  TCC_TRY(Target t, starting_point(json));
  if (!json.contains("name")) return file_error("'name' is missing", "give the machine a name of its own");

  if (json.contains("kind") && json["kind"] != kind_name(t.kind))
    return file_error("'kind' does not agree with the base");
  for (const char* other : {"cpu", "cuda"})
    if (json.contains(other) && other != kind_name(t.kind))
      return file_error(fmt::format("'{}' does not belong to a {} target", other, kind_name(t.kind)));

  const bool peak_given = json.contains("peak");
  Reader reader;
  reader.read("", json, t);
  if (!reader.problem.empty()) return file_error(reader.problem);
  derive(json, t);
  if (t.name.empty() || t.name.size() > 64) return file_error("'name' must have 1 to 64 characters");

  // Rates of a CPU that the file leaves out follow from its cores and width; a GPU has to state them.
  if (t.is_cpu() && !json.contains("base")) {
    Target nominal = t;
    set_nominal_rates(nominal);
    if (!peak_given) t.peak = nominal.peak;
    if (!json.contains("clock_hz")) t.clock_hz = nominal.clock_hz;
    if (!json.contains("memory_bandwidth")) t.memory_bandwidth = nominal.memory_bandwidth;
    if (!peak_given || !json.contains("clock_hz") || !json.contains("memory_bandwidth"))
      t.notes.push_back("rates that the target file leaves out are nominal");
    if (!json.contains("memory_bytes")) {
      t.memory_bytes = int64_t{4} << 30;
      t.notes.push_back("the memory size is not given: 4 GiB assumed");
    }
  }
  if (const std::string problem = check_target(t); !problem.empty()) return file_error(problem);
  return t;
}

std::string target_to_json(const Target& target) {
  return to_json(target).dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tcc::target
