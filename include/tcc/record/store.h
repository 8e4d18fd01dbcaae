// The records of all tuning on this machine: one SQLite file in WAL mode. A record is on disk when add() returns.
// Several processes may read; writers wait for each other. Files of earlier versions are brought up to date when they
// are opened for writing, and read as they are otherwise. A Store may be used from several threads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tcc/record/database.h"
#include "tcc/record/record.h"
#include "tcc/support/result.h"

namespace tcc::record {

class Store : public Database {
 public:
  enum class Mode : uint8_t { kReadWrite, kReadOnly };

  // Opens or creates the file (its folder is created too); ":memory:" is a private store without a file. Errors, each
  // with what to do: no permission, read-only, locked by another writer, not a store, damaged, made by a newer version.
  static Result<std::unique_ptr<Store>> open(const std::string& path, Mode mode = Mode::kReadWrite);
  ~Store() override;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  const std::string& path() const;

  // Durable on return: a crash of the process or of the machine afterwards loses nothing. Returns the record's id.
  // add_all is one transaction: all or none.
  Result<int64_t> add(const Record& record) override;
  Result<void> add_all(std::span<const Record> records);

  Result<std::vector<Record>> fastest(uint64_t task, const Machine& machine, int64_t threads,
                                      int64_t count) const override;
  Result<std::vector<Record>> fastest_relatives(uint64_t anchor, uint64_t task, const Machine& machine, int64_t threads,
                                                int64_t count) const override;
  Result<std::vector<Shape>> shapes(uint64_t family, const Machine& machine, int64_t threads) const override;
  Result<std::vector<int64_t>> measured_threads(uint64_t task, const Machine& machine) const override;
  Result<bool> contains(uint64_t task, uint64_t target_features, uint64_t nest, int64_t threads) const override;
  Result<bool> is_wrong(uint64_t task, uint64_t target_features, uint64_t nest) const override;
  // Every record of a task, oldest first; all tasks when `task` is empty.
  Result<std::vector<Record>> all(std::optional<uint64_t> task = {}) const override;

  // Session rows: what an interrupted run needs to go on exactly. `text` is the caller's JSON.
  Result<void> save_session(const std::string& key, const std::string& text);
  Result<std::optional<std::string>> load_session(const std::string& key) const override;
  Result<void> erase_session(const std::string& key);  // and its owner
  // Makes this process the owner of a session row, which need not exist yet. The answer is 0, or the id of the process
  // that owns it: one that is still running on this machine, which nothing is taken from. An owner that has ended, or a
  // machine that was started again, leaves its rows free.
  Result<int64_t> claim_session(const std::string& key);
  Result<void> release_session(const std::string& key);
  // A record and the session state that follows from it, together or not at all.
  Result<void> add_with_session(std::span<const Record> records, const std::string& key, const std::string& text);

 private:
  struct State;
  static Result<void> connect(State& state, bool read_only);
  explicit Store(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tcc::record
