// Random rows out of one file, as a table reads them and as others do:
//
//   row_reads_bench WAY FILE [SECONDS [DEPTH [BLOCK_BYTES]]]
//
// WAY  uring, pread   a Table, batches of 8,192 rows, two in flight
//      one_pread      one blocking read of one row at a time, through the page cache
//      mmap           a memory map, rows copied out one after the other
//      mmap_advised   a memory map; the pages of 1,024 rows are asked for (MADV_WILLNEED), then
//                     their rows copied out
//
// Rows are distinct, 320 bytes each, and none is in the page cache when it begins. Prints one line
// of JSON. `--smoke` runs every way on a small file for a moment.

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "io/unique_fd.hpp"
#include "table/table.hpp"

namespace {

using namespace ple;
using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kRowBytes = 320;
// No multiple of a block, as in real checkpoints.
constexpr std::uint64_t kBase = 1234;
constexpr std::size_t kBatchRows = 8192;
constexpr std::size_t kAdvisedRows = 1024;

struct Job {
  std::string way;
  std::string path;
  double seconds = 3;
  std::uint32_t depth = 0;
  std::uint32_t block_bytes = 0;
};

[[noreturn]] void fail(const std::string& words) {
  std::fprintf(stderr, "row_reads_bench: %s\n", words.c_str());
  std::exit(1);
}

template <class T>
T value_of(Result<T> result) {
  if (!result.is_ok()) fail(result.status().message());
  return std::move(result).value();
}

void check(const Status& status) {
  if (!status.is_ok()) fail(status.message());
}

// Row ids without repeats (until the table is through), in random order.
class Rows {
 public:
  explicit Rows(std::uint64_t row_count) : row_count_(row_count) {
    if (row_count_ == 0) fail("the file holds no row");
    while (std::gcd(stride_, row_count_) != 1) stride_ += 2;
    at_ = std::random_device{}() % row_count_;
  }
  RowId next() {
    at_ = (at_ + stride_) % row_count_;
    return static_cast<RowId>(at_);
  }

 private:
  std::uint64_t row_count_;
  // Golden section: neighbours in the sequence lie far apart.
  std::uint64_t stride_ = static_cast<std::uint64_t>(0.6180339887 * 4294967296.0) | 1;
  std::uint64_t at_ = 0;
};

struct File {
  explicit File(const std::string& path) : fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    struct stat info = {};
    if (!fd.is_open() || ::fstat(fd.get(), &info) != 0) fail("cannot open " + path);
    bytes = static_cast<std::uint64_t>(info.st_size);
    row_count = std::min<std::uint64_t>((bytes - std::min(bytes, kBase)) / kRowBytes, kNoRow - 1);
    ::fdatasync(fd.get());
    ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
  }
  static std::uint64_t offset(RowId row) { return kBase + std::uint64_t{row} * kRowBytes; }

  UniqueFd fd;
  std::uint64_t bytes = 0;
  std::uint64_t row_count = 0;
};

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double cpu_seconds() {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Measured {
  std::uint64_t rows = 0;
  double seconds = 0;
  double cpu_seconds = 0;
  std::string more;
};

// A batch of the table and where its rows go.
struct Lane {
  std::shared_ptr<RowReadBatch> batch;
  std::vector<std::byte> bytes = std::vector<std::byte>(kBatchRows * kRowBytes);
  std::vector<RowRead> reads;

  void submit(Table& table, Rows& rows) {
    reads.clear();
    const std::size_t count = std::min<std::uint64_t>(kBatchRows, table.row_count());
    for (std::size_t i = 0; i < count; ++i) {
      reads.push_back({rows.next(), bytes.data() + i * kRowBytes});
    }
    check(table.submit(reads, batch));
  }
  void wait() { check(batch->wait(std::chrono::minutes(1))); }
};

void verify(Table& table, Rows& rows, const File& file, Lane& lane) {
  lane.submit(table, rows);
  lane.wait();
  for (std::size_t i = 0; i < std::min<std::size_t>(lane.reads.size(), 256); ++i) {
    std::byte row[kRowBytes];
    const RowRead& read = lane.reads[i];
    const auto offset = static_cast<off_t>(File::offset(read.row));
    if (::pread(file.fd.get(), row, kRowBytes, offset) != kRowBytes ||
        std::memcmp(row, read.destination, kRowBytes) != 0) {
      fail(fmt::format("row {} is wrong", read.row));
    }
  }
}

Measured by_table(const Job& job, IoBackend backend) {
  const File file(job.path);
  TableSpec spec;
  spec.row_count = file.row_count;
  spec.encoding = {RowFormat::bf16, kRowBytes / 2, kRowBytes, 1.0F};
  spec.part_bytes = {kRowBytes};
  ShardExtent& shard = spec.shards.emplace_back();
  shard.offset = kBase;
  shard.row_count = file.row_count;
  const ModelFile model_file{job.path, file.bytes};
  TableOptions options;
  options.reader = {.backend = backend, .depth = job.depth, .block_bytes = job.block_bytes};
  const auto table = value_of(Table::open(spec, {&model_file, 1}, options));
  Rows rows(file.row_count);
  Lane lanes[2];
  for (Lane& lane : lanes) lane.batch = table->make_batch();
  verify(*table, rows, file, lanes[0]);

  const std::uint64_t reads_before = table->reader_metrics().read_count.load();
  const double cpu_before = cpu_seconds();
  const Clock::time_point begin = Clock::now();
  for (Lane& lane : lanes) lane.submit(*table, rows);
  Measured measured;
  std::size_t turn = 0;
  for (; seconds_since(begin) < job.seconds; turn ^= 1) {
    lanes[turn].wait();
    measured.rows += lanes[turn].reads.size();
    lanes[turn].submit(*table, rows);
  }
  for (Lane& lane : lanes) {
    lane.wait();
    measured.rows += lane.reads.size();
  }
  measured.seconds = seconds_since(begin);
  measured.cpu_seconds = cpu_seconds() - cpu_before;
  const BlockReaderMetrics& metrics = table->reader_metrics();
  const auto reads = static_cast<double>(metrics.read_count.load() - reads_before);
  const BlockReaderInfo& info = table->reader_info();
  measured.more = fmt::format(
      R"(, "reads_per_s": {:.0f}, "block_bytes": {}, "depth": {}, "direct": {}, "fixed_buffers": {}, )"
      R"("read_us": {{"p50": {:.1f}, "p99": {:.1f}}})",
      reads / measured.seconds, info.block_bytes, info.depth, info.is_direct,
      info.features.fixed_buffers, static_cast<double>(metrics.read_ns.percentile_ns(0.5)) * 1e-3,
      static_cast<double>(metrics.read_ns.percentile_ns(0.99)) * 1e-3);
  return measured;
}

// Calls read_some, which reads so many rows, until the time is over.
template <class ReadSome>
Measured repeat(double seconds, std::size_t rows, ReadSome read_some) {
  Measured measured;
  const double cpu_before = cpu_seconds();
  const Clock::time_point begin = Clock::now();
  while (measured.seconds < seconds) {
    read_some();
    measured.rows += rows;
    measured.seconds = seconds_since(begin);
  }
  measured.cpu_seconds = cpu_seconds() - cpu_before;
  return measured;
}

Measured by_one_pread(const Job& job) {
  const File file(job.path);
  Rows rows(file.row_count);
  std::byte row[kRowBytes];
  return repeat(job.seconds, 1, [&] {
    const auto offset = static_cast<off_t>(File::offset(rows.next()));
    if (::pread(file.fd.get(), row, kRowBytes, offset) != kRowBytes) fail("a short read");
  });
}

Measured by_mmap(const Job& job, bool is_advised) {
  const File file(job.path);
  Rows rows(file.row_count);
  void* map = ::mmap(nullptr, file.bytes, PROT_READ, MAP_SHARED, file.fd.get(), 0);
  if (map == MAP_FAILED) fail("mmap");
  const auto* bytes = static_cast<const std::byte*>(map);
  if (is_advised) ::madvise(map, file.bytes, MADV_RANDOM);
  std::vector<RowId> ids(is_advised ? kAdvisedRows : 1);
  std::byte row[kRowBytes];
  const Measured measured = repeat(job.seconds, ids.size(), [&] {
    for (RowId& id : ids) id = rows.next();
    for (const RowId id : ids) {
      if (!is_advised) break;
      const std::uint64_t page = File::offset(id) & ~std::uint64_t{4095};
      const std::uint64_t end = File::offset(id) + kRowBytes;
      ::madvise(static_cast<std::byte*>(map) + page, end - page, MADV_WILLNEED);
    }
    for (const RowId id : ids) {
      std::memcpy(row, bytes + File::offset(id), kRowBytes);
      asm volatile("" : : "r"(row) : "memory");  // or the copy would be left out
    }
  });
  ::munmap(map, file.bytes);
  return measured;
}

void run(const Job& job) {
  Measured measured;
  if (job.way == "uring") {
    measured = by_table(job, IoBackend::uring);
  } else if (job.way == "pread") {
    measured = by_table(job, IoBackend::pread);
  } else if (job.way == "one_pread") {
    measured = by_one_pread(job);
  } else if (job.way == "mmap" || job.way == "mmap_advised") {
    measured = by_mmap(job, job.way == "mmap_advised");
  } else {
    fail("no way '" + job.way + "'");
  }
  const auto rows = static_cast<double>(measured.rows);
  fmt::print(R"({{"way": "{}", "rows_per_s": {:.0f}, "cpu_us_per_row": {:.2f}{}}})"
             "\n",
             job.way, rows / measured.seconds, 1e6 * measured.cpu_seconds / rows, measured.more);
}

void smoke() {
  std::string path = (std::filesystem::temp_directory_path() / "row-reads-XXXXXX").string();
  const UniqueFd fd(::mkstemp(path.data()));
  std::ofstream(path, std::ios::binary) << std::string(std::size_t{1} << 20, 'x');
  for (const char* way : {"pread", "one_pread", "mmap", "mmap_advised"}) {
    run({.way = way, .path = path, .seconds = 0.01});
  }
  std::filesystem::remove(path);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--smoke") {
    smoke();
    return 0;
  }
  if (argc < 3) fail("usage: row_reads_bench WAY FILE [SECONDS [DEPTH [BLOCK_BYTES]]]");
  Job job{.way = argv[1], .path = argv[2]};
  if (argc > 3) job.seconds = std::strtod(argv[3], nullptr);
  if (argc > 4) job.depth = static_cast<std::uint32_t>(std::strtoul(argv[4], nullptr, 10));
  if (argc > 5) job.block_bytes = static_cast<std::uint32_t>(std::strtoul(argv[5], nullptr, 10));
  run(job);
  return 0;
}
