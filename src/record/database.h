// A thin owner of SQLite handles. Statements are prepared once per use and finalised by the destructor; every failure
// becomes an Error that names the file and says what to do.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "tcc/support/result.h"

namespace tcc::record {

// The error for the last failed call on `db`; `doing` completes "while ...".
tl::unexpected<Error> database_error(sqlite3* db, int code, const std::string& path, std::string_view doing);

class Statement {
 public:
  static Result<Statement> prepare(sqlite3* db, const std::string& path, std::string_view sql);
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&&) = delete;
  ~Statement();

  // Parameters in order, first to last.
  Statement& bind(int64_t value);
  Statement& bind(double value);
  Statement& bind(std::string_view text);
  Statement& bind_blob(const void* data, size_t bytes);
  // Unsigned hashes are stored as 64-bit integers, bit for bit.
  Statement& bind_hash(uint64_t value) { return bind(static_cast<int64_t>(value)); }

  // True: a row is there; false: done.
  Result<bool> step();
  // For statements without rows.
  Result<void> run();

  int64_t integer(int column) const;
  double real(int column) const;
  std::string text(int column) const;
  std::string_view blob(int column) const;  // valid until the next step

 private:
  Statement(sqlite3* db, sqlite3_stmt* handle, std::string path) : db_(db), handle_(handle), path_(std::move(path)) {}
  sqlite3* db_;
  sqlite3_stmt* handle_;
  std::string path_;
  int next_ = 1;
};

// `doing`: see database_error.
Result<void> execute(sqlite3* db, const std::string& path, const char* sql, std::string_view doing = "set it up");

}  // namespace tcc::record
