// The seams to the outside world: files and time. Rooms take these interfaces, so tests can pass fakes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "tcc/support/result.h"

namespace tcc {

// Whole-file helpers. Errors name the path and the system's reason.
Result<std::string> read_file(const std::string& path, uint64_t max_bytes = uint64_t{64} << 30);
// A file that gets its name when it is whole: until commit() it has a random name in the same folder, which nothing
// else had before and which no link leads elsewhere. What is not committed is deleted.
class NewFile {
 public:
  static Result<std::unique_ptr<NewFile>> create(const std::string& path, bool executable = false);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  const std::string& temporary() const { return temporary_; }
  Result<void> write(std::string_view bytes);
  Result<void> commit();

 private:
  NewFile(std::string path, std::string temporary) : path_(std::move(path)), temporary_(std::move(temporary)) {}
  std::string path_, temporary_;
  int fd_ = -1;
};
// The whole of a NewFile at once: a reader never sees half a file.
Result<void> write_file(const std::string& path, std::string_view bytes, bool executable = false);
Result<void> make_directories(const std::string& path);
bool file_exists(const std::string& path);

// A read-only memory map of a regular file. Empty files map to an empty span.
class MappedFile {
 public:
  static Result<std::shared_ptr<MappedFile>> open(const std::string& path);
  virtual ~MappedFile() = default;
  virtual std::span<const std::byte> bytes() const = 0;
};

// A directory that is deleted with its contents when the object dies.
class TemporaryDirectory {
 public:
  static Result<std::unique_ptr<TemporaryDirectory>> create(const std::string& prefix);
  ~TemporaryDirectory();
  const std::string& path() const { return path_; }

 private:
  explicit TemporaryDirectory(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

class Clock {
 public:
  virtual ~Clock() = default;
  virtual double seconds() = 0;        // monotonic
  virtual int64_t unix_seconds() = 0;  // wall clock, for records
  static Clock& system();
};

// Wall time since construction or restart, in seconds.
class Stopwatch {
 public:
  Stopwatch() : start_(Clock::system().seconds()) {}
  double seconds() const { return Clock::system().seconds() - start_; }
  void restart() { start_ = Clock::system().seconds(); }

 private:
  double start_;
};

}  // namespace tcc
