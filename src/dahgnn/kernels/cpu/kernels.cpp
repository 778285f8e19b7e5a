// The layer's messages, sums over segments, small products and dropout, for the CPU: the twins of the plain PyTorch
// in nn and ops.
//
// Plain buffers in, plain buffers out; nothing of torch or Python is linked. Every output row is written
// by one thread in a fixed order, so results do not depend on the number of threads. The bodies are
// compiled once for each instruction set (the .inl files), and chosen when the library is loaded.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

#define INLINE inline __attribute__((always_inline))
#ifdef __clang__
#define SHUFFLE(mask, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(mask, a, b, ...) __builtin_shuffle(a, b, mask{__VA_ARGS__})
// Vectors are passed between inlined functions alone, so how a call would pass them does not matter.
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace generic {
constexpr int LANES = 4;        // numbers of single precision in a vector
constexpr bool PAIRS = false;  // whether an instruction multiplies pairs of bfloat16
#include "kernels.inl"
#include "messages.inl"
#include "forward.inl"
#include "backward.inl"
#include "products.inl"
#include "dropout.inl"
#include "distances.inl"
#include "hashes.inl"
#include "matrices.inl"
#include "activated.inl"
#include "convolved.inl"
#include "trees.inl"
#include "lowest.inl"
}

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define DAHGNN_X86 1
#pragma GCC push_options
#pragma GCC target("avx2,fma")
namespace avx2 {
constexpr int LANES = 8;
constexpr bool PAIRS = false;
#include "kernels.inl"
#include "messages.inl"
#include "forward.inl"
#include "backward.inl"
#include "products.inl"
#include "dropout.inl"
#include "distances.inl"
#include "hashes.inl"
#include "matrices.inl"
#include "activated.inl"
#include "convolved.inl"
#include "trees.inl"
#include "lowest.inl"
}
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma,prefer-vector-width=512")
namespace avx512 {
constexpr int LANES = 16;
constexpr bool PAIRS = false;
#include "kernels.inl"
#include "messages.inl"
#include "forward.inl"
#include "backward.inl"
#include "products.inl"
#include "dropout.inl"
#include "distances.inl"
#include "hashes.inl"
#include "matrices.inl"
#include "activated.inl"
#include "convolved.inl"
#include "trees.inl"
#include "lowest.inl"
}
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512bw,avx512dq,avx512bf16,avx2,fma,prefer-vector-width=512")
namespace avx512bf16 {
constexpr int LANES = 16;
constexpr bool PAIRS = true;
#include "kernels.inl"
#include "lowest.inl"
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

bool multiplies_pairs() {
#ifdef DAHGNN_X86
    return level == Level::avx512 && __builtin_cpu_supports("avx512bf16");
#else
    return false;
#endif
}

}  // namespace

#ifdef DAHGNN_X86
#define DISPATCH(call)                                      \
    if (level == Level::avx512) { using namespace avx512; call; } \
    else if (level == Level::avx2) { using namespace avx2; call; } \
    else { using namespace generic; call; }
#else
#define DISPATCH(call) { using namespace generic; call; }
#endif

extern "C" {

// 0 is generic, 1 AVX2, 2 AVX-512; a request beyond what the processor has is lowered to that.
int dahgnn_level(int request) {
    if (request >= 0) level = std::min(static_cast<Level>(request), detect());
    return static_cast<int>(level);
}

void dahgnn_message_sizes(int64_t nodes, int64_t hyperedges, int64_t targets, int64_t heads, int64_t units,
                          int64_t* sizes) {
    generic::message_sizes(nodes, hyperedges, targets, heads, units, sizes);
}

#define EXPORT(T, name)                                                                                              \
    void dahgnn_messages_forward_##name(                                                                             \
        int threads, int64_t nodes, int64_t hyperedges, int64_t heads, int64_t units, double slope, int activation,  \
        const int64_t* hyperedge_offsets, const int64_t* hyperedge_nodes, const int64_t* node_offsets,               \
        const int64_t* node_hyperedges, const T* wx, const T* e_term, const T* vectors, int64_t receivers,           \
        const int64_t* chosen, int64_t kept_receivers, const int32_t* receiver_places, int64_t kept_hyperedges,      \
        const int32_t* hyperedge_places, const int64_t* neighbour_offsets, const int64_t* neighbours, double delta,  \
        double tolerance, T* new_nodes, T* new_hyperedges, T* kept, T* scratch, const T* bias) {                     \
        DISPATCH(messages_forward<T>({{threads, nodes, hyperedges, heads, units, T(slope), activation != 0,          \
                                       {hyperedge_offsets, hyperedge_nodes}, {node_offsets, node_hyperedges},        \
                                       wx, e_term, vectors, receivers, chosen,                                       \
                                       {kept_receivers, receiver_places}, {kept_hyperedges, hyperedge_places}},      \
                                      {neighbour_offsets, neighbours}, T(delta), T(tolerance), new_nodes,            \
                                      new_hyperedges, kept, scratch, bias}))                                         \
    }                                                                                                                \
    void dahgnn_messages_backward_##name(                                                                            \
        int threads, int64_t nodes, int64_t hyperedges, int64_t heads, int64_t units, double slope, int activation,  \
        const int64_t* hyperedge_offsets, const int64_t* hyperedge_nodes, const int64_t* node_offsets,               \
        const int64_t* node_hyperedges, const T* wx, const T* e_term, const T* vectors, int64_t receivers,           \
        const int64_t* chosen, int64_t kept_receivers, const int32_t* receiver_places, int64_t kept_hyperedges,      \
        const int32_t* hyperedge_places, const T* nodes_gradient,                                                    \
        const T* hyperedges_gradient, const T* new_nodes, T* kept, T* scratch, T* wx_gradient, T* e_term_gradient,   \
        T* vectors_gradient) {                                                                                       \
        DISPATCH(messages_backward<T>({{threads, nodes, hyperedges, heads, units, T(slope), activation != 0,         \
                                        {hyperedge_offsets, hyperedge_nodes}, {node_offsets, node_hyperedges},       \
                                        wx, e_term, vectors, receivers, chosen,                                      \
                                        {kept_receivers, receiver_places}, {kept_hyperedges, hyperedge_places}},     \
                                       nodes_gradient, hyperedges_gradient, new_nodes, kept, scratch, wx_gradient,   \
                                       e_term_gradient, vectors_gradient}))                                          \
    }                                                                                                                \
    void dahgnn_gather_sum_##name(int threads, int64_t targets, int64_t width, const int64_t* offsets,               \
                                  const int64_t* indices, const T* source_scale, const T* target_scale,              \
                                  const T* values, T* output) {                                                      \
        DISPATCH(gather_sum<T>(threads, targets, width, {offsets, indices}, source_scale, target_scale, values,      \
                               output))                                                                              \
    }                                                                                                                \
    void dahgnn_grouped_product_##name(int threads, int64_t count, int64_t groups, int64_t inner, int64_t outer,     \
                                       const T* rows, const T* weights, T* output) {                                 \
        DISPATCH(grouped_product<T>(threads, count, groups, inner, outer, rows, weights, output))                    \
    }                                                                                                                \
    void dahgnn_grouped_product_backward_##name(                                                                     \
        int threads, int64_t count, int64_t groups, int64_t inner, int64_t outer, const T* gradient, const T* rows,  \
        const T* weights, T* rows_gradient, T* weights_gradient) {                                                   \
        DISPATCH(grouped_product_backward<T>(threads, count, groups, inner, outer, gradient, rows, weights,          \
                                             rows_gradient, weights_gradient))                                       \
    }                                                                                                                \
    void dahgnn_dropout_##name(int threads, int64_t rows, int64_t runs, int64_t units, const int64_t* seeds,         \
                               const int64_t* epochs, int64_t site, double rate, const T* values, T* result) {       \
        DISPATCH(dropout<T>(threads, rows, runs, units, {seeds, epochs, site, rate}, values, result))                \
    }                                                                                                                \
    void dahgnn_activated_product_##name(                                                                            \
        int threads, int64_t count, int64_t groups, int64_t inner, int64_t outer, int activation,                    \
        const int64_t* seeds, const int64_t* epochs, int64_t site, double rate, const int64_t* numbers,              \
        const int64_t* chosen,                                                                                       \
        const T* rows, const T* weights, T* output) {                                                                \
        DISPATCH(activated_product<T>(threads, count, outer,                                                         \
                                      {groups, inner, activation != 0, {seeds, epochs, site, rate, numbers}, chosen, \
                                       rows},                                                                        \
                                      weights, output))                                                              \
    }                                                                                                                \
    void dahgnn_activated_product_backward_##name(                                                                   \
        int threads, int64_t count, int64_t groups, int64_t inner, int64_t outer, int activation,                    \
        const int64_t* seeds, const int64_t* epochs, int64_t site, double rate, const int64_t* numbers,              \
        const int64_t* chosen,                                                                                       \
        const T* rows, const T* weights, const T* gradient, int add, T* rows_gradient, T* weights_gradient) {        \
        DISPATCH(activated_product_backward<T>(                                                                      \
            threads, count, outer,                                                                                   \
            {groups, inner, activation != 0, {seeds, epochs, site, rate, numbers}, chosen, rows}, gradient, weights, \
            add != 0, rows_gradient, weights_gradient))                                                              \
    }                                                                                                                \
    void dahgnn_similarity_sum_##name(int threads, int64_t count, int64_t heads, int64_t units,                      \
                                      const int64_t* offsets, const int64_t* indices, double delta,                  \
                                      const T* directions, T* sums) {                                                \
        DISPATCH(similarity_sum<T>(threads, count, heads, units, {offsets, indices}, T(delta), directions, sums))    \
    }                                                                                                                \
    void dahgnn_sparse_product_##name(int threads, int64_t targets, int64_t width, const int32_t* offsets,           \
                                      const int32_t* columns, const T* weights, const T* values, T* output) {        \
        DISPATCH(sparse_product<T>(threads, targets, width, offsets, columns, weights, values, output))              \
    }                                                                                                                \
    void dahgnn_squared_distances_##name(int threads, int64_t pairs, int64_t width, const T* points,                 \
                                         const int64_t* here, const int64_t* there, double scale, double* squares) { \
        DISPATCH(squared_distances<T>(threads, pairs, width, points, here, there, scale, squares))                   \
    }                                                                                                                \
    void dahgnn_row_hashes_##name(int threads, int64_t count, int64_t width, const T* rows, const uint64_t* factors, \
                                  uint64_t* hashes) {                                                                \
        DISPATCH(row_hashes<T>(threads, count, width, rows, factors, hashes))                                        \
    }

EXPORT(float, float32)
EXPORT(double, float64)

void dahgnn_product_float32(int threads, int64_t rows, int64_t inner, int64_t columns, const float* a,
                            const float* b, float* c) {
    DISPATCH(product(threads, rows, inner, columns, a, b, c))
}

void dahgnn_convolved_product_float32(int threads, int64_t rows, int64_t inner, int64_t hidden, int64_t outer,
                                      int activation, const int64_t* seeds, const int64_t* epochs, int64_t site,
                                      double rate, const int64_t* numbers, const float* features, const float* first,
                                      const float* second, float* between, float* output) {
    DISPATCH(convolved_product(threads,
                               {rows, inner, hidden, outer, activation != 0, {seeds, epochs, site, rate, numbers},
                                features, first, second},
                               between, output))
}

void dahgnn_convolved_product_backward_float32(int threads, int64_t rows, int64_t inner, int64_t hidden,
                                               int64_t outer, int activation, const int64_t* seeds,
                                               const int64_t* epochs, int64_t site, double rate,
                                               const int64_t* numbers, const float* features, const float* second,
                                               const float* between, const float* gradient, float* first_gradient,
                                               float* second_gradient) {
    DISPATCH(convolved_product_backward(threads,
                                        {rows, inner, hidden, outer, activation != 0,
                                         {seeds, epochs, site, rate, numbers}, features, nullptr, second},
                                        between, gradient, first_gradient, second_gradient))
}

void dahgnn_tree_means_float32(int threads, int64_t count, int64_t width, int64_t nodes, int64_t parts,
                               int64_t trees, int64_t classes, const int64_t* columns, const double* thresholds,
                               const int64_t* children, const double* distributions, const int64_t* roots,
                               const float* rows, double* means) {
    DISPATCH(tree_means(threads, count, width,
                        {nodes, parts, trees, classes, columns, thresholds, children, distributions, roots}, rows,
                        means))
}

// Whether the processor has an instruction for products of bfloat16.
int dahgnn_multiplies_pairs() { return multiplies_pairs(); }

void dahgnn_lowest_products_float32(int threads, int64_t rows, int64_t length, int64_t words, int64_t points,
                                    const uint32_t* left, const uint32_t* panels, const int64_t* left_out,
                                    float* values, int64_t* numbers) {
#ifdef DAHGNN_X86
    if (multiplies_pairs()) {
        avx512bf16::lowest_products(threads, rows, length, {words, points, left, panels, left_out}, values, numbers);
        return;
    }
#endif
    DISPATCH(lowest_products(threads, rows, length, {words, points, left, panels, left_out}, values, numbers))
}

}  // extern "C"
