// The list of backends.
#include <algorithm>

#include "tcc/backend/backend.h"
#include "tcc/support/check.h"

namespace tcc::backend {
namespace {

std::vector<const Backend*>& backends() {
  static std::vector<const Backend*> list = {&kCpu, &kCuda};
  return list;
}

}  // namespace

const Backend& backend_of(const target::Target& target) {
  const std::vector<const Backend*>& all = backends();
  auto found = std::find_if(all.begin(), all.end(), [&](const Backend* b) { return b->kind == target.kind; });
  TCC_CHECK(found != all.end(), "no backend for target '{}'", target.name);
  return **found;
}

void add_backend(const Backend& backend) {
  lower::add_pipeline(backend.kind, &backend.pipeline());
  space::add_modules(backend.kind, *backend.modules);
  backends().push_back(&backend);
}

std::vector<std::string> Machine::notes() const {
  std::vector<std::string> out;
  if (!name.empty()) out.push_back(fmt::format("measured on {}", name));
  for (const auto* one : {&measurer, &references})
    if (*one != nullptr)
      for (std::string& note : (*one)->notes()) out.push_back(std::move(note));
  return out;
}

}  // namespace tcc::backend
