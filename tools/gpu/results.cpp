#include "gpu/results.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "tcc/support/files.h"

namespace tcc::gpu_check {

void Results::take_rows(const nlohmann::json& document) {
  for (const auto& r : document.value("rows", nlohmann::json::array())) {
    Row row{r.value("name", ""), r.value("value", 0.0), r.value("unit", ""), "", 0};
    if (r.contains("peer") && r["peer"].is_string())
      row.peer = r["peer"].get<std::string>(), row.peer_value = r.value("peer_value", 0.0);
    rows_.push_back(row);
  }
}

Result<Results> Results::read(const std::string& path) {
  TCC_TRY(const std::string text, read_file(path));
  const nlohmann::json document = nlohmann::json::parse(text, nullptr, false);
  if (!document.is_object()) return environment_error("'{}' holds no results of gpu_check", path);
  Results results(path, document.value("suite", ""), document.value("machine", ""));
  results.take_rows(document);
  return results;
}

void Results::resume() {
  auto old = read(path_);
  if (old && old->suite_ == suite_ && old->machine_ == machine_) rows_ = std::move(old->rows_);
}

void Results::forget(const std::string& name) {
  std::erase_if(rows_, [&](const Row& r) { return r.name == name; });
}

std::string Results::text() const {
  nlohmann::ordered_json document;
  document["suite"] = suite_;
  document["machine"] = machine_;
  document["rows"] = nlohmann::ordered_json::array();
  for (const Row& r : rows_) {
    nlohmann::ordered_json row;
    row["name"] = r.name;
    row["value"] = r.value;
    row["unit"] = r.unit;
    row["peer"] = r.peer.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(r.peer);
    row["peer_value"] = r.peer.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(r.peer_value);
    row["ratio"] = r.peer.empty() || r.peer_value == 0 ? nlohmann::ordered_json(nullptr)
                                                       : nlohmann::ordered_json(r.value / r.peer_value);
    document["rows"].push_back(std::move(row));
  }
  return document.dump(1) + "\n";
}

Result<void> Results::add(const Row& row) {
  bool known = false;
  for (Row& r : rows_)
    if (r.name == row.name) r = row, known = true;
  if (!known) rows_.push_back(row);
  return write();
}

Result<void> Results::write() const {
  const std::string temporary = path_ + ".part", bytes = text();
  const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) return environment_error("cannot write '{}': {}", temporary, std::strerror(errno));
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::write(file, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<size_t>(n);
  }
  const bool synced = done == bytes.size() && ::fsync(file) == 0;
  const int why = errno;
  ::close(file);
  if (!synced) return environment_error("cannot write '{}': {}", temporary, std::strerror(why));
  if (::rename(temporary.c_str(), path_.c_str()) != 0)
    return environment_error("cannot rename '{}' to '{}': {}", temporary, path_, std::strerror(errno));
  const size_t slash = path_.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path_.substr(0, slash + 1);
  if (const int directory = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); directory >= 0) {
    ::fsync(directory);  // the new name; some file systems have nothing to do here and say so
    ::close(directory);
  }
  return {};
}

std::string Results::table() const {
  std::string text =
      fmt::format("{:<44} {:>14} {:<12} {:<14} {:>14} {:>7}\n", "name", "value", "unit", "peer", "peer value", "ratio");
  for (const Row& r : rows_) {
    text += fmt::format("{:<44} {:>14.6g} {:<12}", r.name, r.value, r.unit);
    if (!r.peer.empty())
      text += fmt::format(" {:<14} {:>14.6g} {:>7.3f}", r.peer, r.peer_value,
                          r.peer_value != 0 ? r.value / r.peer_value : 0);
    text += '\n';
  }
  return text;
}

}  // namespace tcc::gpu_check
