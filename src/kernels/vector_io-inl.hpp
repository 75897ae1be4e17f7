// Loads and stores of f32 vectors from f32 and bf16 arrays, included once per Highway target.
#if defined(PLE_VECTOR_IO_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef PLE_VECTOR_IO_INL
#undef PLE_VECTOR_IO_INL
#else
#define PLE_VECTOR_IO_INL
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace ple::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using U32 = hn::RebindToUnsigned<F32>;
using U16 = hn::Rebind<std::uint16_t, F32>;
using Vector = hn::Vec<F32>;

// The bf16 nearest to each lane, still as f32; NaN stays NaN.
HWY_INLINE Vector rounded_to_bf16(Vector x) {
  const U32 u32;
  const auto bits = hn::BitCast(u32, x);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(u32, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(u32, 0x7FFF)));
  const auto quiet = hn::Or(bits, hn::Set(u32, 0x400000));
  const auto is_nan = hn::RebindMask(u32, hn::IsNaN(x));
  const auto kept = hn::And(hn::IfThenElse(is_nan, quiet, rounded), hn::Set(u32, 0xFFFF0000U));
  return hn::BitCast(F32(), kept);
}

HWY_INLINE Vector load_full(const float* from) { return hn::LoadU(F32(), from); }

HWY_INLINE Vector load_full(const std::uint16_t* from) {
  const auto wide = hn::PromoteTo(U32(), hn::LoadU(U16(), from));
  return hn::BitCast(F32(), hn::ShiftLeft<16>(wide));
}

HWY_INLINE void store_full(Vector x, float* to) { hn::StoreU(x, F32(), to); }

HWY_INLINE void store_full(Vector x, std::uint16_t* to) {
  const hn::RebindToSigned<U32> i32;
  const auto high = hn::ShiftRight<16>(hn::BitCast(U32(), rounded_to_bf16(x)));
  hn::StoreU(hn::DemoteTo(U16(), hn::BitCast(i32, high)), U16(), to);
}

// The first count lanes; the others are zero when loaded and kept in memory when stored.
template <class Element>
HWY_INLINE Vector load(const Element* from, std::size_t count) {
  if (count == hn::Lanes(F32())) return load_full(from);
  Element lanes[hn::MaxLanes(F32())] = {};
  std::memcpy(lanes, from, count * sizeof(Element));
  return load_full(lanes);
}

template <class Element>
HWY_INLINE void store(Vector x, Element* to, std::size_t count) {
  if (count == hn::Lanes(F32())) return store_full(x, to);
  Element lanes[hn::MaxLanes(F32())];
  store_full(x, lanes);
  std::memcpy(to, lanes, count * sizeof(Element));
}

// body(begin, lane_count) for [0, count) in steps of a vector; the last one may be partial.
template <class Body>
HWY_INLINE void for_each_vector(std::int64_t count, Body body) {
  constexpr auto kLanes = static_cast<std::int64_t>(hn::MaxLanes(F32()));
  std::int64_t begin = 0;
  for (; begin + kLanes <= count; begin += kLanes) body(begin, static_cast<std::size_t>(kLanes));
  if (begin < count) body(begin, static_cast<std::size_t>(count - begin));
}

HWY_INLINE float sum_of_lanes(Vector x) { return hn::GetLane(hn::SumOfLanes(F32(), x)); }

}  // namespace ple::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
