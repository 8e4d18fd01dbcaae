#include "record/database.h"

#include <cstring>
#include <utility>

#include "tcc/support/check.h"

namespace tcc::record {

tl::unexpected<Error> database_error(sqlite3* db, int code, const std::string& path, std::string_view doing) {
  std::string reason = db ? sqlite3_errmsg(db) : sqlite3_errstr(code);
  if (int system = db ? sqlite3_system_errno(db) : 0; (code & 0xff) == SQLITE_IOERR && system != 0)
    reason += fmt::format(" ({})", std::strerror(system));
  std::string message = fmt::format("records '{}': cannot {}: {}", path, doing, reason);
  std::string hint;
  switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      hint = "another process is writing to it; wait for that process to end, or use another store";
      break;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      hint = "the file or its folder is read-only; change the permissions or name another store";
      break;
    case SQLITE_CANTOPEN:
      hint = "check that the folder exists and may be written, or name another store";
      break;
    case SQLITE_FULL:
      hint = "the disk is full; free some space and run again: everything recorded so far is kept";
      break;
    case SQLITE_IOERR:
      hint =
          "the disk fails, or a quota or limit on file sizes (ulimit -f) is reached; make room or name another store, "
          "and run again: everything recorded so far is kept";
      break;
    case SQLITE_NOMEM:
      hint = "free memory, or raise the limit on it (ulimit -v); everything recorded so far is kept";
      break;
    case SQLITE_CORRUPT:
      hint = "the file is damaged; move it away to start a new store, or restore it from a copy";
      break;
    case SQLITE_NOTADB:
      hint = "this is not a store of records; name another file";
      break;
    default:
      break;
  }
  return make_error(ErrorClass::kEnvironment, std::move(message), std::move(hint));
}

Result<Statement> Statement::prepare(sqlite3* db, const std::string& path, std::string_view sql) {
  sqlite3_stmt* handle = nullptr;
  int code = sqlite3_prepare_v2(db, sql.data(), static_cast<int>(sql.size()), &handle, nullptr);
  if (code != SQLITE_OK) return database_error(db, code, path, "read its tables");
  return Statement(db, handle, path);
}

Statement::Statement(Statement&& other) noexcept
    : db_(other.db_),
      handle_(std::exchange(other.handle_, nullptr)),
      path_(std::move(other.path_)),
      next_(other.next_) {}

Statement::~Statement() {
  sqlite3_finalize(handle_);
}

Statement& Statement::bind_integer(int64_t value) {
  TCC_CHECK(sqlite3_bind_int64(handle_, next_++, value) == SQLITE_OK);
  return *this;
}
Statement& Statement::bind_real(double value) {
  TCC_CHECK(sqlite3_bind_double(handle_, next_++, value) == SQLITE_OK);
  return *this;
}
Statement& Statement::bind_text(std::string_view text) {
  TCC_CHECK(sqlite3_bind_text64(handle_, next_++, text.data() ? text.data() : "", text.size(), SQLITE_TRANSIENT,
                                SQLITE_UTF8) == SQLITE_OK);
  return *this;
}
Statement& Statement::bind_blob(std::span<const std::byte> bytes) {
  const void* data = bytes.empty() ? static_cast<const void*>("") : bytes.data();
  TCC_CHECK(sqlite3_bind_blob64(handle_, next_++, data, bytes.size(), SQLITE_TRANSIENT) == SQLITE_OK);
  return *this;
}

Result<bool> Statement::step() {
  int code = sqlite3_step(handle_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return database_error(db_, code, path_, sqlite3_stmt_readonly(handle_) ? "read" : "write");
}
Result<void> Statement::run() {
  TCC_TRY(bool row, step());
  TCC_CHECK(!row, "statement has rows");
  return {};
}

int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(handle_, column);
}
double Statement::real(int column) const {
  return sqlite3_column_double(handle_, column);
}
std::string Statement::text(int column) const {
  const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(handle_, column));
  return data ? std::string(data, static_cast<size_t>(sqlite3_column_bytes(handle_, column))) : std::string();
}
std::string_view Statement::blob(int column) const {
  const auto* data = static_cast<const char*>(sqlite3_column_blob(handle_, column));
  return {data, data ? static_cast<size_t>(sqlite3_column_bytes(handle_, column)) : 0};
}

Result<void> execute(sqlite3* db, const std::string& path, const char* sql, std::string_view doing) {
  int code = sqlite3_exec(db, sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return database_error(db, code, path, doing);
  return {};
}

}  // namespace tcc::record
