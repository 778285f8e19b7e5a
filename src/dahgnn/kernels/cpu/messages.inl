// What both directions of Algorithm 1 share. Heads never mix, so they are computed in groups, one after the other:
// of G = 4 heads, the last filled up with heads of zeros, or of G = 1 where there is but one. U is the number of
// units where the compiler knows it, else 0.
//
// Both directions go over "quads", four incidences at a time, whose 4 * G scores fill vectors. Where a segment ends
// within a quad, the rest of it is "nobody", a packet behind the last, that adds nothing.

// How the numbers of a group lie in memory. A packet is what is gathered: a row, that is a unit of all heads after
// the other, with units of zeros up to a multiple of four, and behind it a record, four numbers of each head. Ten
// units of one head and their record fill one line of the cache.
template <int G, int U>
struct Layout {
    static constexpr int HEADS = G, UNITS = U;
    int64_t given;
    int64_t units() const { return U ? U : given; }
    int64_t row() const { return G * round_up(units(), 4); }
    int64_t packet() const { return round_up(row() + 4 * G, 16); }
    int64_t direction() const { return round_up(row(), 16); }
    // What the gradient needs of a target: two sums, then highest score, 1 / total and lost share of each head.
    int64_t sums() const { return round_up(2 * row() + 3 * G, 16); }
};

// Calls ``work(layout, head)`` with the first head of each group.
template <typename Work>
void for_groups(int64_t heads, int64_t units, Work work) {
    for (int64_t head = 0; head < heads; head += heads == 1 ? 1 : 4)
        if (heads > 1 && units == 8)
            work(Layout<4, 8>{units}, head);
        else if (heads > 1 && units == 10)
            work(Layout<4, 10>{units}, head);
        else if (heads > 1)
            work(Layout<4, 0>{units}, head);
        else if (units == 10)
            work(Layout<1, 10>{units}, head);
        else
            work(Layout<1, 0>{units}, head);
}

// Numbers of a group that the gradient needs, see Group; ``targets`` are those whose sums are kept.
template <typename L>
int64_t kept_size(const L& layout, int64_t nodes, int64_t hyperedges, int64_t targets) {
    return 16 + (nodes + hyperedges + 2) * layout.packet() + targets * layout.sums();
}

// Numbers that a call needs: to keep for the gradient, and for its own use in either direction.
inline void message_sizes(int64_t nodes, int64_t hyperedges, int64_t targets, int64_t heads, int64_t units,
                          int64_t* sizes) {
    std::fill(sizes, sizes + 3, 0);
    for_groups(heads, units, [&](auto layout, int64_t) {
        sizes[0] += kept_size(layout, nodes, hyperedges, targets);
        sizes[1] = (nodes + 1) * layout.direction();
        sizes[2] = (nodes + hyperedges + 2) * layout.packet() + nodes * layout.HEADS;
    });
}

struct Segments {
    const int64_t *offsets, *indices;
    int64_t count(int64_t segment) const { return offsets[segment + 1] - offsets[segment]; }
    const int64_t* of(int64_t segment) const { return indices + offsets[segment]; }
};

// Which targets can get a gradient, and so have their sums kept: the places of these, negative for the others; without
// places all targets in their order.
struct Kept {
    int64_t count;
    const int32_t* places;
    int64_t place(int64_t target) const { return places ? places[target] : target; }
};

// A call of either direction, on all heads.
template <typename T>
struct Messages {
    int threads;
    int64_t nodes, hyperedges, heads, units;
    T slope;
    bool activation;
    Segments by_hyperedge, by_node;
    const T *wx, *e_term;  // (nodes, heads, units), (hyperedges, heads)
    const T* vectors;       // (3, heads, units): from node, to node, from hyperedge
    int64_t receivers;      // nodes that get sums: all of them, or different ones that are chosen
    const int64_t* chosen;
    Kept kept_receivers, kept_hyperedges;
    int64_t receiver(int64_t number) const { return chosen ? chosen[number] : number; }
    int64_t kept_targets() const { return kept_receivers.count + kept_hyperedges.count; }
};

// Vectors of a group: of a row, or of a quad's scores.
template <typename T, int G>
constexpr int group_lanes = G == 1 ? 4 : lanes<T>;
template <typename T, int G>
using GroupVector = Vector<T, group_lanes<T, G>>;

// The numbers of the group's heads, as often as a vector holds them.
template <typename T, int G, int N>
INLINE Vector<T, N> repeat_heads(const T* heads) {
    if constexpr (G == 1)
        return Vector<T, N>{} + heads[0];
    else
        return repeat_four<T, N>(heads);
}
template <typename T, int G>
INLINE GroupVector<T, G> repeat(const T* heads) {
    return repeat_heads<T, G, group_lanes<T, G>>(heads);
}
template <typename T, int G, typename V>
INLINE void store_heads(T* heads, const V& repeated) {
    std::memcpy(heads, &repeated, G * sizeof(T));
}

// Copies the group's part of a row (heads, units), of which there are ``heads``, to a row of a packet, and back.
template <typename T, int G, int U>
INLINE void copy_in(const Layout<G, U>& layout, int64_t heads, const T* from, T* row) {
    const int64_t units = layout.units();
    if constexpr (G == 1) {
        copy(row, from, units);
        for (int64_t u = units; u < layout.row(); ++u) row[u] = 0;
    } else if (U == 8 && heads == 4) {
        transpose_in<T>(from, row);
    } else {
        std::fill(row, row + layout.row(), T(0));
        for (int64_t h = 0; h < heads; ++h)
            for (int64_t u = 0; u < units; ++u) row[u * G + h] = from[h * units + u];
    }
}
template <typename T, int G, int U>
INLINE void copy_out(const Layout<G, U>& layout, int64_t heads, const T* row, T* to) {
    const int64_t units = layout.units();
    if constexpr (G == 1) {
        copy(to, row, units);
    } else if (U == 8 && heads == 4) {
        transpose_out<T>(row, to);
    } else {
        for (int64_t h = 0; h < heads; ++h)
            for (int64_t u = 0; u < units; ++u) to[h * units + u] = row[u * G + h];
    }
}

// One group of a call. What both directions know:
//   scales            least density and factor, of nodes and of hyperedges
//   node_packets      wx; product with one vector, density, product with another
//   hyperedge_packets Ẽ; product with a vector, density, We's share
//   …_sums            see Layout; of receivers and of hyperedges, those that are kept
template <typename T, int G, int U>
struct Group {
    static constexpr int L = group_lanes<T, G>, PARTS = 4 * G / L;  // vectors of a quad's scores
    using V = GroupVector<T, G>;
    const Messages<T>& call;
    Layout<G, U> layout;
    int64_t first, heads;
    bool large;  // more than the caches hold
    T *scales, *node_packets, *hyperedge_packets, *receiver_sums, *hyperedge_sums;
    Buffer<T> vectors;

    Group(const Messages<T>& call, int64_t first, T* kept)
        : call(call), layout{call.units}, first(first), heads(std::min<int64_t>(G, call.heads - first)) {
        large = (call.nodes + call.hyperedges) * layout.packet() * static_cast<int64_t>(sizeof(T)) >= LARGE;
        scales = kept;
        node_packets = scales + 16;
        hyperedge_packets = node_packets + (call.nodes + 1) * layout.packet();
        receiver_sums = hyperedge_packets + (call.hyperedges + 1) * layout.packet();
        hyperedge_sums = receiver_sums + call.kept_receivers.count * layout.sums();
        vectors.fit(3 * layout.row());
        for (int v = 0; v < 3; ++v)
            copy_in<T, G, U>(layout, heads, call.vectors + (v * call.heads + first) * call.units, vector(v));
    }
    T* vector(int number) const { return vectors.data() + number * layout.row(); }
    T* node(int64_t i) const { return node_packets + i * layout.packet(); }
    T* hyperedge(int64_t k) const { return hyperedge_packets + k * layout.packet(); }
    // Where to make what belongs at ``to``: there, or in the room if whole lines then go past the caches, as what
    // is large will be read much later.
    INLINE T* make_at(T* to, T* room) const { return large ? room : to; }
    INLINE void put(T* to, const T* from, int64_t count) const {
        if (to != from) stream(to, from, count);
    }
    // The kept sums of a target, or nothing.
    T* sums_of_receiver(int64_t number) const { return find(call.kept_receivers, number, receiver_sums); }
    T* sums_of_hyperedge(int64_t k) const { return find(call.kept_hyperedges, k, hyperedge_sums); }
    // Reads or writes the group's part of a row (…, heads, units) or of shares (…, heads).
    INLINE void read(const T* rows, int64_t number, T* row) const {
        copy_in<T, G, U>(layout, heads, rows + (number * call.heads + first) * call.units, row);
    }
    INLINE void write(const T* row, T* rows, int64_t number) const {
        T* const to = rows + (number * call.heads + first) * call.units;
        if (large && G == 4 && U == 8 && heads == 4) {
            alignas(64) T whole[32];
            copy_out<T, G, U>(layout, heads, row, whole);
            put(to, whole, 32);
        } else {
            copy_out<T, G, U>(layout, heads, row, to);
        }
    }
    INLINE V read_term(const T* shares, int64_t number) const {
        const T* const share = shares + number * call.heads + first;
        if (heads == G) return repeat<T, G>(share);
        T filled[4] = {};
        copy(filled, share, heads);
        return repeat<T, G>(filled);
    }
    INLINE void write_term(const T* share, T* shares, int64_t number) const {
        for (int h = 0; h < heads; ++h) shares[number * call.heads + first + h] = share[h];
    }

   private:
    T* find(const Kept& kept, int64_t target, T* sums) const {
        const int64_t place = kept.place(target);
        return place < 0 ? nullptr : sums + place * layout.sums();
    }
};

// Combines what the vectors of a quad hold of each head, repeated.
template <typename T, int G, typename V, int PARTS>
INLINE V add_heads(const V (&parts)[PARTS]) {
    V all = parts[0];
    for (int p = 1; p < PARTS; ++p) all += parts[p];
    return fold<T, group_lanes<T, G>, G>(all, [](const V& a, const V& b) { return a + b; });
}
template <typename T, int G, typename V, int PARTS>
INLINE V greatest_heads(const V (&parts)[PARTS]) {
    V all = parts[0];
    for (int p = 1; p < PARTS; ++p) all = larger<V>(all, parts[p]);
    return fold<T, group_lanes<T, G>, G>(all, [](const V& a, const V& b) { return larger<V>(a, b); });
}

// The scalar products, head by head, of four pairs of rows.
template <typename T, int G, int U, typename V>
INLINE void multiply_rows(const Layout<G, U>& layout, const T* const (&a)[4], const T* const (&b)[4], V* products) {
    constexpr int L = group_lanes<T, G>;
    using M = Vector<Integer<T>, L>;
    V sums[4];
    for (int q = 0; q < 4; ++q) {
        sums[q] = load<V>(a[q]) * load<V>(b[q]);
        for (int64_t j = L; j < layout.row(); j += L) sums[q] += load<V>(a[q] + j) * load<V>(b[q] + j);
    }
    if constexpr (G == 1) {
        products[0] = add_columns<T>(sums);
    } else if constexpr (L == 16) {
        V halves[2];  // of two pairs each: half the sums of the first, then of the second
        for (int j = 0; j < 2; ++j) {
            const V first = sums[2 * j], second = sums[2 * j + 1];
            halves[j] = SHUFFLE(M, first, second, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
                        SHUFFLE(M, first, second, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
        }
        products[0] = SHUFFLE(M, halves[0], halves[1], 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
                      SHUFFLE(M, halves[0], halves[1], 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
    } else if constexpr (L == 8) {
        for (int j = 0; j < 2; ++j)
            products[j] = SHUFFLE(M, sums[2 * j], sums[2 * j + 1], 0, 1, 2, 3, 8, 9, 10, 11) +
                          SHUFFLE(M, sums[2 * j], sums[2 * j + 1], 4, 5, 6, 7, 12, 13, 14, 15);
    } else {
        for (int q = 0; q < 4; ++q) products[q] = sums[q];
    }
}

// Turns the records of a quad, four fields of G numbers each, into vectors of each field.
template <typename T, int G, typename V, int PARTS>
INLINE void read_records(const T* const* packets, int64_t behind, V (&fields)[4][PARTS]) {
    constexpr int L = group_lanes<T, G>;
    using M = Vector<Integer<T>, L>;
    if constexpr (G == 1) {
        V records[4];
        for (int q = 0; q < 4; ++q) records[q] = load<V>(packets[q] + behind);
        transpose<T>(records);
        for (int f = 0; f < 4; ++f) fields[f][0] = records[f];
    } else if constexpr (L == 16) {
        V halves[4];
        for (int j = 0; j < 2; ++j) {
            const V a = load<V>(packets[2 * j] + behind), b = load<V>(packets[2 * j + 1] + behind);
            halves[j] = SHUFFLE(M, a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
            halves[2 + j] = SHUFFLE(M, a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
        }
        for (int j = 0; j < 2; ++j) {
            const V a = halves[2 * j], b = halves[2 * j + 1];
            fields[2 * j][0] = SHUFFLE(M, a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
            fields[2 * j + 1][0] = SHUFFLE(M, a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
        }
    } else if constexpr (L == 8) {
        for (int p = 0; p < 2; ++p)
            for (int j = 0; j < 2; ++j) {
                const V a = load<V>(packets[2 * p] + behind + 8 * j), b = load<V>(packets[2 * p + 1] + behind + 8 * j);
                fields[2 * j][p] = SHUFFLE(M, a, b, 0, 1, 2, 3, 8, 9, 10, 11);
                fields[2 * j + 1][p] = SHUFFLE(M, a, b, 4, 5, 6, 7, 12, 13, 14, 15);
            }
    } else {
        for (int f = 0; f < 4; ++f)
            for (int q = 0; q < 4; ++q) fields[f][q] = load<V>(packets[q] + behind + 4 * f);
    }
}

// A weighted sum of rows, in registers where their length is known, else in the ``room`` that is given. Of a packet
// whose row is short, the record is summed too, to no purpose and at no cost.
template <typename T, int G, int U>
struct Sum {
    static constexpr int N = lanes<T>, PARTS = (G == 1 ? 16 : G * ((U + 3) / 4 * 4)) / N;
    static_assert(G == 4 || U <= 12, "a packet of a single head is one of 16 numbers");
    using V = Vector<T, N>;
    V parts[PARTS];

    INLINE Sum(const Layout<G, U>&, T*) {
        for (V& part : parts) part = V{};
    }
    // Adds the rows of a quad by their weights, G for each.
    INLINE void add(const T* weights, const T* const* rows) {
        for (int q = 0; q < 4; ++q) {
            const V weight = repeat_heads<T, G, N>(weights + G * q);
            for (int p = 0; p < PARTS; ++p) parts[p] += weight * load<V>(rows[q] + p * N);
        }
    }
    // Writes the sum, times a number of each head.
    INLINE void write(const Layout<G, U>& layout, const GroupVector<T, G>& factor, T* row) const {
        if constexpr (G == 1) {
            V scaled[PARTS];
            for (int p = 0; p < PARTS; ++p) scaled[p] = parts[p] * factor[0];
            std::memcpy(row, scaled, layout.row() * sizeof(T));
        } else {
            for (int p = 0; p < PARTS; ++p) store(row + p * N, parts[p] * factor);
        }
    }
};
template <typename T, int G>
struct Sum<T, G, 0> {
    using V = GroupVector<T, G>;
    static constexpr int L = group_lanes<T, G>;
    T* const parts;
    const int64_t size;

    INLINE Sum(const Layout<G, 0>& layout, T* room) : parts(room), size(layout.row()) {
        std::fill(parts, parts + size, T(0));
    }
    INLINE void add(const T* weights, const T* const* rows) {
        const V a = repeat<T, G>(weights), b = repeat<T, G>(weights + G);
        const V c = repeat<T, G>(weights + 2 * G), d = repeat<T, G>(weights + 3 * G);
        for (int64_t j = 0; j < size; j += L)
            store(parts + j, load<V>(parts + j) + a * load<V>(rows[0] + j) + b * load<V>(rows[1] + j) +
                                        c * load<V>(rows[2] + j) + d * load<V>(rows[3] + j));
    }
    INLINE void write(const Layout<G, 0>&, const V& factor, T* row) const {
        for (int64_t j = 0; j < size; j += L) store(row + j, load<V>(parts + j) * factor);
    }
};

// The packets of a segment, filled up with nobody to whole quads.
template <typename T>
struct Quads {
    std::vector<const T*> packets;
    int64_t count = 0;

    // Lists the packets of a segment, or those alone that are active, and has them fetched.
    INLINE void list(const Segments& segments, int64_t segment, const uint8_t* active, const T* first, int64_t stride,
                     int64_t nobody) {
        const int64_t all = segments.count(segment), *const indices = segments.of(segment);
        if (packets.size() < static_cast<size_t>(all + 4)) packets.resize(2 * (all + 4));
        const T** const list = packets.data();
        int64_t listed = 0;
        for (int64_t t = 0; t < all; ++t) {  // without a branch, which nobody could foresee
            list[listed] = first + indices[t] * stride;
            listed += active ? active[indices[t]] : 1;
        }
        for (int64_t t = 0; t < listed; ++t)
            for (int64_t j = 0; j < stride; j += 64 / sizeof(T)) __builtin_prefetch(list[t] + j);
        count = (listed + 3) / 4;
        for (; listed < 4 * count; ++listed) list[listed] = first + nobody * stride;
    }
};
