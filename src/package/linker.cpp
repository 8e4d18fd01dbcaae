#include "linker.h"

#include <fmt/ranges.h>
#include <link.h>
#include <signal.h>
#include <sys/wait.h>

#include <filesystem>

#include "lld.h"
#include "tcc/support/files.h"
#include "tcc/support/process.h"
#include "tcc/support/text.h"

namespace tcc::package {
namespace {

// The C library as this process has it loaded; else where distributions keep it.
std::string find_system_library(const std::string& name) {
  struct Search {
    const std::string& name;
    std::string found;
  } search{name, {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        auto& s = *static_cast<Search*>(data);
        std::string path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
        if (std::filesystem::path(path).filename() == s.name) s.found = path;
        return s.found.empty() ? 0 : 1;
      },
      &search);
  if (!search.found.empty() && file_exists(search.found)) return search.found;
  for (const char* folder :
       {"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"}) {
    std::string path = std::string(folder) + "/" + name;
    if (file_exists(path)) return path;
  }
  return "";
}

// Arguments that every ELF linker understands.
Result<std::vector<std::string>> linker_arguments(const LinkRequest& request, const std::string& script) {
  std::vector<std::string> args = {"-shared",
                                   "-m",
                                   "elf_x86_64",
                                   "--gc-sections",
                                   "--strip-debug",
                                   "--build-id=none",
                                   "--hash-style=gnu",
                                   "-z",
                                   "defs",
                                   "-z",
                                   "relro",
                                   "-z",
                                   "now",
                                   "-z",
                                   "noexecstack",
                                   "-soname",
                                   request.soname,
                                   "--version-script",
                                   script,
                                   "-o",
                                   request.output};
  args.insert(args.end(), request.objects.begin(), request.objects.end());
  args.push_back("--as-needed");
  for (const char* name : {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}) {
    std::string path = find_system_library(name);
    if (path.empty()) {
      return make_error(ErrorClass::kEnvironment,
                        fmt::format("cannot find the system library {} to link against", name),
                        "libraries are built on x86-64 Linux with glibc only");
    }
    args.push_back(path);
  }
  return args;
}

// A compiler driver takes linker arguments behind -Xlinker.
bool is_compiler(const std::string& program) {
  std::string name = std::filesystem::path(program).filename().string();
  return name.rfind("ld", 0) != 0;
}

std::vector<std::string> program_command(const std::string& program, const std::vector<std::string>& args) {
  std::vector<std::string> command = {program};
  if (!is_compiler(program)) {
    command.insert(command.end(), args.begin(), args.end());
    return command;
  }
  command.insert(command.end(), {"-shared", "-nostdlib"});
  for (const std::string& a : args) {
    if (a == "-shared") continue;
    command.insert(command.end(), {"-Xlinker", a});
  }
  return command;
}

tl::unexpected<Error> link_failed(const std::string& linker, const std::string& text) {
  std::vector<std::string> notes;
  for (size_t at = 0; at < text.size() && notes.size() < 10;) {
    size_t end = std::min(text.find('\n', at), text.size());
    notes.push_back(sanitize(std::string_view(text).substr(at, end - at), 300));
    at = end + 1;
  }
  // The texts of ENOMEM and of C++ libraries.
  for (const char* reason : {"Cannot allocate memory", "out of memory", "memory exhausted", "bad_alloc"})
    if (text.find(reason) != std::string::npos)
      return make_error(ErrorClass::kEnvironment,
                        fmt::format("{} ran out of memory while it linked the library", linker),
                        "free memory, raise the limit on it (ulimit -v), or build a smaller model", notes);
  return make_error(ErrorClass::kEnvironment, fmt::format("{} could not link the library", linker),
                    "check the space on the disk of the output folder", notes);
}

}  // namespace

Result<std::string> link_library(const LinkRequest& request, const std::string& linker) {
  std::string script = request.scratch + "/exports.map";
  TCC_TRY_VOID(write_file(script, fmt::format("{{ global: {}; local: *; }};\n", request.exported)));
  TCC_TRY(std::vector<std::string> args, linker_arguments(request, script));
  std::vector<std::string> candidates = {linker};
  if (linker.empty()) candidates = {"lld", "ld.lld-19", "ld.lld", "ld", "cc"};
  for (const std::string& candidate : candidates) {
    if (candidate == "lld") {
      if (!has_lld() && linker.empty()) continue;
      if (auto said = run_lld(args)) return link_failed("lld", *said);
      return candidate;
    }
    TCC_TRY(ProgramRun ran, run_program(program_command(candidate, args), request.scratch));
    // A shell-like 127 means that the program could not be started after all.
    if (!ran.started || (WIFEXITED(ran.status) && WEXITSTATUS(ran.status) == 127)) continue;
    if (WIFSIGNALED(ran.status))
      ran.text += fmt::format("\nthe system ended it by signal {}{}", WTERMSIG(ran.status),
                              WTERMSIG(ran.status) == SIGKILL ? ", as it does when it is out of memory" : "");
    if (!WIFEXITED(ran.status) || WEXITSTATUS(ran.status) != 0) return link_failed(candidate, ran.text);
    return candidate;
  }
  return make_error(ErrorClass::kEnvironment, fmt::format("found no linker: tried {}", fmt::join(candidates, ", ")),
                    "install lld or binutils (apt install lld binutils)");
}

}  // namespace tcc::package
