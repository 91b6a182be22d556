// Integers, element types and operators. One source for nvcc, NVRTC, g++ and clang++; includes nothing.
#pragma once

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define ACCL_CUDA 1
#define ACCL_INLINE [[maybe_unused]] static __device__ __forceinline__
#define ACCL_CALLED [[maybe_unused]] static __device__ __noinline__
#define ACCL_SCRIPT ACCL_CALLED
#else
#define ACCL_CUDA 0
#define ACCL_INLINE [[maybe_unused]] static inline
#define ACCL_CALLED [[maybe_unused]] static __attribute__((noinline))
// Long lists of calls with constants: there is nothing to optimise, and compilers take their time to find that.
#if defined(__clang__)
#define ACCL_SCRIPT static __attribute__((noinline, optnone))
#else
#define ACCL_SCRIPT static __attribute__((noinline, optimize("O0")))
#endif
#endif

// A build names what a kernel is instantiated for. Data movement alone: one of b1 b2 b4 b8 (the item's bytes), none.
#ifndef ACCL_TYPE
#define ACCL_TYPE f32
#endif
#ifndef ACCL_OP
#define ACCL_OP sum
#endif

namespace accl {

typedef unsigned char u8;
typedef signed char i8;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;
static_assert(sizeof(u16) == 2 && sizeof(u32) == 4 && sizeof(u64) == 8, "an integer has another size here");

// 16-bit floats are bits in memory and f32 in registers.
struct f16 { u16 bits; };
struct bf16 { u16 bits; };
// Items that are only moved.
struct b1 { u8 bits; };
struct b2 { u16 bits; };
struct b4 { u32 bits; };
struct b8 { u64 bits; };

#if ACCL_CUDA
ACCL_INLINE u32 bits_of(float value) { return __float_as_uint(value); }
ACCL_INLINE float float_of(u32 bits) { return __uint_as_float(bits); }
#else
ACCL_INLINE u32 bits_of(float value) {
    u32 bits;
    __builtin_memcpy(&bits, &value, 4);
    return bits;
}

ACCL_INLINE float float_of(u32 bits) {
    float value;
    __builtin_memcpy(&value, &bits, 4);
    return value;
}
#endif

ACCL_INLINE float to_float(bf16 value) { return float_of((u32)value.bits << 16); }

// Round to nearest, ties to even; a NaN stays one. No branch, so that loops vectorise.
ACCL_INLINE bf16 to_bf16(float value) {
    const u32 bits = bits_of(value);
    const u32 rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const u32 quiet = (bits >> 16) | 0x40u;
    return bf16{(u16)((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded)};
}

#if ACCL_CUDA
ACCL_INLINE float to_float(f16 value) {
    float result;
    asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
    return result;
}

ACCL_INLINE f16 to_f16(float value) {
    f16 result;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
    return result;
}
#else
// Exact: scaling by 2^112 moves the exponent's bias and makes subnormals normal.
ACCL_INLINE float to_float(f16 value) {
    const u32 magnitude = value.bits & 0x7fffu;
    const float scaled = float_of(magnitude << 13) * float_of(0x77800000u);
    const u32 special = (magnitude << 13) | 0x7f800000u;
    const u32 bits = magnitude >= 0x7c00u ? special : bits_of(scaled);
    return float_of(bits | ((u32)(value.bits & 0x8000u) << 16));
}

// Round to nearest, ties to even; overflow to infinity; a NaN stays one.
ACCL_INLINE f16 to_f16(float value) {
    const u32 bits = bits_of(value);
    const u32 magnitude = bits & 0x7fffffffu;
    const u32 rebased = magnitude - 0x38000000u;
    const u32 normal = (rebased + 0xfffu + ((rebased >> 13) & 1u)) >> 13;
    // The last place of 0.5f is 2^-24, the unit of half subnormals: the addition rounds there.
    const u32 subnormal = bits_of(float_of(magnitude) + 0.5f) - 0x3f000000u;
    u32 result = magnitude < 0x38800000u ? subnormal : normal;
    result = magnitude >= 0x477ff000u ? 0x7c00u : result;
    result = magnitude > 0x7f800000u ? 0x7e00u | ((magnitude >> 13) & 0x3ffu) : result;
    return f16{(u16)(result | ((bits >> 16) & 0x8000u))};
}
#endif

// What a reduction computes in: 16-bit floats in f32, the others in themselves. Integers wrap: their sums and products
// are made in unsigned arithmetic of at least 32 bits, which has no overflow.
template <class W> struct Wrap { typedef W Type; };
template <> struct Wrap<i64> { typedef u64 Type; };
template <> struct Wrap<i32> { typedef u32 Type; };
template <> struct Wrap<i8> { typedef u32 Type; };
template <> struct Wrap<u8> { typedef u32 Type; };

template <class T> struct Convert {
    ACCL_INLINE T widen(T value) { return value; }
    ACCL_INLINE T narrow(T value) { return value; }
};
template <> struct Convert<f16> {
    ACCL_INLINE float widen(f16 value) { return to_float(value); }
    ACCL_INLINE f16 narrow(float value) { return to_f16(value); }
};
template <> struct Convert<bf16> {
    ACCL_INLINE float widen(bf16 value) { return to_float(value); }
    ACCL_INLINE bf16 narrow(float value) { return to_bf16(value); }
};

// An operator combines two wide values; ``finish`` makes the result of a complete reduction of ``contributors``.
struct none {
    template <class W> ACCL_INLINE W combine(W left, W) { return left; }
    template <class W> ACCL_INLINE W finish(W value, u64) { return value; }
    enum { finishes = 0, reduces = 0 };
};

struct sum {
    template <class W> ACCL_INLINE W combine(W left, W right) {
        typedef typename Wrap<W>::Type Type;
        return (W)((Type)left + (Type)right);
    }
    template <class W> ACCL_INLINE W finish(W value, u64) { return value; }
    enum { finishes = 0, reduces = 1 };
};

struct prod {
    template <class W> ACCL_INLINE W combine(W left, W right) {
        typedef typename Wrap<W>::Type Type;
        return (W)((Type)left * (Type)right);
    }
    template <class W> ACCL_INLINE W finish(W value, u64) { return value; }
    enum { finishes = 0, reduces = 1 };
};

// The second comparison is true of a NaN only: a NaN on either side is the result.
struct min {
    template <class W> ACCL_INLINE W combine(W left, W right) {
        return ((left < right) | (left != left)) ? left : right;
    }
    template <class W> ACCL_INLINE W finish(W value, u64) { return value; }
    enum { finishes = 0, reduces = 1 };
};

struct max {
    template <class W> ACCL_INLINE W combine(W left, W right) {
        return ((left > right) | (left != left)) ? left : right;
    }
    template <class W> ACCL_INLINE W finish(W value, u64) { return value; }
    enum { finishes = 0, reduces = 1 };
};

// The sum, divided when it is complete; integers round toward zero.
struct avg {
    template <class W> ACCL_INLINE W combine(W left, W right) {
        return sum::combine(left, right);
    }
    template <class W> ACCL_INLINE W finish(W value, u64 contributors) { return divide(value, (i64)contributors); }
    ACCL_INLINE f32 divide(f32 value, i64 by) { return value / (f32)by; }
    ACCL_INLINE f64 divide(f64 value, i64 by) { return value / (f64)by; }
    template <class W> ACCL_INLINE W divide(W value, i64 by) { return (W)((i64)value / by); }
    enum { finishes = 1, reduces = 1 };
};

typedef ACCL_TYPE Item;
typedef ACCL_OP Operator;

}  // namespace accl
