// The strategies that are compared.
#pragma once

#include <string>
#include <vector>

#include "tcc/search/search.h"
#include "tcc/target/target.h"

namespace tcc::benchmarks {

// A way to come to a program: a strategy with a cost model, or no search at all.
struct Method {
  std::string name;  // "evolutionary", "evolutionary.pacm", "default"
  search::Strategy strategy = search::Strategy::kEvolutionary;
  std::string model = "trees";
  bool pretrained = false;  // begins with the checkpoint that ships, where one does
  bool searches = true;     // false: what is built without records
  bool core = true;         // of the set that a call without --only runs
  bool constructs = false;  // begins with constructed programs where tcc does
};
// The baseline is the first one.
inline constexpr const char* kBaseline = "evolutionary";
// All that the tables of strategies and of cost models offer.
std::vector<Method> methods();
search::TuneOptions options_of(const Method& method, const target::Target& target,
                               const space::SpaceOptions& space = {});

}  // namespace tcc::benchmarks
