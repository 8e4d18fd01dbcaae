#include "measure/host/sandbox.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace tcc::measure {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr uint32_t kArchitecture = 0;
#endif

constexpr uint32_t kX32Calls = 0x40000000;

constexpr int kRefusedCalls[] = {
    SYS_socket,
    SYS_socketpair,
    SYS_connect,
    SYS_bind,
    SYS_listen,
    SYS_accept,
    SYS_accept4,
    SYS_sendmmsg,
    SYS_execve,
    SYS_execveat,
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_unshare,
    SYS_setns,
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_reboot,
    SYS_open_by_handle_at,
    SYS_unlinkat,
    SYS_renameat2,
    SYS_mkdirat,
    SYS_symlinkat,
    SYS_linkat,
    SYS_fchmodat,
    SYS_fchmod,
    SYS_fchownat,
    SYS_truncate,
#ifdef SYS_openat2
    SYS_openat2,  // its flags are in memory, where a filter cannot look
#endif
#ifdef SYS_io_uring_setup
    SYS_io_uring_setup,
#endif
#ifdef SYS_fork
    SYS_fork,
    SYS_vfork,
#endif
#ifdef SYS_creat
    SYS_creat,
    SYS_unlink,
    SYS_rename,
    SYS_renameat,
    SYS_mkdir,
    SYS_rmdir,
    SYS_symlink,
    SYS_link,
    SYS_chmod,
    SYS_chown,
    SYS_lchown,
#endif
};

class Filter {
 public:
  void load(size_t offset) { add(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset)); }
  void load_number() { load(offsetof(seccomp_data, nr)); }
  // The lower half of an argument.
  void load_argument(int i) { load(offsetof(seccomp_data, args) + static_cast<size_t>(i) * sizeof(uint64_t)); }
  void answer(uint32_t what) { add(BPF_RET | BPF_K, what); }
  // Skips the next `n` instructions where the value is another.
  void unless_equal_skip(uint32_t value, uint8_t n) { jump(BPF_JEQ, value, 0, n); }
  void if_equal_skip(uint32_t value, uint8_t n) { jump(BPF_JEQ, value, n, 0); }
  void if_any_bit_skip(uint32_t bits, uint8_t n) { jump(BPF_JSET, bits, n, 0); }
  void unless_any_bit_skip(uint32_t bits, uint8_t n) { jump(BPF_JSET, bits, 0, n); }

  std::vector<sock_filter> code;

 private:
  void add(uint16_t op, uint32_t k) { code.push_back({op, 0, 0, k}); }
  void jump(uint16_t test, uint32_t k, uint8_t yes, uint8_t no) {
    code.push_back({static_cast<uint16_t>(BPF_JMP | test | BPF_K), yes, no, k});
  }
};

constexpr uint32_t kRefuse = SECCOMP_RET_ERRNO | EPERM;

// Refuses the call `number` where the argument has one of the bits, or, with `unless`, has none of them.
void refuse_by_bits(Filter& f, int number, int argument, uint32_t bits, bool unless) {
  f.load_number();
  f.unless_equal_skip(static_cast<uint32_t>(number), 4);
  f.load_argument(argument);
  if (unless)
    f.if_any_bit_skip(bits, 1);
  else
    f.unless_any_bit_skip(bits, 1);
  f.answer(kRefuse);
  f.answer(SECCOMP_RET_ALLOW);
}

// Refuses to send on other sockets than this one; -1: on all.
void refuse_sending(Filter& f, int socket) {
  for (const int call : {SYS_sendto, SYS_sendmsg}) {
    f.load_number();
    f.unless_equal_skip(static_cast<uint32_t>(call), 4);
    f.load_argument(0);
    f.unless_equal_skip(static_cast<uint32_t>(socket), 1);
    f.answer(SECCOMP_RET_ALLOW);
    f.answer(kRefuse);
  }
}

// `socket`: sending on it is left; -1: on none. `writes`: flags of open() that are refused.
std::vector<sock_filter> make_filter(int socket, uint32_t writes) {
  Filter f;
  f.load(offsetof(seccomp_data, arch));
  f.if_equal_skip(kArchitecture, 1);
  f.answer(kRefuse);
  f.load_number();
  f.unless_any_bit_skip(kX32Calls, 1);
  f.answer(kRefuse);
  refuse_sending(f, socket);
  f.load_number();
  for (const int call : kRefusedCalls) {
    f.unless_equal_skip(static_cast<uint32_t>(call), 1);
    f.answer(kRefuse);
  }
#ifdef SYS_clone3
  // Its flags are in memory, too. The C library asks for clone then.
  f.unless_equal_skip(SYS_clone3, 1);
  f.answer(SECCOMP_RET_ERRNO | ENOSYS);
#endif
  refuse_by_bits(f, SYS_openat, 2, writes, false);
#ifdef SYS_open
  refuse_by_bits(f, SYS_open, 1, writes, false);
#endif
  refuse_by_bits(f, SYS_clone, 0, CLONE_THREAD, true);
  f.answer(SECCOMP_RET_ALLOW);
  return std::move(f.code);
}

bool enter(std::vector<sock_filter> code) {
  sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

constexpr uint32_t kNewFiles = O_CREAT | O_TRUNC | (O_TMPFILE & ~O_DIRECTORY);

}  // namespace

bool enter_sandbox() {
  return kArchitecture != 0 && enter(make_filter(-1, O_WRONLY | O_RDWR | kNewFiles));
}

bool enter_device_sandbox(int socket) {
  return kArchitecture != 0 && enter(make_filter(socket, kNewFiles));
}

}  // namespace tcc::measure
