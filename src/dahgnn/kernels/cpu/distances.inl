// Squared distances of pairs of rows in double precision, the same bits as those of the plain twin.

// Adds the second half of the terms to the first, which is the longer one if they are odd, until one is left. The
// terms are in memory before they are added: a product that is fused with a sum would be rounded once less.
INLINE double sum_by_halves(double* __restrict terms, int64_t count) {
    while (count > 1) {
        const int64_t half = (count + 1) / 2;
        const double* const rest = terms + half;
#pragma GCC ivdep
        for (int64_t j = 0; j < count - half; ++j) terms[j] += rest[j];
        count = half;
    }
    return terms[0];
}

// The pairs are given by the numbers of their rows among the points (n, width).
template <typename T>
void squared_distances(int threads, int64_t pairs, int64_t width, const T* points, const int64_t* here,
                       const int64_t* there, double scale, double* squares) {
    parallel(threads, pairs, [&](int64_t begin, int64_t end) {
        std::vector<double> buffer(width);
        double* const __restrict terms = buffer.data();
        for (int64_t pair = begin; pair < end; ++pair) {
            const T *const first = points + here[pair] * width, *const second = points + there[pair] * width;
            // Neighbours are anywhere: that of the next pair comes from memory meanwhile.
            const T* const next = points + there[std::min(pair + 1, end - 1)] * width;
            for (int64_t j = 0; j < width; j += 64 / sizeof(T)) __builtin_prefetch(next + j);
            for (int64_t j = 0; j < width; ++j) {
                const double difference = (double(first[j]) - double(second[j])) * scale;
                terms[j] = difference * difference;
            }
            squares[pair] = sum_by_halves(terms, width);
        }
    });
}

// Sums, for the first ``count`` rows (heads, units), their scalar products with the rows that a segment names, those
// greater than ``delta`` alone.
template <typename T>
void similarity_sum(int threads, int64_t count, int64_t heads, int64_t units, const Segments& segments, T delta,
                    const T* directions, T* sums) {
    const int64_t width = heads * units;
    // No cosine is greater than one, but its rounding may be.
    const T least = delta < T(1) ? delta : std::numeric_limits<T>::infinity();
    parallel(threads, count, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            const T* const own = directions + i * width;
            T* const sum = sums + i * heads;
            std::fill(sum, sum + heads, T(0));
            for (int64_t t = segments.offsets[i]; t < segments.offsets[i + 1]; ++t) {
                const T* const other = directions + segments.indices[t] * width;
                for (int64_t h = 0; h < heads; ++h) {
                    T product = 0;
#pragma omp simd reduction(+ : product)
                    for (int64_t u = h * units; u < (h + 1) * units; ++u) product += own[u] * other[u];
                    if (product > least) sum[h] += product;
                }
            }
        }
    });
}
