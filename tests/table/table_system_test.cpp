// Reading where the real kernel refuses something. Each case runs in a process of its own, which
// takes the right from itself. Alone in its program, because these processes are forked.

#include <fcntl.h>

#include <cerrno>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "support/child_process.hpp"
#include "support/random.hpp"
#include "support/row_reading.hpp"
#include "support/table_files.hpp"
#include "table/table.hpp"

namespace ple {
namespace {

class TableSystemTest : public testing::Test {
 protected:
  // Reads every third row; returns what was wrong.
  std::string read(const TableOptions& options,
                   const std::function<std::string(const BlockReaderInfo&)>& judge) {
    auto table = Table::open(files_.spec(), files_.files(), options);
    if (!table.is_ok()) return table.status().message();
    std::vector<RowId> rows;
    for (RowId row = 0; row < files_.spec().row_count; row += 3) rows.push_back(row);
    const test::RowDestinations destinations(rows, files_.row_bytes());
    const auto batch = table.value()->make_batch();
    if (!table.value()->submit(destinations.reads(), batch).is_ok()) return "not submitted";
    const Status status = batch->wait(std::chrono::minutes(5));
    if (!status.is_ok()) return status.message();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (destinations.row(i) != files_.row_string(rows[i])) return "wrong row";
    }
    return judge(table.value()->reader_info());
  }

  test::Random random_;
  test::TableFiles files_{
      random_, {.row_count = 1000, .part_bytes = {320}, .shard_count = 12, .file_count = 3}};
};

TEST_F(TableSystemTest, WhereUringIsDeniedPreadServes) {
  for (const int error_number : {EPERM, ENOSYS}) {
    EXPECT_EQ(test::in_child([&]() -> std::string {
                if (!test::deny_system_call(SYS_io_uring_setup, error_number)) return "no seccomp";
                return read({}, [](const BlockReaderInfo& info) {
                  return info.features.backend == IoBackend::pread ? "" : "not by pread";
                });
              }),
              "");
  }
}

TEST_F(TableSystemTest, ThreadsThatDoNotStartAreAnError) {
  for (const IoBackend backend : {IoBackend::uring, IoBackend::pread}) {
    TableOptions options;
    options.reader.backend = backend;
    const std::string words = test::in_child([&]() -> std::string {
      if (!test::deny_system_call(SYS_clone3, EAGAIN)) return "no seccomp";
      return read(options, [](const BlockReaderInfo&) { return "a thread started"; });
    });
    EXPECT_NE(words.find("a thread does not start"), std::string::npos) << words;
  }
}

TEST_F(TableSystemTest, UringAskedForByNameIsNotReplaced) {
  const std::string words = test::in_child([&]() -> std::string {
    if (!test::deny_system_call(SYS_io_uring_setup, EPERM)) return "no seccomp";
    TableOptions options;
    options.reader.backend = IoBackend::uring;
    return read(options, [](const BlockReaderInfo&) { return "it was"; });
  });
  EXPECT_EQ(words, "io_uring: io_uring_setup: Operation not permitted");
}

TEST_F(TableSystemTest, WhereUringCannotReadPreadServes) {
  EXPECT_EQ(test::in_child([&]() -> std::string {
              if (!test::deny_system_call(SYS_io_uring_enter, EPERM)) return "no seccomp";
              return read({}, [](const BlockReaderInfo& info) {
                return info.features.backend == IoBackend::pread ? "" : "not by pread";
              });
            }),
            "");
}

TEST_F(TableSystemTest, WhereNothingCanBeRegisteredUringServesWithout) {
  EXPECT_EQ(test::in_child([&]() -> std::string {
              if (!test::deny_system_call(SYS_io_uring_register, EPERM)) return "no seccomp";
              return read({}, [](const BlockReaderInfo& info) -> std::string {
                if (info.features.backend != IoBackend::uring) return "not by uring";
                return info.features.fixed_buffers || info.features.registered_files ? "registered"
                                                                                     : "";
              });
            }),
            "");
}

TEST_F(TableSystemTest, ALittleLockedMemoryIsEnough) {
  EXPECT_EQ(test::in_child([&]() -> std::string {
              if (!test::limit_locked_memory(64 << 10)) return "no limit";
              return read({}, [](const BlockReaderInfo& info) -> std::string {
                if (info.features.backend != IoBackend::uring) return "not by uring";
                return info.features.fixed_buffers ? "more was locked" : "";
              });
            }),
            "");
}

TEST_F(TableSystemTest, WhereDirectReadsAreDeniedThePageCacheServes) {
  for (const IoBackend backend : {IoBackend::uring, IoBackend::pread}) {
    EXPECT_EQ(test::in_child([&]() -> std::string {
                if (!test::deny_system_call(SYS_openat, EINVAL, 2, O_DIRECT)) return "no seccomp";
                TableOptions options;
                options.reader.backend = backend;
                return read(options, [](const BlockReaderInfo& info) {
                  return info.is_direct ? "direct" : "";
                });
              }),
              "");
  }
}

}  // namespace
}  // namespace ple
