#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "base/status.hpp"
#include "base/types.hpp"
#include "cache/row_cache.hpp"
#include "checkpoint/model_spec.hpp"

namespace ple {

struct EngineLayer;

// The ids of the rows that were hot when an engine closed, so that the next one reads them back in
// the background (docs/warm-start-format.md). Saving replaces the file in one go.
Status save_warm_start(const std::string& path, const ModelSpec& model,
                       std::span<const EngineLayer> layers);

// Reads the rows that a warm start file names into the caches, hottest first and a few at a time,
// so that steps hardly wait for it.
class WarmStart {
 public:
  // not_found when there is no file yet; refuses a file of another model or a damaged one. The
  // layers' caches outlive what is returned.
  static Result<std::unique_ptr<WarmStart>> start(const std::string& path, const ModelSpec& model,
                                                  std::span<const EngineLayer> layers);
  // Leaves out what is not read yet.
  ~WarmStart();

 private:
  // A layer's rows and how many of them were seen to.
  struct LayerRows {
    RowCache* cache = nullptr;
    std::vector<RowId> rows;
    std::size_t done = 0;
  };

  explicit WarmStart(std::vector<LayerRows> layers) : layers_(std::move(layers)) {}

  // Goes on as far as the caches allow. False when all is done, or cannot be.
  bool go_on();
  void run();

  std::vector<LayerRows> layers_;  // of the thread, once it runs
  Mutex mutex_;
  ConditionVariable stopping_changed_;
  bool is_stopping_ PLE_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace ple
