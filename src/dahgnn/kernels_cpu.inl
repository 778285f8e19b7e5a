// The bodies of kernels_cpu.cpp, included once for each instruction set. H heads and U units are known to
// the compiler in the common shapes; 0 stands for "as given".

// exp(x) - 1 and exp(x) for x <= 0, to about one unit in the last place: range reduction and a polynomial,
// which the compiler vectorises, unlike calls of the library.
inline float exponential_minus_one(float x, float& scale) {
    x = std::max(x, -87.0f);
    const float n = static_cast<float>(static_cast<int32_t>(x * 1.44269504088896341f - 0.5f));  // nearest
    const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    const int32_t bits = (static_cast<int32_t>(n) + 127) << 23;
    std::memcpy(&scale, &bits, sizeof(scale));
    return p * (r * r) + r;
}
inline float exponential(float x) {
    float scale;
    const float y = exponential_minus_one(x, scale);
    return y * scale + scale;
}
inline double exponential(double x) { return std::exp(x); }

inline float elu(float x) {
    float scale;
    const float y = exponential_minus_one(std::min(x, 0.0f), scale);
    return std::max(x, 0.0f) + (y * scale + (scale - 1.0f));  // one of the two is zero: no branch
}
inline double elu(double x) { return x > 0.0 ? x : std::expm1(x); }

// Room for one row: on the stack where its size is known, else on the heap.
template <typename T, int N>
struct Row {
    T data[N];
    explicit Row(int64_t) {}
    T* get() { return data; }
};
template <typename T>
struct Row<T, 0> {
    std::vector<T> data;
    explicit Row(int64_t size) : data(size) {}
    T* get() { return data.data(); }
};

// Eight units are the paper's, and one vector.
template <typename T>
using Eight __attribute__((vector_size(8 * sizeof(T)), aligned(alignof(T)), may_alias)) = T;

// Adds each head's units, weighted, to a sum.
template <typename T, int H, int U>
inline void add_weighted(int64_t heads, int64_t units, const T* __restrict weights, const T* __restrict row,
                         T* __restrict sum) {
    if constexpr (H > 0 && U == 8) {
#pragma GCC unroll 8
        for (int h = 0; h < H; ++h)
            reinterpret_cast<Eight<T>*>(sum)[h] += weights[h] * reinterpret_cast<const Eight<T>*>(row)[h];
    } else {
        for (int64_t h = 0; h < heads; ++h)
            for (int64_t u = 0; u < units; ++u) sum[h * units + u] += weights[h] * row[h * units + u];
    }
}

// The scalar product of each head's units.
template <typename T, int H, int U>
inline void head_products(int64_t heads, int64_t units, const T* __restrict a, const T* __restrict b,
                          T* __restrict products) {
    if constexpr (H > 0 && U == 8) {
#pragma GCC unroll 8
        for (int h = 0; h < H; ++h) {
            const Eight<T> p = reinterpret_cast<const Eight<T>*>(a)[h] * reinterpret_cast<const Eight<T>*>(b)[h];
            products[h] = ((p[0] + p[4]) + (p[1] + p[5])) + ((p[2] + p[6]) + (p[3] + p[7]));
        }
    } else {
        for (int64_t h = 0; h < heads; ++h) {
            T product = 0;
#pragma omp simd reduction(+ : product)
            for (int64_t u = 0; u < units; ++u) product += a[h * units + u] * b[h * units + u];
            products[h] = product;
        }
    }
}

template <typename T, int H, int U>
void forward_rows(int64_t begin, int64_t end, int64_t dynamic_heads, int64_t dynamic_units, bool activation, T slope,
                  const int64_t* offsets, const int64_t* indices, const T* source, const T* target, const T* bias,
                  const T* values, T* coefficients, T* output) {
    const int64_t heads = H ? H : dynamic_heads, units = U ? U : dynamic_units, width = heads * units;
    Row<T, H> highest_row(heads), total_row(heads);
    Row<T, H * U> sum_row(width);
    T *__restrict highest = highest_row.get(), *__restrict total = total_row.get(), *__restrict sum = sum_row.get();
    std::vector<T> scratch;
    for (int64_t k = begin; k < end; ++k) {
        const int64_t first = offsets[k], count = offsets[k + 1] - first;
        // Whole vectors of scores: the exponentials of the last, partly empty one are thrown away.
        const int64_t padded = (count * heads + 15) / 16 * 16;
        if (padded > static_cast<int64_t>(scratch.size())) scratch.resize(padded);
        T* __restrict c = scratch.data();
        for (int64_t h = 0; h < heads; ++h) highest[h] = -std::numeric_limits<T>::infinity(), total[h] = 0;
        for (int64_t t = 0; t < count; ++t) {
            const int64_t i = indices[first + t] * heads;
            T* __restrict score = c + t * heads;
            for (int64_t h = 0; h < heads; ++h) {
                const T raw = source[i + h] + target[k * heads + h];
                score[h] = std::max(raw, slope * raw);
            }
            if (bias)
                for (int64_t h = 0; h < heads; ++h) score[h] += bias[i + h];
            for (int64_t h = 0; h < heads; ++h) highest[h] = std::max(highest[h], score[h]);
        }
        for (int64_t t = 0; t < count; ++t)
            for (int64_t h = 0; h < heads; ++h) c[t * heads + h] -= highest[h];
        for (int64_t j = 0; j < padded; j += 16) {
#pragma omp simd
            for (int64_t q = 0; q < 16; ++q) c[j + q] = exponential(c[j + q]);
        }
        for (int64_t t = 0; t < count; ++t)
            for (int64_t h = 0; h < heads; ++h) total[h] += c[t * heads + h];
        for (int64_t h = 0; h < heads; ++h) total[h] = T(1) / total[h];
        for (int64_t j = 0; j < width; ++j) sum[j] = 0;
        T* __restrict coefficient = coefficients + first * heads;
        for (int64_t t = 0; t < count; ++t) {
            for (int64_t h = 0; h < heads; ++h) coefficient[t * heads + h] = c[t * heads + h] * total[h];
            add_weighted<T, H, U>(heads, units, coefficient + t * heads, values + indices[first + t] * width, sum);
        }
        T* __restrict out = output + k * width;
        if (activation) {
#pragma omp simd
            for (int64_t j = 0; j < width; ++j) out[j] = elu(sum[j]);
        } else {
            for (int64_t j = 0; j < width; ++j) out[j] = sum[j];
        }
    }
}

// One row for each target: the gradient before the activation, and that of its scores. ``active`` marks
// targets with any gradient: in the last layer these are the labelled nodes alone.
template <typename T, int H, int U>
void backward_targets(int64_t begin, int64_t end, int64_t dynamic_heads, int64_t dynamic_units, bool activation,
                      T slope, const int64_t* offsets, const int64_t* indices, const T* source, const T* target,
                      const T* values, const T* coefficients, const T* output, const T* gradient, T* rows, T* scores,
                      T* target_gradient, uint8_t* active) {
    const int64_t heads = H ? H : dynamic_heads, units = U ? U : dynamic_units, width = heads * units;
    Row<T, H> mean_row(heads), total_row(heads);
    T *__restrict mean = mean_row.get(), *__restrict total = total_row.get();
    for (int64_t k = begin; k < end; ++k) {
        const int64_t first = offsets[k], count = offsets[k + 1] - first;
        const T *const g = gradient + k * width, *const out = output + k * width;
        T* __restrict before = rows + k * width;
        bool any = false;
        for (int64_t j = 0; j < width; ++j) any |= g[j] != T(0);
        active[k] = any;
        for (int64_t h = 0; h < heads; ++h) mean[h] = total[h] = 0;
        if (!any) {
            std::copy(total, total + heads, target_gradient + k * heads);
            continue;
        }
        if (activation)
            for (int64_t j = 0; j < width; ++j) before[j] = g[j] * (std::min(out[j], T(0)) + T(1));
        else
            for (int64_t j = 0; j < width; ++j) before[j] = g[j];
        const T* __restrict c = coefficients + first * heads;
        T* __restrict s = scores + first * heads;
        for (int64_t t = 0; t < count; ++t) {
            const T* __restrict row = values + indices[first + t] * width;
            head_products<T, H, U>(heads, units, before, row, s + t * heads);
            for (int64_t h = 0; h < heads; ++h) mean[h] += c[t * heads + h] * s[t * heads + h];
        }
        for (int64_t t = 0; t < count; ++t) {
            const int64_t i = indices[first + t] * heads;
            for (int64_t h = 0; h < heads; ++h) {
                const T steepness = source[i + h] + target[k * heads + h] > T(0) ? T(1) : slope;
                const T d = c[t * heads + h] * (s[t * heads + h] - mean[h]) * steepness;
                s[t * heads + h] = d;
                total[h] += d;
            }
        }
        std::copy(total, total + heads, target_gradient + k * heads);
    }
}

template <typename T, int H, int U>
void backward_sources(int64_t begin, int64_t end, int64_t dynamic_heads, int64_t dynamic_units,
                      const int64_t* backward_offsets, const int64_t* backward_indices, const int64_t* positions,
                      const T* coefficients, const T* rows, const T* scores, const uint8_t* active,
                      T* source_gradient, T* value_gradient) {
    const int64_t heads = H ? H : dynamic_heads, units = U ? U : dynamic_units, width = heads * units;
    Row<T, H * U> value_row(width);
    Row<T, H> share_row(heads);
    T *__restrict value = value_row.get(), *__restrict share = share_row.get();
    for (int64_t i = begin; i < end; ++i) {
        for (int64_t j = 0; j < width; ++j) value[j] = 0;
        for (int64_t h = 0; h < heads; ++h) share[h] = 0;
        for (int64_t r = backward_offsets[i]; r < backward_offsets[i + 1]; ++r) {
            const int64_t k = backward_indices[r], t = positions[r];
            if (!active[k]) continue;
            for (int64_t h = 0; h < heads; ++h) share[h] += scores[t * heads + h];
            add_weighted<T, H, U>(heads, units, coefficients + t * heads, rows + k * width, value);
        }
        std::copy(value, value + width, value_gradient + i * width);
        std::copy(share, share + heads, source_gradient + i * heads);
    }
}

template <typename T, int H, int U>
void similarity_rows(int64_t begin, int64_t end, int64_t dynamic_heads, int64_t dynamic_units, T delta,
                     const int64_t* offsets, const int64_t* indices, const T* directions, T* sums) {
    const int64_t heads = H ? H : dynamic_heads, units = U ? U : dynamic_units, width = heads * units;
    Row<T, H> sum_row(heads), product_row(heads);
    T *__restrict sum = sum_row.get(), *__restrict products = product_row.get();
    for (int64_t i = begin; i < end; ++i) {
        for (int64_t h = 0; h < heads; ++h) sum[h] = 0;
        for (int64_t t = offsets[i]; t < offsets[i + 1]; ++t) {
            head_products<T, H, U>(heads, units, directions + i * width, directions + indices[t] * width, products);
            // No cosine is greater than one, but its rounding may be.
            for (int64_t h = 0; h < heads; ++h) sum[h] += std::min(products[h], T(1)) > delta ? products[h] : T(0);
        }
        std::copy(sum, sum + heads, sums + i * heads);
    }
}

constexpr int64_t ROWS_AT_ONCE = 128;

// Calls ``work(begin, end)`` on blocks of rows, shared among the threads.
template <typename Work>
void parallel(int threads, int64_t rows, Work work) {
    const int64_t block = ROWS_AT_ONCE, blocks = (rows + block - 1) / block;
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads) if (blocks > 1)
    for (int64_t b = 0; b < blocks; ++b) work(b * block, std::min(rows, (b + 1) * block));
}

#define DAHGNN_SHAPES(function, ...)                                   \
    (heads == 4 && units == 8    ? function<T, 4, 8>(__VA_ARGS__)      \
     : heads == 1 && units == 10 ? function<T, 1, 10>(__VA_ARGS__)     \
     : heads == 4                ? function<T, 4, 0>(__VA_ARGS__)      \
     : heads == 1                ? function<T, 1, 0>(__VA_ARGS__)      \
     : units == 8                ? function<T, 0, 8>(__VA_ARGS__)      \
                                 : function<T, 0, 0>(__VA_ARGS__))

template <typename T>
void attention_forward(int threads, int64_t targets, int64_t heads, int64_t units, int activation, T slope,
                       const int64_t* offsets, const int64_t* indices, const T* source, const T* target, const T* bias,
                       const T* values, T* coefficients, T* output) {
    parallel(threads, targets, [&](int64_t begin, int64_t end) {
        DAHGNN_SHAPES(forward_rows, begin, end, heads, units, activation != 0, slope, offsets, indices, source, target,
                      bias, values, coefficients, output);
    });
}

template <typename T>
void attention_backward(int threads, int64_t targets, int64_t sources, int64_t heads, int64_t units, int activation,
                        T slope, const int64_t* offsets, const int64_t* indices, const int64_t* backward_offsets,
                        const int64_t* backward_indices, const int64_t* positions, const T* source, const T* target,
                        const T* values, const T* coefficients, const T* output, const T* gradient, T* rows, T* scores,
                        T* source_gradient, T* target_gradient, T* value_gradient) {
    std::vector<uint8_t> active(targets);
    parallel(threads, targets, [&](int64_t begin, int64_t end) {
        DAHGNN_SHAPES(backward_targets, begin, end, heads, units, activation != 0, slope, offsets, indices, source,
                      target, values, coefficients, output, gradient, rows, scores, target_gradient, active.data());
    });
    parallel(threads, sources, [&](int64_t begin, int64_t end) {
        DAHGNN_SHAPES(backward_sources, begin, end, heads, units, backward_offsets, backward_indices, positions,
                      coefficients, rows, scores, active.data(), source_gradient, value_gradient);
    });
}

template <typename T, int H, int U>
void peak_rows(int64_t begin, int64_t end, int64_t dynamic_heads, const int64_t* offsets, const int64_t* indices,
               const T* source, const T* target, T* peak) {
    const int64_t heads = H ? H : dynamic_heads;
    Row<T, H> most_row(heads);
    T* __restrict most = most_row.get();
    for (int64_t h = 0; h < heads; ++h) most[h] = -std::numeric_limits<T>::infinity();
    for (int64_t k = begin; k < end; ++k)
        for (int64_t t = offsets[k]; t < offsets[k + 1]; ++t)
            for (int64_t h = 0; h < heads; ++h)
                most[h] = std::max(most[h], source[indices[t] * heads + h] + target[k * heads + h]);
    std::copy(most, most + heads, peak);
}

template <typename T>
void attention_peak(int threads, int64_t targets, int64_t heads, T slope, const int64_t* offsets,
                    const int64_t* indices, const T* source, const T* target, T* peak) {
    const int64_t units = 0;
    std::vector<T> highest((targets + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE * heads);
    parallel(threads, targets, [&](int64_t begin, int64_t end) {
        DAHGNN_SHAPES(peak_rows, begin, end, heads, offsets, indices, source, target,
                      highest.data() + begin / ROWS_AT_ONCE * heads);
    });
    std::fill(peak, peak + heads, -std::numeric_limits<T>::infinity());
    for (size_t j = 0; j < highest.size(); ++j) peak[j % heads] = std::max(peak[j % heads], highest[j]);
    for (int64_t h = 0; h < heads; ++h) peak[h] = std::max(peak[h], slope * peak[h]);
}

template <typename T>
void similarity_sum(int threads, int64_t nodes, int64_t heads, int64_t units, T delta, const int64_t* offsets,
                    const int64_t* indices, const T* directions, T* sums) {
    parallel(threads, nodes, [&](int64_t begin, int64_t end) {
        DAHGNN_SHAPES(similarity_rows, begin, end, heads, units, delta, offsets, indices, directions, sums);
    });
}

template <typename T, int H, int U>
void row_products(int64_t begin, int64_t end, int64_t dynamic_heads, int64_t dynamic_units, int64_t nodes,
                  int64_t count, const T* values, const T* vectors, T* products) {
    const int64_t heads = H ? H : dynamic_heads, units = U ? U : dynamic_units, width = heads * units;
    for (int64_t i = begin; i < end; ++i)
        for (int64_t v = 0; v < count; ++v)
            head_products<T, H, U>(heads, units, values + i * width, vectors + v * width,
                                   products + (v * nodes + i) * heads);
}

template <typename T, int H, int U>
void row_products_backward(int64_t begin, int64_t end, int64_t dynamic_heads, int64_t dynamic_units, int64_t nodes,
                           int64_t count, const T* gradient, const T* values, const T* vectors, T* value_gradient,
                           T* partial) {
    const int64_t heads = H ? H : dynamic_heads, units = U ? U : dynamic_units, width = heads * units;
    std::fill(partial, partial + count * width, T(0));
    for (int64_t i = begin; i < end; ++i) {
        T* const row = value_gradient + i * width;
        std::fill(row, row + width, T(0));
        for (int64_t v = 0; v < count; ++v) {
            const T* const g = gradient + (v * nodes + i) * heads;
            add_weighted<T, H, U>(heads, units, g, vectors + v * width, row);
            add_weighted<T, H, U>(heads, units, g, values + i * width, partial + v * width);
        }
    }
}

// Each head's row times each of its vectors: (count, nodes, heads).
template <typename T>
void head_products_forward(int threads, int64_t nodes, int64_t heads, int64_t units, int64_t count, const T* values,
                           const T* vectors, T* products) {
    parallel(threads, nodes, [&](int64_t begin, int64_t end) {
        DAHGNN_SHAPES(row_products, begin, end, heads, units, nodes, count, values, vectors, products);
    });
}

template <typename T>
void head_products_backward(int threads, int64_t nodes, int64_t heads, int64_t units, int64_t count,
                            const T* gradient, const T* values, const T* vectors, T* value_gradient,
                            T* vector_gradient) {
    const int64_t size = count * heads * units;
    std::vector<T> partial((nodes + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE * size);
    parallel(threads, nodes, [&](int64_t begin, int64_t end) {
        DAHGNN_SHAPES(row_products_backward, begin, end, heads, units, nodes, count, gradient, values, vectors,
                      value_gradient, partial.data() + begin / ROWS_AT_ONCE * size);
    });
    std::fill(vector_gradient, vector_gradient + size, T(0));
    for (size_t j = 0; j < partial.size(); ++j) vector_gradient[j % size] += partial[j];
}

// C = A B for B of P columns, R rows of A at a time: their sums stay in registers while B streams past.
template <typename T, int P, int R>
void product_rows(int64_t inner, int64_t stride, const T* __restrict a, const T* __restrict b, T* __restrict c,
                  bool add) {
    using Vector __attribute__((vector_size(LANES * 4), aligned(alignof(T)), may_alias)) = T;
    constexpr int lanes = sizeof(Vector) / sizeof(T), vectors = P / lanes;
    Vector sum[R][vectors];
    for (int r = 0; r < R; ++r)
        for (int v = 0; v < vectors; ++v)
            sum[r][v] = add ? *reinterpret_cast<const Vector*>(c + r * P + v * lanes) : Vector{};
    for (int64_t k = 0; k < inner; ++k) {
        Vector row[vectors];
        for (int v = 0; v < vectors; ++v) row[v] = *reinterpret_cast<const Vector*>(b + k * P + v * lanes);
        for (int r = 0; r < R; ++r) {
            const T x = a[r * stride + k];
            for (int v = 0; v < vectors; ++v) sum[r][v] += x * row[v];
        }
    }
    for (int r = 0; r < R; ++r)
        for (int v = 0; v < vectors; ++v) *reinterpret_cast<Vector*>(c + r * P + v * lanes) = sum[r][v];
}

// A tall product with 32 columns, as four heads of eight units have: (rows, inner) by (inner, 32).
template <typename T>
void product(int threads, int64_t rows, int64_t inner, const T* a, const T* b, T* c) {
    constexpr int P = 32, R = LANES == 16 ? 12 : 3;
    const int64_t tile = 512;  // rows of B that stay in the cache
    parallel(threads, rows, [&](int64_t begin, int64_t end) {
        for (int64_t k = 0; k < inner; k += tile) {
            const int64_t count = std::min(tile, inner - k);
            int64_t i = begin;
            for (; i + R <= end; i += R) product_rows<T, P, R>(count, inner, a + i * inner + k, b + k * P, c + i * P, k > 0);
            for (; i < end; ++i) product_rows<T, P, 1>(count, inner, a + i * inner + k, b + k * P, c + i * P, k > 0);
        }
    });
}

#undef DAHGNN_SHAPES
