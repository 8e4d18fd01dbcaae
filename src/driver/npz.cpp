// .npz: a zip archive of .npy files, read and written with minizip.
#include <minizip/unzip.h>
#include <minizip/zip.h>
#include <unistd.h>

#include <memory>

#include "tcc/driver/tensor_file.h"
#include "tcc/support/files.h"
#include "tcc/support/text.h"

namespace tcc::driver {
namespace {

constexpr size_t kMaxName = 1024;
constexpr uint64_t kMaxArray = uint64_t{1} << 36;
constexpr size_t kStep = size_t{64} << 20;  // bytes handed to minizip at a time; it counts in 32 bits

struct CloseUnzip {
  void operator()(void* file) const { unzClose(file); }
};

tl::unexpected<Error> bad_archive(const std::string& path, const std::string& what) {
  return make_error(ErrorClass::kInput, fmt::format("'{}' is not a NumPy archive: {}", sanitize(path), what),
                    "write it with numpy.savez(file, name=array)");
}

// The current file of minizip. The buffer grows as it is read: the size that the archive claims is not trusted.
Result<std::string> read_member(unzFile archive, const std::string& path, const std::string& name) {
  if (unzOpenCurrentFile(archive) != UNZ_OK)
    return bad_archive(path, fmt::format("'{}' cannot be opened (encrypted, or damaged)", sanitize(name)));
  std::string bytes;
  while (true) {
    const size_t before = bytes.size();
    const size_t step = std::min(std::max<size_t>(before, 1 << 16), kStep);
    bytes.resize(before + step);
    const int n = unzReadCurrentFile(archive, bytes.data() + before, static_cast<unsigned>(step));
    bytes.resize(before + static_cast<size_t>(std::max(n, 0)));
    if (n < 0 || bytes.size() > kMaxArray) {
      unzCloseCurrentFile(archive);
      return bad_archive(path, fmt::format("'{}' is damaged or too large", sanitize(name)));
    }
    if (n == 0) break;
  }
  if (unzCloseCurrentFile(archive) != UNZ_OK)
    return bad_archive(path, fmt::format("the checksum of '{}' is wrong", sanitize(name)));
  return bytes;
}

Result<void> write_member(zipFile archive, const NamedTensor& tensor) {
  zip_fileinfo info{};
  info.dosDate = 0x00210000;  // 1980-01-01, the first day there is: the same tensors give the same bytes
  const std::string bytes = npy_bytes(tensor), name = tensor.name + ".npy";
  int code = zipOpenNewFileInZip64(archive, name.c_str(), &info, nullptr, 0, nullptr, 0, nullptr, 0, 0,
                                   bytes.size() >= UINT32_MAX ? 1 : 0);
  for (size_t at = 0; code == ZIP_OK && at < bytes.size(); at += kStep)
    code = zipWriteInFileInZip(archive, bytes.data() + at, static_cast<unsigned>(std::min(kStep, bytes.size() - at)));
  if (code == ZIP_OK) code = zipCloseFileInZip(archive);
  if (code == ZIP_OK) return {};
  return environment_error("cannot write '{}'", sanitize(tensor.name));
}

}  // namespace

Result<std::map<std::string, TensorFile>> read_npz(const std::string& path, bool bfloat16_as_uint16) {
  // minizip opens whatever it is given; the system's reason for a missing file, a folder or a pipe is told here.
  if (auto file = MappedFile::open(path); !file) return tl::make_unexpected(std::move(file).error());
  std::unique_ptr<void, CloseUnzip> archive(unzOpen64(path.c_str()));
  if (!archive) return bad_archive(path, "expected a zip file");
  std::map<std::string, TensorFile> tensors;
  for (int code = unzGoToFirstFile(archive.get()); code == UNZ_OK; code = unzGoToNextFile(archive.get())) {
    char text[kMaxName + 1] = {};
    unz_file_info64 info{};
    if (unzGetCurrentFileInfo64(archive.get(), &info, text, kMaxName, nullptr, 0, nullptr, 0) != UNZ_OK)
      return bad_archive(path, "its directory is damaged");
    std::string name = text;
    if (!name.ends_with(".npy")) return bad_archive(path, fmt::format("it holds '{}'", sanitize(name)));
    TCC_TRY(std::string bytes, read_member(archive.get(), path, name));
    TCC_TRY(TensorFile tensor,
            parse_npy(bytes, fmt::format("{}:{}", sanitize(path), sanitize(name)), bfloat16_as_uint16));
    name.resize(name.size() - 4);
    tensors.emplace(name, std::move(tensor));
  }
  return tensors;
}

Result<void> write_npz(const std::string& path, std::span<const NamedTensor> tensors) {
  TCC_TRY(auto file, NewFile::create(path));
  // minizip opens its file by name: this one is ours.
  zipFile archive = zipOpen64(file->temporary().c_str(), APPEND_STATUS_CREATE);
  Result<void> done;
  if (archive == nullptr) done = environment_error("cannot write '{}'", sanitize(path));
  for (const NamedTensor& tensor : tensors)
    if (done) done = write_member(archive, tensor);
  const bool closed = archive == nullptr || zipClose(archive, nullptr) == ZIP_OK;
  if (done && closed && file->commit()) return {};
  return make_error(ErrorClass::kEnvironment, fmt::format("cannot write '{}'", sanitize(path)),
                    "is the disk full, or a limit on file sizes reached? Free some space, or name another file");
}

}  // namespace tcc::driver
