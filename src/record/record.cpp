#include "tcc/record/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace tcc::record {
namespace {

#define TCC_X(name, text) text,
constexpr std::string_view kStatusNames[] = {TCC_RECORD_STATUSES(TCC_X)};
constexpr std::string_view kKindNames[] = {TCC_RECORD_KINDS(TCC_X)};
#undef TCC_X

template <class T, size_t N>
bool find(std::string_view name, const std::string_view (&names)[N], T& value) {
  const auto found = std::find(std::begin(names), std::end(names), name);
  if (found != std::end(names)) value = static_cast<T>(found - std::begin(names));
  return found != std::end(names);
}

}  // namespace

std::string_view status_name(Status s) {
  return kStatusNames[static_cast<size_t>(s)];
}
std::string_view kind_name(Kind k) {
  return kKindNames[static_cast<size_t>(k)];
}
bool find_name(std::string_view name, Status& status) {
  return find(name, kStatusNames, status);
}
bool find_name(std::string_view name, Kind& kind) {
  return find(name, kKindNames, kind);
}

std::string hash_text(uint64_t hash) {
  return fmt::format("{:016x}", hash);
}

}  // namespace tcc::record
