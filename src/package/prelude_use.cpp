// Which functions of the CUDA prelude a kernel is built from.
#include <set>

#include "model_data.h"
#include "tcc/codegen/cuda.h"

namespace tcc::package {
namespace {

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// The words of a text that begin with tcc_ and come before a parenthesis or, called as templates, an angle bracket.
std::set<std::string> own_functions(std::string_view text) {
  std::set<std::string> names;
  for (size_t at = text.find("tcc_"); at != std::string_view::npos; at = text.find("tcc_", at + 1)) {
    if (at > 0 && is_word(text[at - 1])) continue;
    size_t end = at;
    while (end < text.size() && is_word(text[end])) ++end;
    if (end < text.size() && (text[end] == '(' || text[end] == '<')) names.emplace(text.substr(at, end - at));
  }
  return names;
}

}  // namespace

std::vector<std::string> prelude_functions(const std::string& source) {
  const std::string& prelude = codegen::cuda_prelude();
  if (!source.starts_with(prelude)) return {};
  static const std::set<std::string> defined = own_functions(prelude);
  std::vector<std::string> used;
  for (const std::string& name : own_functions(std::string_view(source).substr(prelude.size())))
    if (defined.contains(name)) used.push_back(name);
  return used;
}

}  // namespace tcc::package
