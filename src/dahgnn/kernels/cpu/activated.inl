// Rows that pass an ELU and dropout on their way into a product. Neither what the ELU gives nor what dropout leaves is
// stored: the gradient computes both anew.

template <typename T>
struct ActivatedRows {
    int64_t groups, inner;
    bool activation;
    Dropping dropping;
    const int64_t* chosen;  // the rows that are multiplied; missing if all are
    const T* rows;          // (..., groups, inner)

    int64_t row(int64_t number) const { return chosen ? chosen[number] : number; }
    const T* of(int64_t number, int64_t group) const { return rows + (row(number) * groups + group) * inner; }
    // Writes a group's part of rows begin ... end behind ELU and dropout, and which of the units stay.
    void activate(int64_t group, int64_t begin, int64_t end, T* to, int8_t* stays) const {
        const bool together = groups == 1 && !chosen && !dropping.numbers;
        const int64_t size = together ? (end - begin) * inner : inner;
        for (int64_t number = begin; number < end; number += together ? end - begin : 1) {
            if (dropping.seeds) dropping.decide(group, dropping.number(row(number)) * inner, size, stays);
            activate_some(of(number, group), size, to, stays);
            to += size, stays += size;
        }
    }
    // Lets ``count`` rows from ``number`` on pass ELU and dropout where they stand. Units that fall become zeros with a
    // sign, which no other number does: nothing that stays is one, as adding zero takes the sign away.
    INLINE void activate_here(int64_t number, int64_t count, T* some, int8_t* stays) const {
        constexpr int N = lanes<T>;
        using V = Vector<T, N>;
        const int64_t size = count * inner;
        if (dropping.seeds) dropping.decide(0, number * inner, size, stays);
        const T scale = dropping.seeds ? dropping.scale<T>() : T(1);
        for (int64_t j = 0; j < size; j += N) {
            const V given = load<V>(some + j), active = (activation ? elu<T, N>(given) : given) * scale + T(0);
            store(some + j, dropping.seeds ? mark<T, N>(active, stays + j) : active);
        }
    }
    // Multiplies a gradient of such numbers by the slope of both.
    INLINE void multiply_marked_slopes(const T* active, int64_t size, T* gradient) const {
        constexpr int N = lanes<T>;
        using V = Vector<T, N>;
        using M = Vector<Integer<T>, N>;
        const T scale = dropping.seeds ? dropping.scale<T>() : T(1);
        for (int64_t j = 0; j < size; j += N) {
            const V behind = load<V>(active + j);
            const V slope = activation ? smaller<V>(V{}, behind) + scale : V{} + scale;
            const M stays = reinterpret_cast<M>(behind) != reinterpret_cast<M>(-V{});
            store(gradient + j, reinterpret_cast<V>(reinterpret_cast<M>(slope) & stays) * load<V>(gradient + j));
        }
    }
    // Multiplies a gradient of numbers behind ELU and dropout, which stand in ``active``, by the slope of both.
    INLINE void multiply_slopes(const T* active, const int8_t* stays, int64_t size, T* gradient) const {
        constexpr int N = lanes<T>;
        const T scale = dropping.seeds ? dropping.scale<T>() : T(1);
        int64_t j = 0;
        for (; j + N <= size; j += N)
            store(gradient + j, slopes<N>(load<Vector<T, N>>(active + j), stays + j, scale) *
                                    load<Vector<T, N>>(gradient + j));
        if (j == size) return;
        T some[N] = {};
        int8_t rest[N] = {};
        copy(some, active + j, size - j), copy(rest, stays + j, size - j);
        const Vector<T, N> factors = slopes<N>(load<Vector<T, N>>(some), rest, scale);
        for (int64_t k = 0; j + k < size; ++k) gradient[j + k] *= factors[k];
    }

   private:
    template <int N>
    INLINE Vector<T, N> pass(const Vector<T, N>& numbers, const int8_t* stays, T scale) const {
        const Vector<T, N> active = activation ? elu<T, N>(numbers) : numbers;
        return dropping.seeds ? leave<T, N>(active * scale, stays) : active;
    }
    // The slope of an ELU is one more than what it gives, where that is negative, and one elsewhere.
    template <int N>
    INLINE Vector<T, N> slopes(const Vector<T, N>& active, const int8_t* stays, T scale) const {
        using V = Vector<T, N>;
        const V slope = activation ? smaller<V>(V{}, active) + scale : V{} + scale;
        return dropping.seeds ? leave<T, N>(slope, stays) : slope;
    }
    INLINE void activate_some(const T* from, int64_t size, T* to, const int8_t* stays) const {
        constexpr int N = lanes<T>;
        const T scale = dropping.seeds ? dropping.scale<T>() : T(1);
        int64_t j = 0;
        for (; j + N <= size; j += N) store(to + j, pass<N>(load<Vector<T, N>>(from + j), stays + j, scale));
        if (j == size) return;
        T some[N] = {};
        int8_t rest[N] = {};
        copy(some, from + j, size - j), copy(rest, stays + j, size - j);
        const Vector<T, N> last = pass<N>(load<Vector<T, N>>(some), rest, scale);
        std::memcpy(to + j, &last, (size - j) * sizeof(T));
    }
};

// Rows whose numbers stay in the first cache between two steps of the work.
constexpr int64_t FEW = 32;

// Rows that a thread takes: so few shares that a partial sum for each takes little room, whatever the threads.
constexpr int64_t MOST_SHARES = 256;

inline int64_t share_of(int64_t count) {
    return std::max(BLOCK, round_up((count + MOST_SHARES - 1) / MOST_SHARES, BLOCK));
}

// Room for a few rows behind ELU and dropout, and for which of their units stay.
template <typename T>
struct Few {
    Buffer<T> active, given;
    Buffer<int8_t> stays;
    explicit Few(int64_t inner) { active.fit(FEW * inner), given.fit(FEW * inner), stays.fit(FEW * inner); }
};

// Products of ``count`` rows with the matrices of their groups, (groups, inner, outer).
template <typename T>
void activated_product(int threads, int64_t count, int64_t outer, const ActivatedRows<T>& rows, const T* weights,
                       T* output) {
    const int64_t groups = rows.groups, inner = rows.inner;
    const std::vector<T> matrices = pad_matrices(groups, inner, outer, weights, false);
    parallel(count < SHARED_ROWS ? 1 : threads, count, share_of(count), [&](int64_t begin, int64_t end) {
        const Few<T> few(inner);
        for (int64_t g = 0; g < groups; ++g)
            for (int64_t i = begin, stop; i < end; i = stop) {
                stop = std::min(i + FEW, end);
                rows.activate(g, i, stop, few.active.data(), few.stays.data());
                multiply_group<T>(0, stop - i, inner, outer, few.active.data(), inner,
                                  matrices.data() + g * inner * round_up(outer, 16), output + (i * groups + g) * outer,
                                  groups * outer);
            }
    });
}

// The rows that have a gradient, if these are less than half of rows begin ... end, and their gradients one behind the
// other: where few nodes have a label, the gradient of the last layer reaches hardly any of the others.
template <typename T>
struct Active {
    std::vector<int64_t> rows;
    std::vector<T> gradients;
    bool few;

    Active(int64_t begin, int64_t end, int64_t outer, const T* gradient) {
        for (int64_t row = begin; row < end; ++row) {
            const T* const given = gradient + row * outer;
            bool any = false;
            for (int64_t o = 0; o < outer; ++o) any |= given[o] != T(0);
            if (any) rows.push_back(row), gradients.insert(gradients.end(), given, given + outer);
        }
        few = 2 * static_cast<int64_t>(rows.size()) < end - begin;
    }
};

// Zeros, past the caches where they are many.
template <typename T>
INLINE void clear(T* to, int64_t count, bool large) {
    constexpr int64_t LINE = 64 / sizeof(T);
    const T zeros[LINE] = {};
    int64_t j = 0;
    for (; large && j + LINE <= count; j += LINE) stream(to + j, zeros, LINE);
    std::fill(to + j, to + count, T(0));
}

// Gradients of the rows, added to what stands there or in place of it, and of the weights. Chosen rows are different
// ones.
template <typename T>
void activated_product_backward(int threads, int64_t count, int64_t outer, const ActivatedRows<T>& all,
                                const T* gradients, const T* weights, bool add, T* rows_gradient,
                                T* weights_gradient) {
    const int64_t groups = all.groups, inner = all.inner, size = groups * inner * outer;
    const int64_t share = share_of(count);
    const bool large = count * inner * static_cast<int64_t>(sizeof(T)) >= LARGE;
    std::vector<T> partial((count + share - 1) / share * size);  // (shares, groups, outer, inner)
    const std::vector<T> matrices = pad_matrices(groups, inner, outer, weights, true);
    parallel(count < SHARED_ROWS ? 1 : threads, count, share, [&](int64_t begin, int64_t end) {
        const Few<T> few(inner);
        T* const active = few.active.data();
        T* const given = few.given.data();
        T* const sums = partial.data() + begin / share * size;
        ActivatedRows<T> rows = all;
        const T* gradient = gradients;
        const bool may_skip = groups == 1 && !add && !all.chosen;
        const Active<T> some(begin, may_skip ? end : begin, outer, gradients);
        if (some.few) {
            clear(rows_gradient + begin * inner, (end - begin) * inner, large);
            begin = 0, end = some.rows.size();
            rows.chosen = some.rows.data(), gradient = some.gradients.data();
        }
        for (int64_t g = 0; g < groups; ++g)
            for (int64_t i = begin, stop; i < end; i = stop) {
                stop = std::min(i + FEW, end);
                const T* const from = gradient + (i * groups + g) * outer;
                rows.activate(g, i, stop, active, few.stays.data());
                add_outer_products<T>(0, stop - i, inner, outer, from, groups * outer, active, inner,
                                      sums + g * inner * outer);
                // Where rows lie one behind the other and nothing stands there, their gradient is made in place.
                const bool direct = groups == 1 && !add && !rows.chosen;
                T* const made = direct ? rows_gradient + i * inner : given;
                multiply_group<T>(0, stop - i, outer, inner, from, groups * outer,
                                  matrices.data() + g * outer * round_up(inner, 16), made, inner);
                rows.multiply_slopes(active, few.stays.data(), (stop - i) * inner, made);
                for (int64_t number = i; number < stop && !direct; ++number) {
                    T* const to = rows_gradient + (rows.row(number) * groups + g) * inner;
                    const T* const row = given + (number - i) * inner;
                    for (int64_t j = 0; j < inner; ++j) to[j] = add ? to[j] + row[j] : row[j];
                }
            }
    });
    sum_partial_products(partial, groups, inner, outer, weights_gradient);
}
