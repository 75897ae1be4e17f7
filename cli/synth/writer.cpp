#include "synth/writer.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <filesystem>
#include <mutex>
#include <thread>

#include "command.hpp"
#include "file.hpp"

namespace pleiades::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kPieceBytes = std::uint64_t{8} << 20;

// Rows of one tensor that a thread makes and writes at once.
struct Piece {
  const PlannedTensor* tensor;
  std::uint64_t row_begin;  // in the tensor
  std::uint64_t row_count;
  std::uint64_t offset;  // in its file
};

struct Layout {
  std::vector<std::string> headers;       // by file: length, JSON and padding
  std::vector<std::uint64_t> file_bytes;  // by file
  std::vector<Piece> pieces;              // ascending by file and offset
};

std::string file_name(std::uint32_t file_index, std::uint32_t file_count) {
  if (file_count == 1) return "model.safetensors";
  return fmt::format("model-{:05}-of-{:05}.safetensors", file_index + 1, file_count);
}

// The header of a file, padded so that the data begins at a multiple of 8, as the format asks, but
// of no larger power of two: readers meet the alignment they find in the wild.
std::string header_text(const nlohmann::ordered_json& tensors) {
  std::string json = tensors.dump();
  while ((8 + json.size()) % 16 != 8) json += ' ';
  const std::uint64_t length = json.size();
  std::string text(8, '\0');
  std::memcpy(text.data(), &length, 8);
  return text + json;
}

void add_pieces(const PlannedTensor& tensor, std::uint64_t offset, std::vector<Piece>& pieces) {
  if (!tensor.literal.empty()) {
    pieces.push_back({&tensor, 0, tensor.row_count(), offset});
    return;
  }
  const std::uint64_t row_bytes = tensor.row_elements() * element_bytes(tensor.noise.format);
  const std::uint64_t rows_at_once = std::max<std::uint64_t>(1, kPieceBytes / row_bytes);
  for (std::uint64_t row = 0; row < tensor.row_count(); row += rows_at_once) {
    pieces.push_back(
        {&tensor, row, std::min(rows_at_once, tensor.row_count() - row), offset + row * row_bytes});
  }
}

Layout lay_out(const CheckpointPlan& plan) {
  Layout layout;
  for (std::uint32_t f = 0; f < plan.file_count; ++f) {
    nlohmann::ordered_json header;
    header["__metadata__"]["format"] = "pt";
    std::uint64_t data_bytes = 0;
    for (const PlannedTensor& tensor : plan.tensors) {
      if (tensor.file_index != f) continue;
      const std::uint64_t end = data_bytes + tensor.bytes();
      header[tensor.name] = {
          {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {data_bytes, end}}};
      data_bytes = end;
    }
    layout.headers.push_back(header_text(header));
    std::uint64_t offset = layout.headers.back().size();
    for (const PlannedTensor& tensor : plan.tensors) {
      if (tensor.file_index != f) continue;
      add_pieces(tensor, offset, layout.pieces);
      offset += tensor.bytes();
    }
    layout.file_bytes.push_back(offset);
  }
  return layout;
}

// The threads that make and write pieces, and what they share.
class Workers {
 public:
  Workers(const std::vector<Piece>& pieces, const std::vector<File>& files,
          std::uint32_t thread_count)
      : pieces_(pieces), files_(files) {
    try {
      for (std::uint32_t i = 0; i < thread_count; ++i) {
        threads_.emplace_back([this] { work(); });
      }
    } catch (...) {
      stop();
      throw;
    }
  }
  ~Workers() { stop(); }

  // Waits for news for up to a tenth of a second; true while threads are at work.
  bool wait() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(100),
                      [this] { return finished_ == threads_.size(); });
    return finished_ != threads_.size();
  }
  std::uint64_t done_bytes() const { return done_bytes_; }

  void stop() {
    is_stopped_ = true;
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
  }
  // After stop(): throws the first failure of a thread.
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void work() {
    try {
      std::vector<std::byte> buffer;
      for (std::size_t i = next_++; i < pieces_.size() && !is_stopped_; i = next_++) {
        write_piece(pieces_[i], buffer);
      }
    } catch (...) {
      is_stopped_ = true;
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    ++finished_;
    changed_.notify_one();
  }

  void write_piece(const Piece& piece, std::vector<std::byte>& buffer) {
    const PlannedTensor& tensor = *piece.tensor;
    const File& file = files_[tensor.file_index];
    if (!tensor.literal.empty()) {
      file.write_at(piece.offset, tensor.literal.data(), tensor.literal.size());
      done_bytes_ += tensor.literal.size();
      return;
    }
    const std::uint64_t bytes =
        piece.row_count * tensor.row_elements() * element_bytes(tensor.noise.format);
    buffer.resize(std::max<std::uint64_t>(buffer.size(), bytes));
    write_noise_rows(tensor.noise, tensor.row_begin + piece.row_begin, piece.row_count,
                     tensor.row_elements(), buffer.data());
    file.write_at(piece.offset, buffer.data(), bytes);
    done_bytes_ += bytes;
  }

  const std::vector<Piece>& pieces_;
  const std::vector<File>& files_;
  std::atomic<std::size_t> next_ = 0;
  std::atomic<std::uint64_t> done_bytes_ = 0;
  std::atomic<bool> is_stopped_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t finished_ = 0;    // guarded by mutex_
  std::exception_ptr failure_;  // guarded by mutex_
  std::vector<std::thread> threads_;
};

void write_index(const CheckpointPlan& plan, const PartialDirectory& directory) {
  nlohmann::ordered_json index;
  index["metadata"]["total_size"] = plan.bytes();
  for (const PlannedTensor& tensor : plan.tensors) {
    index["weight_map"][tensor.name] = file_name(tensor.file_index, plan.file_count);
  }
  const std::string text = index.dump(1);
  write_file(directory.file("model.safetensors.index.json"), text.data(), text.size());
}

}  // namespace

PartialDirectory::PartialDirectory(std::string path) : path_(std::move(path)) {
  while (path_.size() > 1 && path_.back() == '/') path_.pop_back();
  std::error_code failure;
  const fs::file_status status = fs::symlink_status(path_, failure);
  if (fs::exists(status) && !(fs::is_directory(status) && fs::is_empty(path_, failure))) {
    refuse("{}: exists already; choose another name, or remove it first", path_);
  }
  partial_ = fmt::format("{}.partial-{}", path_, ::getpid());
  if (!fs::create_directories(partial_, failure)) {
    refuse("{}: {}", partial_, failure ? failure.message() : "exists already");
  }
}

PartialDirectory::~PartialDirectory() {
  if (is_published_) return;
  std::error_code ignored;
  fs::remove_all(partial_, ignored);
}

std::uint64_t PartialDirectory::free_bytes() const {
  std::error_code failure;
  const fs::space_info space = fs::space(partial_, failure);
  if (failure) refuse("{}: {}", partial_, failure.message());
  return space.available;
}

void PartialDirectory::publish(const std::string& draft_config) {
  std::error_code failure;
  fs::rename(file(draft_config), file("config.json"), failure);
  if (!failure) {
    File::open_readonly(partial_).sync();
    fs::rename(partial_, path_, failure);
  }
  if (failure) refuse("{}: {}", path_, failure.message());
  is_published_ = true;
}

void write_file(const std::string& path, const void* bytes, std::uint64_t count) {
  const File file = File::create(path);
  file.write_at(0, bytes, count);
  file.sync();
}

bool write_tensors(const CheckpointPlan& plan, const PartialDirectory& directory,
                   std::uint32_t thread_count,
                   const std::function<bool(std::uint64_t, std::uint64_t)>& progress) {
  const Layout layout = lay_out(plan);
  std::vector<File> files;
  for (std::uint32_t f = 0; f < plan.file_count; ++f) {
    files.push_back(File::create(directory.file(file_name(f, plan.file_count))));
    files.back().resize(layout.file_bytes[f]);
    files.back().write_at(0, layout.headers[f].data(), layout.headers[f].size());
  }
  const std::uint64_t total = plan.bytes();
  bool is_wanted = true;
  {
    Workers workers(layout.pieces, files, thread_count);
    while (is_wanted && workers.wait()) is_wanted = progress(workers.done_bytes(), total);
    workers.stop();
    workers.rethrow();
  }
  if (!is_wanted) return false;
  for (const File& file : files) file.sync();
  if (plan.file_count > 1) write_index(plan, directory);
  return true;
}

}  // namespace pleiades::cli
