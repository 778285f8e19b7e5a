// Sums over segments and small products.

// W columns of out[k] = target_scale[k] * sum of source_scale[j] * values[j].
template <typename T, int W>
void gather_columns(int64_t begin, int64_t end, int64_t stride, const Segments& segments, const T* source_scale,
                    const T* target_scale, const T* values, T* output) {
    constexpr int N = W % lanes<T> == 0 ? lanes<T> : W % 4 == 0 ? 4 : W % 2 == 0 ? 2 : 1, PARTS = W / N;
    constexpr int64_t AHEAD = 16;  // sources whose rows come from memory meanwhile
    using V = Vector<T, N>;
    const int64_t last = segments.offsets[end] - 1;
    for (int64_t k = begin; k < end; ++k) {
        V sum[PARTS] = {};
        for (int64_t t = segments.offsets[k]; t < segments.offsets[k + 1]; ++t) {
            const T* const ahead = values + segments.indices[std::min(t + AHEAD, last)] * stride;
            for (int64_t w = 0; w < W; w += 64 / sizeof(T)) __builtin_prefetch(ahead + w);
            const int64_t j = segments.indices[t];
            const T scale = source_scale ? source_scale[j] : T(1);
#pragma GCC unroll 8
            for (int p = 0; p < PARTS; ++p) sum[p] += scale * load<V>(values + j * stride + p * N);
        }
        const T scale = target_scale ? target_scale[k] : T(1);
        for (int p = 0; p < PARTS; ++p) store(output + k * stride + p * N, V(scale * sum[p]));
    }
}

template <typename T>
void gather_sum(int threads, int64_t targets, int64_t width, const Segments& segments, const T* source_scale,
                const T* target_scale, const T* values, T* output) {
    // Wide rows in strips, so that those that a strip sums stay in the cache.
    for (int64_t first = 0, columns; first < width; first += columns) {
        const int64_t rest = width - first;
        columns = rest >= 128 ? 128 : rest >= 64 ? 64 : rest >= 32 ? 32 : rest == 10 ? 10 : rest >= 16 ? 16
                  : rest >= 4 ? 4 : 1;
        const auto gather = columns == 128  ? gather_columns<T, 128>
                            : columns == 64 ? gather_columns<T, 64>
                            : columns == 32 ? gather_columns<T, 32>
                            : columns == 16 ? gather_columns<T, 16>
                            : columns == 10 ? gather_columns<T, 10>
                            : columns == 4  ? gather_columns<T, 4>
                                            : gather_columns<T, 1>;
        parallel(threads, targets, [&](int64_t begin, int64_t end) {
            gather(begin, end, width, segments, source_scale, target_scale, values + first, output + first);
        });
    }
}

// Rows of ``inner`` numbers times a matrix of 16 columns: R rows at a time, whose sums stay in registers.
template <typename T, int R>
INLINE void multiply_tile(int64_t inner, const T* rows, int64_t row_stride, const T* matrix, int64_t matrix_stride,
                          T* output, int64_t output_stride, int64_t columns) {
    constexpr int N = lanes<T>, PARTS = 16 / N;
    using V = Vector<T, N>;
    V sums[R][PARTS] = {};
    for (int64_t k = 0; k < inner; ++k) {
        V line[PARTS];
        for (int p = 0; p < PARTS; ++p) line[p] = load<V>(matrix + k * matrix_stride + p * N);
        for (int r = 0; r < R; ++r)
            for (int p = 0; p < PARTS; ++p) sums[r][p] += rows[r * row_stride + k] * line[p];
    }
    for (int r = 0; r < R; ++r) std::memcpy(output + r * output_stride, sums[r], columns * sizeof(T));
}

// Rows of one group times its matrix, whose lines are padded to whole tiles.
template <typename T, int R>
INLINE void multiply_some(int64_t inner, int64_t outer, const T* rows, int64_t row_stride, const T* matrix, T* output,
                          int64_t output_stride) {
    for (int64_t j = 0; j < outer; j += 16)
        multiply_tile<T, R>(inner, rows, row_stride, matrix + j, round_up(outer, 16), output + j, output_stride,
                            std::min<int64_t>(16, outer - j));
}
template <typename T>
void multiply_group(int64_t begin, int64_t end, int64_t inner, int64_t outer, const T* rows, int64_t row_stride,
                    const T* matrix, T* output, int64_t output_stride) {
    constexpr int R = LANES == 16 ? 8 : 4;
    int64_t i = begin;
    for (; i + R <= end; i += R)
        multiply_some<T, R>(inner, outer, rows + i * row_stride, row_stride, matrix, output + i * output_stride,
                            output_stride);
    for (; i < end; ++i)
        multiply_some<T, 1>(inner, outer, rows + i * row_stride, row_stride, matrix, output + i * output_stride,
                            output_stride);
}

// The matrices (groups, inner, outer), or their transposes, with lines padded to whole tiles.
template <typename T>
std::vector<T> pad_matrices(int64_t groups, int64_t inner, int64_t outer, const T* weights, bool transpose) {
    const int64_t lines = transpose ? outer : inner, stride = round_up(transpose ? inner : outer, 16);
    std::vector<T> padded(groups * lines * stride);
    for (int64_t g = 0; g < groups; ++g)
        for (int64_t i = 0; i < inner; ++i)
            for (int64_t o = 0; o < outer; ++o) {
                const int64_t line = g * lines + (transpose ? o : i), column = transpose ? i : o;
                padded[line * stride + column] = weights[(g * inner + i) * outer + o];
            }
    return padded;
}

// One output a group: scalar products of I numbers, or as many as given.
template <typename T, int I>
void dot_rows(int64_t begin, int64_t end, int64_t groups, int64_t dynamic_inner, const T* rows, const T* weights,
              T* output) {
    const int64_t inner = I ? I : dynamic_inner;
    for (int64_t j = begin * groups; j < end * groups; ++j) {
        const T *const row = rows + j * inner, *const weight = weights + j % groups * inner;
        T sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < inner; ++i) sum += row[i] * weight[i];
        output[j] = sum;
    }
}

template <typename T>
void grouped_product(int threads, int64_t count, int64_t groups, int64_t inner, int64_t outer, const T* rows,
                     const T* weights, T* output) {
    if (outer == 1) {
        parallel(threads, count, [&](int64_t begin, int64_t end) {
            const auto dot = inner == 32 ? dot_rows<T, 32> : inner == 8 ? dot_rows<T, 8> : dot_rows<T, 0>;
            dot(begin, end, groups, inner, rows, weights, output);
        });
        return;
    }
    const std::vector<T> matrices = pad_matrices(groups, inner, outer, weights, false);
    parallel(threads, count, [&](int64_t begin, int64_t end) {
        for (int64_t g = 0; g < groups; ++g)
            multiply_group(begin, end, inner, outer, rows + g * inner, groups * inner,
                           matrices.data() + g * inner * round_up(outer, 16), output + g * outer, groups * outer);
    });
}

// Adds to ``sums`` (outer, stride) the products of outputs first … first + O with 16 numbers of each row.
template <typename T, int O>
INLINE void add_outer_tile(int64_t begin, int64_t end, const T* gradient, int64_t gradient_stride, const T* rows,
                           int64_t row_stride, T* sums, int64_t stride) {
    constexpr int N = lanes<T>, PARTS = 16 / N;
    using V = Vector<T, N>;
    V total[O][PARTS] = {};
    for (int64_t n = begin; n < end; ++n) {
        V row[PARTS];
        for (int p = 0; p < PARTS; ++p) row[p] = load<V>(rows + n * row_stride + p * N);
        for (int o = 0; o < O; ++o)
            for (int p = 0; p < PARTS; ++p) total[o][p] += gradient[n * gradient_stride + o] * row[p];
    }
    for (int o = 0; o < O; ++o)
        for (int p = 0; p < PARTS; ++p) {
            T* const sum = sums + o * stride + p * N;
            store(sum, load<V>(sum) + total[o][p]);
        }
}

// Adds outputs in tiles of O, then one by one.
template <typename T, int O>
INLINE void add_outer_tiles(int64_t begin, int64_t end, int64_t outer, const T* gradient, int64_t gradient_stride,
                            const T* rows, int64_t row_stride, T* sums, int64_t stride) {
    int64_t o = 0;
    for (; o + O <= outer; o += O)
        add_outer_tile<T, O>(begin, end, gradient + o, gradient_stride, rows, row_stride, sums + o * stride, stride);
    for (; o < outer; ++o)
        add_outer_tile<T, 1>(begin, end, gradient + o, gradient_stride, rows, row_stride, sums + o * stride, stride);
}

// Adds the gradient of a group's matrix from a block of rows: (outer, inner).
template <typename T>
void add_outer_products(int64_t begin, int64_t end, int64_t inner, int64_t outer, const T* gradient,
                        int64_t gradient_stride, const T* rows, int64_t row_stride, T* sums) {
    constexpr int MANY = LANES == 16 ? 16 : 4, TEN = LANES == 16 ? 10 : 5;  // what registers hold
    const auto add = outer % MANY == 0 ? add_outer_tiles<T, MANY>
                     : outer % TEN == 0 ? add_outer_tiles<T, TEN>
                                        : add_outer_tiles<T, 4>;
    int64_t i = 0;
    for (; i + 16 <= inner; i += 16)
        add(begin, end, outer, gradient, gradient_stride, rows + i, row_stride, sums + i, inner);
    if (i == inner) return;
    for (int64_t n = begin; n < end; ++n)
        for (int64_t o = 0; o < outer; ++o)
            for (int64_t j = i; j < inner; ++j)
                sums[o * inner + j] += gradient[n * gradient_stride + o] * rows[n * row_stride + j];
}

// One output a group: both gradients in one pass.
template <typename T, int I>
void dot_rows_backward(int64_t begin, int64_t end, int64_t groups, int64_t dynamic_inner, const T* gradient,
                       const T* rows, const T* weights, T* rows_gradient, T* weights_gradient) {
    const int64_t inner = I ? I : dynamic_inner;
    // Not in place: the lines of the cache there are those of other threads too.
    std::vector<T> total(groups * inner);
    T* const __restrict sums = total.data();
    for (int64_t n = begin; n < end; ++n)
        for (int64_t g = 0; g < groups; ++g) {
            const T slope = gradient[n * groups + g], *const row = rows + (n * groups + g) * inner;
            T* const __restrict result = rows_gradient + (n * groups + g) * inner;
            for (int64_t i = 0; i < inner; ++i) {
                result[i] = slope * weights[g * inner + i];
                sums[g * inner + i] += slope * row[i];
            }
        }
    std::copy(total.begin(), total.end(), weights_gradient);
}

// Sums partial gradients (..., groups, outer, inner) to one (groups, inner, outer).
template <typename T>
void sum_partial_products(const std::vector<T>& partial, int64_t groups, int64_t inner, int64_t outer,
                          T* weights_gradient) {
    const int64_t size = groups * inner * outer;
    std::vector<T> total(size);
    for (size_t part = 0; part < partial.size(); part += size)
        for (int64_t j = 0; j < size; ++j) total[j] += partial[part + j];
    for (int64_t g = 0; g < groups; ++g)
        for (int64_t i = 0; i < inner; ++i)
            for (int64_t o = 0; o < outer; ++o)
                weights_gradient[(g * inner + i) * outer + o] = total[(g * outer + o) * inner + i];
}

template <typename T>
void grouped_product_backward(int threads, int64_t count, int64_t groups, int64_t inner, int64_t outer,
                              const T* gradient, const T* rows, const T* weights, T* rows_gradient,
                              T* weights_gradient) {
    const int64_t size = groups * inner * outer;
    std::vector<T> partial(count_blocks(count) * size);  // (blocks, groups, outer, inner)
    const std::vector<T> matrices = outer == 1 ? std::vector<T>() : pad_matrices(groups, inner, outer, weights, true);
    parallel(threads, count, [&](int64_t begin, int64_t end) {
        T* const sums = partial.data() + begin / BLOCK * size;
        if (outer == 1) {
            const auto backward = inner == 32  ? dot_rows_backward<T, 32>
                                  : inner == 8 ? dot_rows_backward<T, 8>
                                               : dot_rows_backward<T, 0>;
            backward(begin, end, groups, inner, gradient, rows, weights, rows_gradient, sums);
            return;
        }
        for (int64_t g = 0; g < groups; ++g) {
            multiply_group(begin, end, outer, inner, gradient + g * outer, groups * outer,
                           matrices.data() + g * outer * round_up(inner, 16), rows_gradient + g * inner,
                           groups * inner);
            add_outer_products(begin, end, inner, outer, gradient + g * outer, groups * outer, rows + g * inner,
                               groups * inner, sums + g * inner * outer);
        }
    });
    sum_partial_products(partial, groups, inner, outer, weights_gradient);
}

// 32 columns of C = A B, R rows of A at a time: their sums stay in registers while B streams past.
template <int R>
void product_rows(int64_t inner, int64_t stride, int64_t columns, const float* __restrict a,
                  const float* __restrict b, float* __restrict c, bool add) {
    constexpr int N = LANES, PARTS = 32 / N, STEP = 64 / sizeof(float);
    using V = Vector<float, N>;
    // The rows that come next are fetched, unless these are so long that they would not stay.
    const int64_t ahead = stride < 2048 ? R * stride : 0;
    V sums[R][PARTS];
    for (int r = 0; r < R; ++r)
        for (int p = 0; p < PARTS; ++p) sums[r][p] = add ? load<V>(c + r * columns + p * N) : V{};
    for (int64_t start = 0; start < inner; start += STEP) {
        for (int r = 0; r < R; ++r) __builtin_prefetch(a + r * stride + start + ahead, 0, 2);
        for (int64_t k = start; k < std::min(inner, start + STEP); ++k) {
            V row[PARTS];
            for (int p = 0; p < PARTS; ++p) row[p] = load<V>(b + k * columns + p * N);
            for (int r = 0; r < R; ++r)
                for (int p = 0; p < PARTS; ++p) sums[r][p] += a[r * stride + k] * row[p];
        }
    }
    for (int r = 0; r < R; ++r)
        for (int p = 0; p < PARTS; ++p) store(c + r * columns + p * N, sums[r][p]);
}

// Rows of A that a thread takes: a multiple of those in registers.
constexpr int64_t PRODUCT_BLOCK = 36;

// C = A B for some rows of A and a multiple of 32 columns.
inline void product_block(int64_t rows, int64_t inner, int64_t columns, const float* a, const float* b, float* c) {
    constexpr int R = LANES == 16 ? 12 : 3;
    const int64_t tile = 1024;  // rows of B that stay in the cache
    for (int64_t k = 0; k < inner; k += tile)
        for (int64_t j = 0; j < columns; j += 32) {
            const int64_t count = std::min(tile, inner - k);
            const float *const from = a + k, *const with = b + k * columns + j;
            float* const to = c + j;
            int64_t i = 0;
            for (; i + R <= rows; i += R)
                product_rows<R>(count, inner, columns, from + i * inner, with, to + i * columns, k > 0);
            for (; i < rows; ++i)
                product_rows<1>(count, inner, columns, from + i * inner, with, to + i * columns, k > 0);
        }
}

// A tall matrix (rows, inner) times one of few columns, a multiple of 32, as four heads of eight units have.
void product(int threads, int64_t rows, int64_t inner, int64_t columns, const float* a, const float* b, float* c) {
    parallel(threads, rows, PRODUCT_BLOCK, [&](int64_t begin, int64_t end) {
        product_block(end - begin, inner, columns, a + begin * inner, b, c + begin * columns);
    });
}
