// Fused attention and density on incidences, for the CPU: the twins of the plain PyTorch in ops.py.
//
// Plain buffers in, plain buffers out; nothing of torch or Python is linked. Every output row is written
// by one thread in a fixed order, so results do not depend on the number of threads. The bodies are
// compiled once for each instruction set (kernels_cpu.inl), and chosen when the library is loaded.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace generic {
constexpr int LANES = 4;  // numbers of single precision in a vector
#include "kernels_cpu.inl"
}

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define DAHGNN_X86 1
#pragma GCC push_options
#pragma GCC target("avx2,fma")
namespace avx2 {
constexpr int LANES = 8;
#include "kernels_cpu.inl"
}
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma,prefer-vector-width=512")
namespace avx512 {
constexpr int LANES = 16;
#include "kernels_cpu.inl"
}
#pragma GCC pop_options
#endif

namespace {

enum class Level { generic, avx2, avx512 };

Level detect() {
#ifdef DAHGNN_X86
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"))
        return Level::avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return Level::avx2;
#endif
    return Level::generic;
}

Level level = detect();

}  // namespace

#ifdef DAHGNN_X86
#define DISPATCH(call)                        \
    if (level == Level::avx512) avx512::call; \
    else if (level == Level::avx2) avx2::call; \
    else generic::call
#else
#define DISPATCH(call) generic::call
#endif

extern "C" {

// 0 is generic, 1 AVX2, 2 AVX-512; a request beyond what the processor has is lowered to that.
int dahgnn_level(int request) {
    if (request >= 0) level = std::min(static_cast<Level>(request), detect());
    return static_cast<int>(level);
}

#define EXPORT(T, name)                                                                                     \
    void dahgnn_attention_forward_##name(int threads, int64_t targets, int64_t heads, int64_t units,        \
                                         int activation, double slope, const int64_t* offsets,              \
                                         const int64_t* indices, const T* source, const T* target,          \
                                         const T* bias, const T* values, T* coefficients, T* output) {      \
        DISPATCH(attention_forward<T>(threads, targets, heads, units, activation, T(slope), offsets,        \
                                      indices, source, target, bias, values, coefficients, output));        \
    }                                                                                                       \
    void dahgnn_attention_backward_##name(                                                                  \
        int threads, int64_t targets, int64_t sources, int64_t heads, int64_t units, int activation,        \
        double slope, const int64_t* offsets, const int64_t* indices, const int64_t* backward_offsets,      \
        const int64_t* backward_indices, const int64_t* positions, const T* source, const T* target,        \
        const T* values, const T* coefficients, const T* output, const T* gradient, T* scratch_rows,        \
        T* scratch_scores, T* source_gradient, T* target_gradient, T* value_gradient) {                     \
        DISPATCH(attention_backward<T>(threads, targets, sources, heads, units, activation, T(slope),       \
                                       offsets, indices, backward_offsets, backward_indices, positions,     \
                                       source, target, values, coefficients, output, gradient,              \
                                       scratch_rows, scratch_scores, source_gradient, target_gradient,      \
                                       value_gradient));                                                    \
    }                                                                                                       \
    void dahgnn_attention_peak_##name(int threads, int64_t targets, int64_t heads, double slope,            \
                                      const int64_t* offsets, const int64_t* indices, const T* source,      \
                                      const T* target, T* peak) {                                           \
        DISPATCH(attention_peak<T>(threads, targets, heads, T(slope), offsets, indices, source, target,     \
                                   peak));                                                                  \
    }                                                                                                       \
    void dahgnn_similarity_sum_##name(int threads, int64_t nodes, int64_t heads, int64_t units,             \
                                      double delta, const int64_t* offsets, const int64_t* indices,         \
                                      const T* directions, T* sums) {                                       \
        DISPATCH(similarity_sum<T>(threads, nodes, heads, units, T(delta), offsets, indices, directions,    \
                                   sums));                                                                  \
    }                                                                                                       \
    void dahgnn_head_products_##name(int threads, int64_t nodes, int64_t heads, int64_t units, int64_t count, \
                                     const T* values, const T* vectors, T* products) {                      \
        DISPATCH(head_products_forward<T>(threads, nodes, heads, units, count, values, vectors, products)); \
    }                                                                                                       \
    void dahgnn_head_products_backward_##name(int threads, int64_t nodes, int64_t heads, int64_t units,     \
                                              int64_t count, const T* gradient, const T* values,            \
                                              const T* vectors, T* value_gradient, T* vector_gradient) {    \
        DISPATCH(head_products_backward<T>(threads, nodes, heads, units, count, gradient, values, vectors,  \
                                           value_gradient, vector_gradient));                               \
    }                                                                                                       \
    void dahgnn_product_##name(int threads, int64_t rows, int64_t inner, const T* a, const T* b, T* c) {    \
        DISPATCH(product<T>(threads, rows, inner, a, b, c));                                                \
    }

EXPORT(float, float32)
EXPORT(double, float64)

}  // extern "C"
