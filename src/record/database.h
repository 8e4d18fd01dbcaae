// A thin owner of SQLite handles. Statements are prepared once per use and finalised by the destructor; every failure
// becomes an Error that names the file and says what to do.
#pragma once

#include <sqlite3.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

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

  // Parameters in order, first to last: numbers, texts, and lists of numbers as blobs. Unsigned hashes are stored as
  // 64-bit integers, bit for bit.
  template <class T>
  Statement& bind(const T& value) {
    if constexpr (std::is_floating_point_v<T>) {
      return bind_real(value);
    } else if constexpr (std::is_integral_v<T>) {
      return bind_integer(static_cast<int64_t>(value));
    } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
      return bind_text(value);
    } else {
      return bind_blob(std::as_bytes(std::span(value)));
    }
  }

  // True: a row is there; false: done.
  Result<bool> step();
  // For statements without rows.
  Result<void> run();

  // The other way round.
  template <class T>
  void get(int column, T& value) const {
    if constexpr (std::is_floating_point_v<T>) {
      value = real(column);
    } else if constexpr (std::is_same_v<T, bool>) {
      value = integer(column) != 0;
    } else if constexpr (std::is_integral_v<T>) {
      value = static_cast<T>(integer(column));
    } else if constexpr (std::is_same_v<T, std::string>) {
      value = text(column);
    } else {
      const std::string_view bytes = blob(column);
      value.resize(bytes.size() / sizeof(value[0]));
      if (!value.empty()) std::memcpy(value.data(), bytes.data(), value.size() * sizeof(value[0]));
    }
  }
  int64_t integer(int column) const;
  double real(int column) const;
  std::string text(int column) const;
  std::string_view blob(int column) const;  // valid until the next step

 private:
  Statement& bind_integer(int64_t value);
  Statement& bind_real(double value);
  Statement& bind_text(std::string_view text);
  Statement& bind_blob(std::span<const std::byte> bytes);

  Statement(sqlite3* db, sqlite3_stmt* handle, std::string path) : db_(db), handle_(handle), path_(std::move(path)) {}
  sqlite3* db_;
  sqlite3_stmt* handle_;
  std::string path_;
  int next_ = 1;
};

// `doing`: see database_error.
Result<void> execute(sqlite3* db, const std::string& path, const char* sql, std::string_view doing = "set it up");

}  // namespace tcc::record
