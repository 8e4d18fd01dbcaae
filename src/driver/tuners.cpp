#include "tcc/driver/tuners.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "tcc/support/files.h"
#include "tcc/support/text.h"

namespace tcc::driver {
namespace {

constexpr std::string_view kPrefix = "measuring-";
constexpr int kAttempts = 20;
constexpr useconds_t kPauseMicroseconds = 1000;

// The process whose file has this name; -1: another file.
int64_t process_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return -1;
  int64_t pid = -1;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kPrefix.size(), end, pid);
  return error == std::errc() && stop == end ? pid : -1;
}

}  // namespace

MeasuringHere::MeasuringHere(std::string folder, std::string file, int descriptor)
    : folder_(std::move(folder)), file_(std::move(file)), descriptor_(descriptor) {}

Result<std::unique_ptr<MeasuringHere>> MeasuringHere::begin(const std::string& folder) {
  TCC_TRY_VOID(make_directories(folder));
  std::string file = fmt::format("{}/{}{}", folder, kPrefix, getpid());
  // Another process may look at the file, and remove it, between its making and its locking.
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const int descriptor = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (descriptor < 0) return environment_error("cannot make '{}': {}", sanitize(file), std::strerror(errno));
    struct stat opened = {}, named = {};
    if (flock(descriptor, LOCK_EX | LOCK_NB) == 0 && fstat(descriptor, &opened) == 0 &&
        lstat(file.c_str(), &named) == 0 && opened.st_ino == named.st_ino)
      return std::unique_ptr<MeasuringHere>(new MeasuringHere(folder, std::move(file), descriptor));
    close(descriptor);
    usleep(kPauseMicroseconds);
  }
  return environment_error("cannot lock '{}'", sanitize(file));
}

MeasuringHere::~MeasuringHere() {
  unlink(file_.c_str());
  close(descriptor_);
}

std::vector<int64_t> MeasuringHere::others() const {
  std::vector<int64_t> alive;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, error)) {
    const int64_t pid = process_of(entry.path().filename().string());
    if (pid < 0 || pid == getpid()) continue;
    const int other = open(entry.path().c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (other < 0) continue;
    if (flock(other, LOCK_EX | LOCK_NB) != 0)
      alive.push_back(pid);
    else
      unlink(entry.path().c_str());  // of a process that was killed
    close(other);
  }
  std::sort(alive.begin(), alive.end());
  return alive;
}

}  // namespace tcc::driver
