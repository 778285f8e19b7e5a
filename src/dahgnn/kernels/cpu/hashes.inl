// A number for the content of each row, the same bits as those of the plain twin.

// The bits of a number, of which those of negative zero are the bits of zero.
INLINE uint64_t bits_of(float number) {
    uint32_t bits;
    number += 0.0f;
    std::memcpy(&bits, &number, sizeof bits);
    return bits;
}

INLINE uint64_t bits_of(double number) {
    uint64_t bits;
    number += 0.0;
    std::memcpy(&bits, &number, sizeof bits);
    return bits;
}

// Rows (count, width), a factor for each column.
template <typename T>
void row_hashes(int threads, int64_t count, int64_t width, const T* rows, const uint64_t* factors, uint64_t* hashes) {
    parallel(threads, count, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            const T* const row = rows + i * width;
            uint64_t sum = 0;
#pragma omp simd reduction(+ : sum)
            for (int64_t j = 0; j < width; ++j) {
                uint64_t bits = bits_of(row[j]);
                bits = (bits ^ (bits >> 17)) * UINT64_C(0x9E3779B97F4A7C15);
                sum += (bits ^ (bits >> 29)) * factors[j];
            }
            hashes[i] = sum;
        }
    });
}
