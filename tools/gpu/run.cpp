#include "gpu/run.h"

#include <algorithm>
#include <cstdio>

namespace tcc::gpu_check {

CodeRequest Run::code() const {
  std::string prefix = step;
  std::replace(prefix.begin(), prefix.end(), '-', '_');
  return {prefix, options.nvrtc};
}

Result<void> Run::row(const Row& r) {
  std::printf("%-44s %12.6g %s", r.name.c_str(), r.value, r.unit.c_str());
  if (!r.peer.empty())
    std::printf("   %s %.6g (%.3f)", r.peer.c_str(), r.peer_value, r.peer_value != 0 ? r.value / r.peer_value : 0);
  std::printf("\n");
  std::fflush(stdout);
  return results.add(r);
}
void Run::fail(const std::string& text) {
  failures.push_back(text);
  std::fprintf(stderr, "FAILED %s\n", text.c_str());
}
void Run::absent(const std::string& text) {
  if (std::find(absences.begin(), absences.end(), text) != absences.end()) return;
  absences.push_back(text);
  std::printf("absent: %s\n", text.c_str());
}

std::string text_of(const Error& error) {
  std::string text = error.message;
  for (const std::string& note : error.notes) text += "\n  " + note;
  return error.hint.empty() ? text : text + "\n  " + error.hint;
}

Result<void> know_copy_rate(Run& run) {
  for (const Row& row : run.results.rows())
    if (row.name == "copy" && run.copy_rate == 0) run.copy_rate = row.value * 1e9;
  if (run.copy_rate > 0) return {};
  TCC_TRY(run.copy_rate, run.backend.copy_rate());
  return {};
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace tcc::gpu_check
