#pragma once

#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <iterator>
#include <string>

namespace ple::test {

// Runs body in a process of its own, where it may take rights from itself. Returns what body
// returned, which is empty when all was well.
inline std::string in_child(const std::function<std::string()>& body) {
  int ends[2];
  if (::pipe(ends) != 0) return "no pipe";
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string words = body();
    const bool written =
        ::write(ends[1], words.data(), words.size()) == static_cast<ssize_t>(words.size());
    ::_exit(written ? 0 : 1);
  }
  ::close(ends[1]);
  std::string words;
  char buffer[512];
  for (ssize_t count; (count = ::read(ends[0], buffer, sizeof buffer)) > 0;) {
    words.append(buffer, static_cast<std::size_t>(count));
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (status != 0) words += "; the child ended with status " + std::to_string(status);
  return words;
}

// From now on the system call fails with error_number, where its argument number `argument` has a
// bit of `mask` (mask 0: always). False where the kernel does not let us.
inline bool deny_system_call(long number, int error_number, unsigned argument = 0,
                             std::uint32_t mask = 0) {
  const auto argument_offset =
      static_cast<std::uint32_t>(offsetof(seccomp_data, args) + argument * sizeof(std::uint64_t));
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(number), 0, 4),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument_offset),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, mask, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, mask == 0
                                    ? SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error_number)
                                    : SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error_number)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter = {static_cast<unsigned short>(std::size(program)), program};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// No more locked memory than this from now on, also for root.
inline bool limit_locked_memory(std::uint64_t bytes) {
  const rlimit limit = {bytes, bytes};
  if (::setrlimit(RLIMIT_MEMLOCK, &limit) != 0) return false;
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct rights[2] = {};
  if (::syscall(SYS_capget, &header, rights) != 0) return false;
  rights[0].effective &= ~(1U << CAP_IPC_LOCK);
  return ::syscall(SYS_capset, &header, rights) == 0;
}

}  // namespace ple::test
