#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <optional>
#include <pleiades/pleiades.hpp>
#include <string>
#include <utility>

namespace pleiades::python {

// Owner of one of pleiades.hpp's objects in a Python object: can be released early, refuses use
// afterwards and use by two threads at once. Releasing may wait for threads of the library that are
// in a log callback, so it lets go of the interpreter lock.
template <class Object>
class Handle {
 public:
  Handle(const char* name, Object&& object) : name_(name), object_(std::move(object)) {}
  Handle(const Handle&) = delete;
  ~Handle() { release_now(); }

  // The object; one thread at a time is the caller's duty.
  Object& get() {
    if (!object_) throw Error(PLE_WRONG_STATE, "the " + std::string(name_) + " was released");
    return *object_;
  }

  // Harmless when released already.
  void release() {
    const Use use(*this);
    release_now();
  }

  // While it lives, other threads are refused.
  class Use {
   public:
    explicit Use(Handle& handle) : handle_(&handle) {
      if (!handle.in_use_.exchange(true, std::memory_order_acquire)) return;
      throw Error(PLE_WRONG_STATE, "the " + std::string(handle.name_) +
                                       " is in use by another thread: one thread at a time");
    }
    Use(Use&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    ~Use() {
      if (handle_ != nullptr) handle_->in_use_.store(false, std::memory_order_release);
    }

   private:
    Handle* handle_;
  };

 private:
  void release_now() {
    if (!object_) return;
    const nanobind::gil_scoped_release unlocked;
    object_.reset();
  }

  const char* name_;
  std::optional<Object> object_;
  std::atomic<bool> in_use_ = false;
};

}  // namespace pleiades::python
