// The file of a pool: 8 bytes "tccpool1", then pieces.
//
//   piece    length of the body       u32, little-endian
//            kind                     u8
//            body
//            hash of kind and body    u64
//   kinds    N  the names of the operations of traces, by number; before the first G
//            G  a group: task, platform, space, sketches; or sketches that a group of the file has besides
//            D  entries of a group: for each its sketch, decisions, seconds
//            E  the same with all decisions written out; read, no longer written
//
// A group is named by its number in the file. A body is made of numbers of seven bits a byte, texts with their length
// in front, and of seconds in three bytes. The task's plain kernel is the text of the IR.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "data/codec.h"
#include "data/packed.h"
#include "tcc/data/pool.h"
#include "tcc/ir/text.h"
#include "tcc/support/descriptor.h"
#include "tcc/support/files.h"
#include "tcc/support/hash.h"
#include "tcc/support/text.h"

namespace tcc::data {
namespace {

constexpr std::string_view kMagic = "tccpool1";
constexpr size_t kMaxBytes = size_t{64} << 20, kMaxGroups = 4096, kMaxSketches = 1 << 16, kMaxEntries = 1 << 20;
constexpr size_t kHead = 5, kHash = 8;

uint64_t hash_of(uint8_t kind, std::string_view body) {
  return combine_hash(kind, hash_bytes(body));
}

std::string piece(char kind, const Writer& body) {
  Writer out;
  out.fixed(body.bytes().size(), 4);
  out.byte(static_cast<uint8_t>(kind));
  std::string bytes = out.bytes() + body.bytes();
  Writer end;
  end.fixed(hash_of(static_cast<uint8_t>(kind), body.bytes()), kHash);
  return bytes + end.bytes();
}

std::string names_piece() {
  Writer out;
  write_names(out);
  return piece('N', out);
}

// The group itself where it is `fresh`; its sketches from number `first` on.
std::string group_piece(const Group& g, size_t number, bool fresh, size_t first) {
  Writer out;
  out.number(number);
  out.byte(fresh ? 1 : 0);
  if (fresh) {
    out.text(g.task.key), out.text(g.task.workload), out.text(task::anchor_name(g.task.anchor));
    out.text(g.task.anchor_block), out.fixed(std::bit_cast<uint64_t>(g.task.flops), 8);
    out.integer(g.task.weight), out.text(ir::print(g.task.kernel));
    out.text(g.platform.name), out.integer(g.platform.threads), out.text(record::kind_name(g.platform.kind));
    out.text(target::target_to_json(g.platform.target)), out.text(g.space);
  }
  out.number(g.sketches.size() - first);
  for (size_t i = first; i < g.sketches.size(); ++i) write_trace(out, g.sketches[i]);
  return piece('G', out);
}

std::string entries_piece(const Group& g, size_t number, size_t first) {
  Writer out;
  out.number(number);
  out.number(g.entries.size() - first);
  for (size_t i = first; i < g.entries.size(); ++i) {
    const Entry& e = g.entries[i];
    out.number(static_cast<uint64_t>(e.sketch));
    write_decisions(out, g.sketches[static_cast<size_t>(e.sketch)], e.decisions);
    const bool ok = e.status == record::Status::kOk;
    out.fixed(ok ? pack_seconds(e.seconds) : kFirstFailure + static_cast<uint32_t>(e.status), 3);
  }
  return piece('D', out);
}

class Parser {
 public:
  Parser(std::string_view bytes, std::string name) : bytes_(bytes), name_(std::move(name)) {}

  Result<Pool> run(size_t* end) {
    if (bytes_.size() > kMaxBytes) return damaged(fmt::format("it has {} bytes", bytes_.size()));
    if (!bytes_.starts_with(kMagic)) {
      if (bytes_.starts_with(kMagic.substr(0, 7))) return damaged("another version of tcc wrote it");
      return damaged("it does not begin as such a file does");
    }
    at_ = kMagic.size();
    while (at_ < bytes_.size()) {
      const std::string_view rest = bytes_.substr(at_);
      const size_t length = rest.size() < kHead ? 0 : static_cast<size_t>(Reader(rest).fixed(4));
      // Cut off: the file ends within the piece.
      if (rest.size() < kHead || rest.size() - kHead < length || rest.size() - kHead - length < kHash) break;
      const auto kind = static_cast<uint8_t>(rest[4]);
      const std::string_view body = rest.substr(kHead, length);
      if (Reader(rest.substr(kHead + length)).fixed(kHash) != hash_of(kind, body))
        return damaged(fmt::format("its piece at byte {} does not have the bytes that were written", at_));
      Reader in(body);
      const std::string why = read(static_cast<char>(kind), in);
      if (!why.empty()) return damaged(why);
      if (in.failed() || !in.ended()) return damaged(fmt::format("its piece at byte {} is malformed", at_));
      at_ += kHead + length + kHash;
    }
    if (end != nullptr) *end = at_;
    if (end == nullptr && at_ < bytes_.size()) return damaged(fmt::format("it is cut off at byte {}", at_));
    return std::move(pool_);
  }

 private:
  tl::unexpected<Error> damaged(const std::string& what) const {
    return tl::make_unexpected(Error{ErrorClass::kInput,
                                     fmt::format("{}: expected a pool of programs: {}", sanitize(name_), what),
                                     "take another copy of the file, or collect it anew with `tcc dataset collect`"});
  }

  // "" or what is wrong.
  std::string read(char kind, Reader& in) {
    switch (kind) {
      case 'N':
        ops_ = read_names(in);
        return "";
      case 'G':
        return read_group(in);
      case 'D':
        return read_entries(in, true);
      case 'E':
        return read_entries(in, false);
      default:
        return fmt::format("its piece at byte {} is of a kind that this version does not know", at_);
    }
  }

  std::string read_group(Reader& in) {
    const uint64_t number = in.number();
    const bool fresh = in.byte() == 1;
    if (in.failed() || number > pool_.groups.size() || fresh != (number == pool_.groups.size()) || number >= kMaxGroups)
      return "its groups are not in order";
    if (fresh) {
      Group g;
      if (const std::string why = read_head(in, g); !why.empty()) return why;
      pool_.groups.push_back(std::move(g));
    }
    Group& g = pool_.groups[number];
    for (size_t n = in.count(kMaxSketches); n > 0; --n) {
      std::string why;
      auto trace = read_trace(in, ops_, why);
      if (!trace) return why;
      g.sketches.push_back(std::move(*trace));
    }
    return "";
  }

  static std::string read_head(Reader& in, Group& g) {
    g.task.key = in.text(), g.task.workload = in.text();
    const std::string anchor = in.text();
    g.task.anchor_block = in.text(), g.task.flops = std::bit_cast<double>(in.fixed(8));
    g.task.weight = in.integer();
    const std::string kernel = in.text();
    g.platform.name = in.text(), g.platform.threads = in.integer();
    const std::string kind = in.text(), machine = in.text();
    g.space = in.text();
    if (in.failed()) return "it ends within a group";
#define TCC_X(name, text) \
  if (anchor == text) g.task.anchor = task::AnchorKind::k##name;
    TCC_TASK_ANCHORS(TCC_X)
#undef TCC_X
    if (task::anchor_name(g.task.anchor) != anchor) return "a task is of a kind that this version does not know";
    if (!record::find_name(kind, g.platform.kind)) return "a platform's times are of an unknown kind";
    if (!std::isfinite(g.task.flops) || g.task.flops < 0 || g.task.weight < 1 || g.platform.threads < 1)
      return "a task or a platform has impossible numbers";
    auto target = target::target_from_json(machine);
    if (!target) return "a platform's machine cannot be read: " + target.error().message;
    g.platform.target = std::move(*target);
    auto parsed = ir::parse(kernel);
    if (!parsed) return "a task's loop nest cannot be read: " + parsed.error().message;
    g.task.kernel = std::move(*parsed);
    if (g.task.key != fmt::format("{:016x}", ir::hash_kernel(g.task.kernel)))
      return "a task's loop nest is not that of its key";
    return "";
  }

  std::string read_entries(Reader& in, bool dense) {
    const uint64_t number = in.number();
    if (number >= pool_.groups.size()) return "entries are of a group that the file does not have";
    Group& g = pool_.groups[number];
    for (size_t n = in.count(kMaxEntries); n > 0 && !in.failed(); --n) {
      Entry e;
      const uint64_t sketch = in.number();
      if (sketch >= g.sketches.size()) return "an entry is of a sketch that its group does not have";
      e.sketch = static_cast<int32_t>(sketch);
      if (dense)
        read_decisions(in, g.sketches[sketch], e.decisions);
      else
        for (size_t d = g.sketches[sketch].decisions.size(); d > 0; --d) e.decisions.push_back(in.integer());
      const auto packed = static_cast<uint32_t>(in.fixed(3));
      if (packed >= kFirstFailure) {
        e.status = static_cast<record::Status>(packed - kFirstFailure);
        if (e.status == record::Status::kOk || record::status_name(e.status).empty())
          return "an entry failed for an unknown reason";
      } else {
        e.seconds = unpack_seconds(packed);
      }
      g.entries.push_back(std::move(e));
    }
    return "";
  }

  std::string_view bytes_;
  std::string name_;
  size_t at_ = 0;
  OpNumbers ops_;
  Pool pool_;
};

tl::unexpected<Error> cannot(const std::string& what, const std::string& path) {
  return tl::make_unexpected(Error{ErrorClass::kEnvironment,
                                   fmt::format("cannot {} '{}': {}", what, sanitize(path), std::strerror(errno)),
                                   "name a file that can be written"});
}

}  // namespace

std::string print_pool(const Pool& pool) {
  std::string out(kMagic);
  out += names_piece();
  for (size_t i = 0; i < pool.groups.size(); ++i) {
    out += group_piece(pool.groups[i], i, true, 0);
    if (!pool.groups[i].entries.empty()) out += entries_piece(pool.groups[i], i, 0);
  }
  return out;
}

Result<Pool> parse_pool(std::string_view bytes, const std::string& name, size_t* end) {
  return Parser(bytes, name).run(end);
}

std::string pack_pool(const Pool& pool) {
  return pack(print_pool(pool));
}

Result<Pool> read_pool(const std::string& path, bool* cut_off) {
  TCC_TRY(std::string bytes, read_file(path, kMaxBytes));
  if (is_packed(bytes)) {
    TCC_TRY(bytes, unpack(bytes, kMaxBytes, path));
  }
  size_t end = 0;
  TCC_TRY(Pool pool, parse_pool(bytes, path, &end));
  if (cut_off != nullptr) *cut_off = end < bytes.size();
  return pool;
}

Result<std::unique_ptr<PoolWriter>> PoolWriter::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return cannot("open", path);
  std::unique_ptr<PoolWriter> writer(new PoolWriter(path, fd));
  if (flock(fd, LOCK_EX | LOCK_NB) != 0)
    return make_error(ErrorClass::kEnvironment, fmt::format("another process writes '{}'", sanitize(path)),
                      "wait for it, or name another file");
  TCC_TRY(const std::string bytes, read_file(path, kMaxBytes));
  if (is_packed(bytes))
    return make_error(ErrorClass::kInput,
                      fmt::format("'{}': expected a pool that can grow, found a packed one", sanitize(path)),
                      "name another file, and join both with `tcc dataset merge`");
  // Less than the first eight bytes: the file is new, or its maker was interrupted at once.
  size_t end = 0;
  if (bytes.size() >= kMagic.size() || !kMagic.starts_with(bytes)) {
    TCC_TRY(writer->pool_, parse_pool(bytes, path, &end));
  }
  writer->cut_off_ = end < bytes.size();
  if (ftruncate(fd, static_cast<off_t>(end)) != 0 || lseek(fd, 0, SEEK_END) < 0) return cannot("write", path);
  // The names are those of this version for all that follows.
  TCC_TRY_VOID(writer->append((end == 0 ? std::string(kMagic) : std::string()) + names_piece()));
  return writer;
}

PoolWriter::~PoolWriter() {
  ::close(fd_);
}

Result<void> PoolWriter::append(std::string_view bytes) {
  if (!write_all(fd_, bytes)) return cannot("write", path_);
  if (fdatasync(fd_) != 0 && errno != EINVAL) return cannot("write", path_);
  return {};
}

Result<int64_t> PoolWriter::add(const Group& group) {
  const uint64_t key = group.key();
  auto place = [&] {
    size_t i = 0;
    while (i < pool_.groups.size() && pool_.groups[i].key() != key) ++i;
    return i;
  };
  const size_t at = place();
  const bool fresh = at == pool_.groups.size();
  const size_t sketches = fresh ? 0 : pool_.groups[at].sketches.size();
  const size_t entries = fresh ? 0 : pool_.groups[at].entries.size();
  const int64_t added = pool_.add(group);
  const Group& whole = pool_.groups[at];
  std::string bytes;
  if (fresh || whole.sketches.size() > sketches) bytes += group_piece(whole, at, fresh, sketches);
  if (added > 0) bytes += entries_piece(whole, at, entries);
  TCC_TRY_VOID(append(bytes));
  return added;
}

}  // namespace tcc::data
