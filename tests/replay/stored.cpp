#include "stored.h"

#include <nlohmann/json.hpp>

#include "codegen/cuda/prelude.h"
#include "tcc/codegen/cuda.h"
#include "tcc/codegen/llvm.h"
#include "tcc/lower/lower.h"
#include "tcc/support/files.h"
#include "tcc/support/text.h"

namespace tcc::testing {

using Json = nlohmann::ordered_json;

std::string print_stored(const StoredTrace& stored) {
  Json lines = Json::array();
  for (size_t at = 0; at < stored.kernel.size();) {
    const size_t end = stored.kernel.find('\n', at);
    lines.push_back(stored.kernel.substr(at, end - at));
    at = end + 1;
  }
  // One line for the trace, one for each line of the kernel: small files whose differences can be read.
  std::string text = "{\n";
  auto field = [&](const char* name, const std::string& value) { text += fmt::format("  \"{}\": {},\n", name, value); };
  field("workload", Json(stored.workload).dump());
  field("target", Json(stored.target).dump());
  field("code", Json(stored.code).dump());
  field("hashes", Json(stored.hashes).dump());
  field("covers", Json(stored.covers).dump());
  field("trace", Json::parse(stored.trace).dump());
  text += "  \"kernel\": [\n";
  for (size_t i = 0; i < lines.size(); ++i)
    text += fmt::format("    {}{}\n", lines[i].dump(), i + 1 < lines.size() ? "," : "");
  return text + "  ]\n}\n";
}

Result<StoredTrace> read_stored(const std::string& path) {
  TCC_TRY(std::string text, read_file(path));
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return input_error("{}: expected a JSON object", path);
  StoredTrace out;
  try {
    out.workload = json.at("workload");
    out.target = json.at("target");
    out.code = json.at("code");
    out.hashes = json.at("hashes");
    out.covers = json.at("covers").get<std::vector<std::string>>();
    out.trace = json.at("trace").dump();
    for (const Json& line : json.at("kernel")) out.kernel += line.get<std::string>() + "\n";
  } catch (const Json::exception& e) {
    return input_error("{}: {}", path, e.what());
  }
  return out;
}

Result<target::Target> stored_target(const std::string& text) {
  std::vector<std::string> words;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  TCC_TRY(target::Target target, target::find_target(words.at(0)));
  target.name = text;
  for (size_t i = 1; i < words.size(); ++i) {
    bool known = false;
#define TCC_X(field, llvm) \
  if (words[i] == "+" #field) known = target.cpu.features.field = true;
    TCC_CPU_FEATURES(TCC_X)
#undef TCC_X
    if (words[i].starts_with("sm_count=")) {
      target.cuda.sm_count = std::stoll(words[i].substr(9));
      known = true;
    }
    if (!known) return input_error("target '{}': unknown change '{}'", text, words[i]);
  }
  return target;
}

Result<Generated> generate_code(const ir::Kernel& start, const schedule::Trace& trace, const target::Target& target) {
  auto rejected = [](const char* step, const ir::Reject& r) {
    return input_error("{}: {}: {}", step, ir::reject_reason_name(r.reason), r.text);
  };
  auto arena = std::make_shared<Arena>();
  auto scheduled = schedule::replay(trace, trace.decisions, start, arena);
  if (!scheduled) return rejected("replay", scheduled.error());
  auto nest = lower::lower(*scheduled, target, ir::Stage::kNest, arena);
  if (!nest) return rejected("lowering to nest", nest.error());
  auto lowered = lower::lower(*nest, target, ir::Stage::kLowered, arena);
  if (!lowered) return rejected("lowering", lowered.error());
  Generated out{*nest, *lowered, {}};
  if (target.is_cpu()) {
    TCC_TRY(out.text, codegen::emit_llvm_ir(*lowered, target));
  } else {
    TCC_TRY(codegen::CudaSource source, codegen::emit_cuda_source(*lowered, target));
    out.text = codegen::cuda::without_unused(source.text);
  }
  return out;
}

std::string hashes_of(const schedule::Trace& trace, const ir::Kernel& start, const ir::Kernel& nest) {
  return fmt::format("{:016x} {:016x} {:016x}", schedule::skeleton_hash(trace), ir::hash_kernel(start),
                     ir::hash_kernel(nest));
}

bool can_generate(const target::Target& target) {
  return target.is_cuda() || codegen::has_llvm();
}

}  // namespace tcc::testing
