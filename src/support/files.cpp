#include "tcc/support/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace tcc {
namespace {

std::string hint_for(int code) {
  switch (code) {
    case EACCES:
    case EPERM:
    case EROFS:
      return "change the permissions, or name another place";
    case ENOSPC:
    case EDQUOT:
      return "free some space, or name a place on another disk";
    case EFBIG:
      return "raise the limit on file sizes (ulimit -f)";
    case ENOENT:
    case ENOTDIR:
    case ENAMETOOLONG:
      return "check the name";
    default:
      return "";
  }
}

tl::unexpected<Error> system_error(const char* what, const std::string& path) {
  const int code = errno;
  return make_error(ErrorClass::kEnvironment, fmt::format("cannot {} '{}': {}", what, path, std::strerror(code)),
                    hint_for(code));
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

class PosixMap final : public MappedFile {
 public:
  PosixMap(void* data, size_t size) : data_(data), size_(size) {}
  ~PosixMap() override {
    if (size_ > 0) munmap(data_, size_);
  }
  std::span<const std::byte> bytes() const override { return {static_cast<const std::byte*>(data_), size_}; }

 private:
  void* data_;
  size_t size_;
};

class SystemClock final : public Clock {
 public:
  double seconds() override {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  int64_t unix_seconds() override {
    return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
};

// Opens a regular file for reading; directories, pipes and devices are refused.
Result<int> open_regular(const std::string& path, struct stat* info) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return system_error("open", path);
  Descriptor guard(fd);
  if (fstat(fd, info) != 0) return system_error("stat", path);
  if (S_ISDIR(info->st_mode)) return input_error("'{}' is a directory, a file was expected", path);
  if (!S_ISREG(info->st_mode)) return input_error("'{}' is not a regular file", path);
  return guard.release();
}

}  // namespace

Result<std::string> read_file(const std::string& path, uint64_t max_bytes) {
  struct stat info{};
  TCC_TRY(int fd, open_regular(path, &info));
  Descriptor guard(fd);
  if (static_cast<uint64_t>(info.st_size) > max_bytes)
    return input_error("'{}' has {} bytes, more than the limit of {}", path, info.st_size, max_bytes);
  std::string bytes(static_cast<size_t>(info.st_size), '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    ssize_t n = ::read(fd, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error("read", path);
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  bytes.resize(done);
  return bytes;
}

Result<void> write_file(const std::string& path, std::string_view bytes, bool executable) {
  std::string temporary = fmt::format("{}.tmp.{}", path, getpid());
  Descriptor fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, executable ? 0755 : 0644));
  if (fd.get() < 0) return system_error("write", path);
  size_t done = 0;
  while (done < bytes.size()) {
    ssize_t n = ::write(fd.get(), bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      auto error = system_error("write", path);
      ::unlink(temporary.c_str());
      return error;
    }
    done += static_cast<size_t>(n);
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    auto error = system_error("write", path);
    ::unlink(temporary.c_str());
    return error;
  }
  return {};
}

Result<void> make_directories(const std::string& path) {
  std::error_code code;
  std::filesystem::create_directories(path, code);
  if (code)
    return make_error(ErrorClass::kEnvironment, fmt::format("cannot create folder '{}': {}", path, code.message()),
                      hint_for(code.value()));
  if (!std::filesystem::is_directory(path))
    return make_error(ErrorClass::kEnvironment, fmt::format("'{}' exists and is not a folder", path),
                      "name another folder");
  return {};
}

bool file_exists(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

Result<std::shared_ptr<MappedFile>> MappedFile::open(const std::string& path) {
  struct stat info{};
  TCC_TRY(int fd, open_regular(path, &info));
  Descriptor guard(fd);
  auto size = static_cast<size_t>(info.st_size);
  void* data = nullptr;
  if (size > 0) {
    data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) return system_error("map", path);
  }
  return std::shared_ptr<MappedFile>(std::make_shared<PosixMap>(data, size));
}

Result<std::unique_ptr<TemporaryDirectory>> TemporaryDirectory::create(const std::string& prefix) {
  std::error_code code;
  std::string pattern = (std::filesystem::temp_directory_path(code) / (prefix + "XXXXXX")).string();
  if (code) return environment_error("no temporary folder: {}", code.message());
  if (mkdtemp(pattern.data()) == nullptr) return system_error("create temporary folder", pattern);
  return std::unique_ptr<TemporaryDirectory>(new TemporaryDirectory(pattern));
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;  // a left-over temporary folder is not worth failing for
  std::filesystem::remove_all(path_, ignored);
}

Clock& Clock::system() {
  static SystemClock clock;
  return clock;
}

}  // namespace tcc
