// A sparse matrix times rows.

// Numbers of a row that are summed in registers at a time.
constexpr int64_t STRIP = 2 * LANES;

// Sums the rows that each target names, by weights: output[i] = Σ_j weights[j] values[columns[j]].
template <typename T>
void sparse_product(int threads, int64_t targets, int64_t width, const int32_t* offsets, const int32_t* columns,
                    const T* weights, const T* values, T* output) {
    parallel(threads, targets, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            const int64_t first = offsets[i], last = offsets[i + 1];
            // Rows of targets far ahead come from memory meanwhile: the places of neighbours are random.
            for (int64_t j = last; j < std::min<int64_t>(last + 16, offsets[end]); ++j)
                __builtin_prefetch(values + columns[j] * width);
            for (int64_t c = 0; c < width; c += STRIP) {
                const int64_t count = std::min(STRIP, width - c);
                T sums[STRIP] = {};
                for (int64_t j = first; j < last; ++j) {
                    const T* const row = values + columns[j] * width + c;
                    for (int64_t k = 0; k < count; ++k) sums[k] += weights[j] * row[k];
                }
                std::copy_n(sums, count, output + i * width + c);
            }
        }
    });
}
