#include "tcc/support/files.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <system_error>

#include "tcc/support/descriptor.h"
#include "tcc/support/text.h"
#include "tcc/support/truncated_files.h"

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

// Smaller files are copied: what happens to the file afterwards is of no concern, and the copy costs little. Larger
// ones are mapped, so that weights of many gigabytes need no memory of their own.
constexpr size_t kCopiedBytes = size_t{64} << 20;

// Which addresses are which file, readable inside a signal handler. A file that finds no room is mapped all the same.
struct MappedRange {
  std::atomic<uintptr_t> begin{0}, end{0};  // end 0: free
  std::array<char, 512> name{};
};
std::array<MappedRange, 256> mapped_ranges;
std::mutex mapped_ranges_mutex;  // of those who change them

MappedRange* enter_range(const void* data, size_t size, int fd) {
  std::lock_guard lock(mapped_ranges_mutex);
  for (MappedRange& range : mapped_ranges) {
    if (range.end.load() != 0) continue;
    // The file's own name, whatever it was opened as.
    const std::string link = fmt::format("/proc/self/fd/{}", fd);
    const ssize_t length = readlink(link.c_str(), range.name.data(), range.name.size() - 1);
    range.name[static_cast<size_t>(std::max<ssize_t>(length, 0))] = '\0';
    range.begin = reinterpret_cast<uintptr_t>(data);
    range.end = reinterpret_cast<uintptr_t>(data) + size;
    return &range;
  }
  return nullptr;
}

void say(const char* text) {
  [[maybe_unused]] ssize_t written = ::write(STDERR_FILENO, text, std::strlen(text));
}

void on_bus_error(int signal, siginfo_t* info, void*) {
  const auto at = reinterpret_cast<uintptr_t>(info->si_addr);
  for (const MappedRange& range : mapped_ranges) {
    if (at < range.begin || at >= range.end) continue;
    say("tcc: error: '");
    say(range.name.data());
    say("' lost its end while it was read: another program truncated it\n  hint: run the command again when the file "
        "is "
        "complete\n");
    _exit(1);
  }
  ::signal(signal, SIG_DFL);  // the fault comes again, and is what it always was
}

class PosixMap final : public MappedFile {
 public:
  PosixMap(void* data, size_t size, int fd) : data_(data), size_(size), range_(enter_range(data, size, fd)) {}
  ~PosixMap() override {
    munmap(data_, size_);
    if (range_ != nullptr) range_->end = 0;
  }
  std::span<const std::byte> bytes() const override { return {static_cast<const std::byte*>(data_), size_}; }

 private:
  void* data_;
  size_t size_;
  MappedRange* range_;
};

class CopiedFile final : public MappedFile {
 public:
  explicit CopiedFile(std::string bytes) : bytes_(std::move(bytes)) {}
  std::span<const std::byte> bytes() const override { return std::as_bytes(std::span(bytes_)); }

 private:
  std::string bytes_;
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
Result<Descriptor> open_regular(const std::string& path, struct stat* info) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return system_error("open", path);
  if (fstat(file.get(), info) != 0) return system_error("stat", path);
  if (S_ISDIR(info->st_mode)) return input_error("'{}' is a directory, a file was expected", path);
  if (!S_ISREG(info->st_mode)) return input_error("'{}' is not a regular file", path);
  return file;
}

Result<std::string> read_text(int fd, const struct stat& info, const std::string& path) {
  std::string bytes(static_cast<size_t>(info.st_size), '\0');
  const std::ptrdiff_t done = read_all(fd, bytes.data(), bytes.size());
  if (done < 0) return system_error("read", path);
  bytes.resize(static_cast<size_t>(done));
  return bytes;
}

}  // namespace

void report_truncated_files() {
  struct sigaction action{};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}

Result<std::string> read_file(const std::string& path, uint64_t max_bytes) {
  struct stat info{};
  TCC_TRY(const Descriptor file, open_regular(path, &info));
  if (static_cast<uint64_t>(info.st_size) > max_bytes)
    return input_error("'{}' has {} bytes, more than the limit of {}", path, info.st_size, max_bytes);
  return read_text(file.get(), info, path);
}

Result<std::unique_ptr<NewFile>> NewFile::create(const std::string& path, bool executable) {
  constexpr int kTries = 16;
  for (int i = 0; i < kTries; ++i) {
    uint64_t number = 0;
    if (getrandom(&number, sizeof number, 0) != static_cast<ssize_t>(sizeof number)) return system_error("write", path);
    std::unique_ptr<NewFile> file(new NewFile(path, fmt::format("{}.{:016x}.tmp", path, number)));
    file->fd_ = ::open(file->temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                       executable ? 0755 : 0644);
    if (file->fd_ >= 0) return file;
    if (errno != EEXIST) return system_error("write", path);
  }
  return environment_error("cannot write '{}': every temporary name beside it exists", path);
}

NewFile::~NewFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

Result<void> NewFile::write(std::string_view bytes) {
  if (!write_all(fd_, bytes)) return system_error("write", path_);
  return {};
}

Result<void> NewFile::commit() {
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return system_error("write", path_);
  ::close(std::exchange(fd_, -1));
  return {};
}

Result<void> write_file(const std::string& path, std::string_view bytes, bool executable) {
  TCC_TRY(auto file, NewFile::create(path, executable));
  TCC_TRY_VOID(file->write(bytes));
  return file->commit();
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
  TCC_TRY(const Descriptor file, open_regular(path, &info));
  auto size = static_cast<size_t>(info.st_size);
  if (size < kCopiedBytes) {
    TCC_TRY(std::string bytes, read_text(file.get(), info, path));
    return std::shared_ptr<MappedFile>(std::make_shared<CopiedFile>(std::move(bytes)));
  }
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED) return system_error("map", path);
  return std::shared_ptr<MappedFile>(std::make_shared<PosixMap>(data, size, file.get()));
}

Result<std::unique_ptr<TemporaryDirectory>> TemporaryDirectory::create(const std::string& prefix) {
  std::error_code code;
  std::string pattern = (std::filesystem::temp_directory_path(code) / (prefix + "XXXXXX")).string();
  if (code) {
    const char* named = std::getenv("TMPDIR");
    return make_error(ErrorClass::kEnvironment,
                      fmt::format("expected a folder for temporary files at '{}', found: {}",
                                  named != nullptr ? sanitize(named) : "/tmp", code.message()),
                      "set TMPDIR to a folder that exists");
  }
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
