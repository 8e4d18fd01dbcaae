#include "recorded_units.h"

#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tcc/support/files.h"

namespace tcc::benchmarks {

using Json = nlohmann::json;

Result<RecordedUnits> RecordedUnits::open(const std::string& path) {
  RecordedUnits out(path);
  if (!file_exists(path)) return out;
  TCC_TRY(const std::string text, read_file(path));
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("units") || !json.at("units").is_object())
    return input_error("'{}': expected results of recorded experiments, found another file", path);
  for (const auto& [name, unit] : json.at("units").items()) {
    const bool whole = unit.is_object() && unit.value("values", Json()).is_object() &&
                       unit.value("inputs", Json()).is_string() && unit.value("seconds", Json()).is_number();
    if (!whole) return input_error("'{}': unit '{}' lacks inputs, seconds or values", path, name);
    Unit& u = out.units_[name];
    u.inputs = std::strtoull(unit.at("inputs").get<std::string>().c_str(), nullptr, 16);
    u.seconds = unit.at("seconds").get<double>();
    for (const auto& [key, value] : unit.at("values").items())
      if (value.is_number()) u.values[key] = value.get<double>();
  }
  return out;
}

std::optional<RecordedUnits::Values> RecordedUnits::find(const std::string& name, uint64_t inputs) const {
  const auto known = units_.find(name);
  if (known == units_.end() || known->second.inputs != inputs) return std::nullopt;
  return known->second.values;
}

Result<void> RecordedUnits::keep(const std::string& name, uint64_t inputs, const Values& values, double seconds) {
  // Another process may have kept units since.
  TCC_TRY(RecordedUnits now, open(path_));
  units_ = std::move(now.units_);
  units_[name] = {inputs, values, seconds};
  Json json = {{"units", Json::object()}};
  for (const auto& [key, unit] : units_)
    json["units"][key] = {
        {"inputs", fmt::format("{:016x}", unit.inputs)}, {"seconds", unit.seconds}, {"values", unit.values}};
  return write_file(path_, json.dump(1) + "\n");
}

}  // namespace tcc::benchmarks
