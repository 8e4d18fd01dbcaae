// Stored traces still make the code that they made. A difference is either a mistake or a change that the commit
// explains: TCC_UPDATE_REPLAY=1 writes the new hashes into the files (the traces in them stay as they are, in the
// format of the time when they were made).
//
// To see what changed, run the cases before and after with TCC_REPLAY_DUMP=<folder>: every generated text is written to
// <folder>/<trace>.txt, and `diff -r` shows the rest.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>

#include "stored.h"
#include "tcc/codegen/llvm.h"
#include "tcc/ir/text.h"
#include "tcc/support/files.h"
#include "tcc/support/hash.h"

using namespace tcc;
using namespace tcc::testing;

namespace {

const std::string kFolder = std::string(TCC_SOURCE_DIR) + "/tests/replay/traces";

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::vector<std::string> stored_paths() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder))
    if (entry.path().extension() == ".json") paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  return paths;
}

void write_text(const std::string& folder, const std::string& name, const std::string& text) {
  REQUIRE(make_directories(folder).has_value());
  REQUIRE(write_file(folder + "/" + name + ".txt", text).has_value());
}

// Compares one file's hashes with what is generated now.
void check_file(const std::string& path) {
  const std::string name = std::filesystem::path(path).stem().string();
  INFO(name);
  auto stored = read_stored(path);
  if (!stored) FAIL(stored.error().message);
  auto target = stored_target(stored->target);
  if (!target) FAIL(target.error().message);
  if (!can_generate(*target)) return;
  auto kernel = ir::parse(stored->kernel, path);
  if (!kernel) FAIL(kernel.error().message);
  auto trace = schedule::trace_from_json(stored->trace, path);
  if (!trace) FAIL(trace.error().message);
  auto code = generate_code(*kernel, *trace, *target);
  if (!code) FAIL(name << ": " << code.error().message);
  if (const std::string dump = setting("TCC_REPLAY_DUMP"); !dump.empty()) write_text(dump, name, code->text);
  const std::string text = fmt::format("{:016x}", hash_bytes(code->text));
  const std::string hashes = hashes_of(*trace, *kernel, code->nest);
  if (setting("TCC_UPDATE_REPLAY") == "1") {
    stored->code = text;
    stored->hashes = hashes;
    REQUIRE(write_file(path, print_stored(*stored)).has_value());
    return;
  }
  // Record files hold these: the first two may never change, the last only where lowering to Nest does.
  CHECK(stored->hashes == hashes);
  auto again = schedule::trace_from_json(schedule::trace_to_json(*trace), path);
  if (!again) FAIL(again.error().message);
  CHECK(*again == *trace);
  if (stored->code == text) return;
  const std::string folder = std::string(TCC_BINARY_DIR) + "/replay";
  write_text(folder, name, code->text);
  FAIL_CHECK(name << " (" << stored->workload << " on " << stored->target << "): expected code with the hash "
                  << stored->code << ", found " << text << "; the code is in " << folder << "/" << name
                  << ".txt; run with TCC_REPLAY_DUMP=<folder> on both versions and compare the folders");
}

}  // namespace

TEST_CASE("stored traces make the code that they made", "[replay]") {
  const std::vector<std::string> paths = stored_paths();
  CHECK(paths.size() >= 60);
  if (!codegen::has_llvm()) WARN("no LLVM: traces for CPUs are not compared");
  for (const std::string& path : paths) check_file(path);
}

TEST_CASE("a stored trace says what is wrong with it", "[replay]") {
  auto target = stored_target("x86-64-v3 +avx9");
  REQUIRE_FALSE(target.has_value());
  CHECK(target.error().message.find("unknown change '+avx9'") != std::string::npos);
  auto amx = stored_target("x86-64-v4 +amx_tile +amx_bf16");
  REQUIRE(amx.has_value());
  CHECK(amx->cpu.features.amx_bf16);
  auto h200 = stored_target("h200 sm_count=2");
  REQUIRE(h200.has_value());
  CHECK(h200->cuda.sm_count == 2);
}
