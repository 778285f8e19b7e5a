// Features times a weight, through ELU and dropout, times a second weight: the convolution and the projection behind it
// in one pass. What lies between the two products never leaves the caches but once, for the gradient: there it stands
// behind ELU and dropout, and units that fell are zeros with a sign, so that neither is computed anew.

INLINE void fetch(const float* from, int64_t count) {
    for (int64_t j = 0; j < count; j += 16) __builtin_prefetch(from + j, 0, 2);
}

// Adds 32 columns of AᵀB to R rows of C, whose sums stay in registers while rows of A and B stream past.
template <int R>
void add_transposed_rows(int64_t count, int64_t inner, int64_t columns, const float* __restrict a,
                         const float* __restrict b, float* __restrict c) {
    constexpr int N = LANES, PARTS = 32 / N;
    using V = Vector<float, N>;
    V sums[R][PARTS];
    for (int r = 0; r < R; ++r)
        for (int p = 0; p < PARTS; ++p) sums[r][p] = load<V>(c + r * columns + p * N);
    for (int64_t n = 0; n < count; ++n) {
        V row[PARTS];
        for (int p = 0; p < PARTS; ++p) row[p] = load<V>(b + n * columns + p * N);
        for (int r = 0; r < R; ++r)
            for (int p = 0; p < PARTS; ++p) sums[r][p] += a[n * inner + r] * row[p];
    }
    for (int r = 0; r < R; ++r)
        for (int p = 0; p < PARTS; ++p) store(c + r * columns + p * N, sums[r][p]);
}

// C (inner, columns) += AᵀB for A (count, inner) and B (count, columns), a multiple of 32 columns.
inline void add_transposed_product(int64_t count, int64_t inner, int64_t columns, const float* a, const float* b,
                                   float* c) {
    constexpr int R = LANES == 16 ? 12 : 3;
    for (int64_t j = 0; j < columns; j += 32) {
        int64_t i = 0;
        for (; i + R <= inner; i += R) add_transposed_rows<R>(count, inner, columns, a + i, b + j, c + i * columns + j);
        for (; i + 4 <= inner; i += 4) add_transposed_rows<4>(count, inner, columns, a + i, b + j, c + i * columns + j);
        for (; i < inner; ++i) add_transposed_rows<1>(count, inner, columns, a + i, b + j, c + i * columns + j);
    }
}

struct Convolved {
    int64_t rows, inner, hidden, outer;  // ``hidden`` is a multiple of 32
    bool activation;
    Dropping dropping;
    const float *features, *first, *second;  // (rows, inner), (inner, hidden), (hidden, outer)

    ActivatedRows<float> passing() const { return {1, hidden, activation, dropping, nullptr, nullptr}; }
};

// Writes what the second product gives, (rows, outer), and what stands between the two, (rows, hidden), unless missing.
inline void convolved_product(int threads, const Convolved& call, float* between, float* output) {
    const int64_t hidden = call.hidden, outer = call.outer, inner = call.inner;
    const ActivatedRows<float> rows = call.passing();
    const bool tall = outer % 32 == 0;
    const std::vector<float> padded = pad_matrices(1, hidden, outer, call.second, false);
    parallel(call.rows < SHARED_ROWS ? 1 : threads, call.rows, 4 * PRODUCT_BLOCK, [&](int64_t begin, int64_t end) {
        Buffer<float> room;
        Buffer<int8_t> stays;
        room.fit(PRODUCT_BLOCK * hidden), stays.fit(PRODUCT_BLOCK * hidden);
        for (int64_t i = begin; i < end; i += PRODUCT_BLOCK) {
            const int64_t count = std::min(PRODUCT_BLOCK, end - i);
            product_block(count, inner, hidden, call.features + i * inner, call.first, room.data());
            rows.activate_here(i, count, room.data(), stays.data());
            if (between) stream(between + i * hidden, room.data(), count * hidden);
            if (tall)
                product_block(count, hidden, outer, room.data(), call.second, output + i * outer);
            else
                multiply_group<float>(0, count, hidden, outer, room.data(), hidden, padded.data(), output + i * outer,
                                      outer);
        }
    });
}

// Rows that are packed for a step of the gradient: so many that its sums, which go to registers and back, are rarely
// looked at.
constexpr int64_t MANY = 2 * PRODUCT_BLOCK;

// Rows that have a gradient, one behind the other; the others add nothing.
struct Packed {
    const Convolved& call;
    Buffer<float> features, between, gradient, room;
    int64_t count = 0;

    explicit Packed(const Convolved& call) : call(call) {
        features.fit(MANY * call.inner), between.fit(MANY * call.hidden);
        gradient.fit(MANY * call.outer), room.fit(MANY * call.hidden);
    }
    // Takes a row, unless it has no gradient.
    void take(int64_t row, const float* all_between, const float* all_gradients) {
        const float* const given = all_gradients + row * call.outer;
        bool any = false;
        for (int64_t o = 0; o < call.outer; ++o) any |= given[o] != 0.0f;
        if (!any) return;
        copy(gradient.data() + count * call.outer, given, call.outer);
        copy(features.data() + count * call.inner, call.features + row * call.inner, call.inner);
        copy(between.data() + count * call.hidden, all_between + row * call.hidden, call.hidden);
        ++count;
    }
    // Adds what the rows that were taken give, (inner and outer, hidden), and lets them go; ``back`` is (outer, hidden).
    void add(const float* back, float* sums) {
        const int64_t hidden = call.hidden, outer = call.outer;
        add_transposed_product(count, outer, hidden, gradient.data(), between.data(), sums + call.inner * hidden);
        product_block(count, outer, hidden, gradient.data(), back, room.data());
        call.passing().multiply_marked_slopes(between.data(), count * hidden, room.data());
        add_transposed_product(count, call.inner, hidden, features.data(), room.data(), sums);
        count = 0;
    }
};

// Gradients of both weights.
inline void convolved_product_backward(int threads, const Convolved& call, const float* between,
                                       const float* gradient, float* first_gradient, float* second_gradient) {
    constexpr int64_t AHEAD = 80;  // rows that come from memory meanwhile
    const int64_t hidden = call.hidden, outer = call.outer, inner = call.inner, size = (inner + outer) * hidden;
    const int64_t share = share_of(call.rows);
    std::vector<float> partial((call.rows + share - 1) / share * size);  // (shares, inner and outer, hidden)
    std::vector<float> back(outer * hidden);
    for (int64_t j = 0; j < hidden; ++j)
        for (int64_t o = 0; o < outer; ++o) back[o * hidden + j] = call.second[j * outer + o];
    parallel(call.rows < SHARED_ROWS ? 1 : threads, call.rows, share, [&](int64_t begin, int64_t end) {
        Packed packed(call);
        float* const sums = partial.data() + begin / share * size;
        for (int64_t row = begin; row < end; ++row) {
            if (row + AHEAD < end) {
                fetch(call.features + (row + AHEAD) * inner, inner);
                fetch(between + (row + AHEAD) * hidden, hidden);
                fetch(gradient + (row + AHEAD) * outer, outer);
            }
            packed.take(row, between, gradient);
            if (packed.count == MANY) packed.add(back.data(), sums);
        }
        packed.add(back.data(), sums);
    });
    std::vector<float> total(size);
    for (size_t part = 0; part < partial.size(); part += size)
        for (int64_t j = 0; j < size; ++j) total[j] += partial[part + j];
    std::copy_n(total.begin(), inner * hidden, first_gradient);
    for (int64_t j = 0; j < hidden; ++j)
        for (int64_t o = 0; o < outer; ++o) second_gradient[j * outer + o] = total[(inner + o) * hidden + j];
}
