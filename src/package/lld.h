// lld inside this process. Compiled to "not here" where lld's libraries are not installed.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace tcc::package {

bool has_lld();
// Runs "ld.lld" with the arguments (without the program's name). Nothing on success, else what lld said.
std::optional<std::string> run_lld(const std::vector<std::string>& arguments);

}  // namespace tcc::package
