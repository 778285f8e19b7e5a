// Algorithm 1: nodes to hyperedges to nodes, in four passes over rows.

template <typename T>
struct Forward : Messages<T> {
    Segments neighbours;  // without offsets: no density
    T delta, tolerance;
    T *new_nodes, *new_hyperedges;  // (receivers, heads, units), (hyperedges, heads, units)
    T *kept, *directions;
    const T* bias;  // (nodes, heads), what is added to the scores of the nodes in place of a density; may be missing
};

// Least and greatest density and greatest score of some rows, of each head, repeated.
template <typename T, int G>
struct Extremes {
    using V = GroupVector<T, G>;
    static constexpr int64_t L = group_lanes<T, G>, SIZE = 3 * L;
    V low = V{} + std::numeric_limits<T>::infinity(), high = -low, peak = high;
    INLINE void add_density(const V& density) { low = smaller<V>(density, low), high = larger<V>(density, high); }
    INLINE void add_score(const V& score) { peak = larger<V>(score, peak); }
    INLINE void write(T* to) const { store(to, low), store(to + L, high), store(to + 2 * L, peak); }
    static Extremes read(const T* from) { return {load<V>(from), load<V>(from + L), load<V>(from + 2 * L)}; }
};

// The least density and the factor that takes the greatest to the peak, of each head, from the extremes of blocks.
template <typename T, int G>
void set_scales(const Buffer<T>& extremes, int64_t blocks, bool density, T tolerance, T* scales) {
    using E = Extremes<T, G>;
    E all;
    for (int64_t block = 0; block < blocks; ++block) {
        const E some = E::read(extremes.data() + block * E::SIZE);
        all.add_density(some.low), all.add_density(some.high), all.add_score(some.peak);
    }
    for (int h = 0; h < G; ++h) {
        // A LeakyReLU of the greatest sum is the greatest score, and itself where it is positive.
        const T span = all.high[h] - all.low[h], peak = std::max(all.peak[h], T(0));
        const bool equal = !density || span <= tolerance * std::max(std::abs(all.high[h]), T(1));
        scales[h] = equal ? T(0) : all.low[h];
        scales[G + h] = equal ? T(0) : peak / span;
    }
}

// The direction of one head's row whose squares leave the range of T, or are all zero.
template <typename T>
void direct_extreme(const T* row, int64_t units, int64_t stride, T* direction) {
    T largest = 0, square = 0;
    for (int64_t j = 0; j < units * stride; j += stride) largest = std::max(largest, std::abs(row[j]));
    for (int64_t j = 0; j < units * stride; j += stride) {
        direction[j] = largest > 0 ? row[j] / largest : T(0);
        square += direction[j] * direction[j];
    }
    for (int64_t j = 0; j < units * stride && largest > 0; j += stride) direction[j] /= std::sqrt(square);
}

template <typename T, int G, int U>
INLINE void direct(const Group<T, G, U>& group, const T* row, const T* squares, T* direction) {
    using V = GroupVector<T, G>;
    const auto& layout = group.layout;
    T inverse[G];
    bool extreme = false;
    for (int h = 0; h < G; ++h) {
        const bool safe = squares[h] > T(1e-20) && squares[h] < T(1e20);
        inverse[h] = safe ? T(1) / std::sqrt(squares[h]) : T(0);
        extreme |= !safe && h < group.heads;
    }
    const V factor = repeat<T, G>(inverse);
    for (int64_t j = 0; j < layout.row(); j += Group<T, G, U>::L) store(direction + j, load<V>(row + j) * factor);
    for (int h = 0; extreme && h < G; ++h) direct_extreme(row + h, layout.units(), G, direction + h);
}

// Pass 1: the packets of the nodes, but for their density; their directions; the greatest score to hyperedges.
template <typename T, int G, int U>
void project_rows(const Group<T, G, U>& group, const Forward<T>& call, int64_t begin, int64_t end,
                  T* extremes) {
    using V = GroupVector<T, G>;
    const auto& layout = group.layout;
    Extremes<T, G> seen;
    const T *const from_node = group.vector(0), *const to_node = group.vector(1);
    Buffer<T> room;
    room.fit(layout.packet() + layout.direction());
    for (int64_t i = begin; i < end; ++i) {
        T *const packet = group.make_at(group.node(i), room.data()), *const record = packet + layout.row();
        group.read(call.wx, i, packet);
        std::fill(record, packet + layout.packet(), T(0));
        GroupVector<T, G> products[Group<T, G, U>::PARTS];
        multiply_rows<T, G, U>(layout, {packet, packet, packet, packet}, {from_node, to_node, packet, packet},
                               products);
        T numbers[4 * G];
        std::memcpy(numbers, products, sizeof(numbers));
        copy(record, numbers, G);
        copy(record + 2 * G, numbers + G, G);
        if (call.bias) store_heads<T, G>(record + G, group.read_term(call.bias, i));
        group.put(group.node(i), packet, layout.packet());
        if (!call.neighbours.offsets) continue;
        T* const direction = call.directions + i * layout.direction();
        T* const made = group.make_at(direction, room.data() + layout.packet());
        direct<T, G, U>(group, packet, numbers + 2 * G, made);
        group.put(direction, made, layout.direction());
        V most = V{} - std::numeric_limits<T>::infinity();
        for (int64_t r = call.by_node.offsets[i]; r < call.by_node.offsets[i + 1]; ++r)
            most = larger<V>(most, group.read_term(call.e_term, call.by_node.indices[r]));
        seen.add_score(most + repeat<T, G>(record));
    }
    seen.write(extremes);
}

// Pass 2: the density of the nodes.
template <typename T, int G, int U>
void sum_similarities(const Group<T, G, U>& group, const Forward<T>& call, int64_t begin, int64_t end,
                      T* extremes) {
    using V = GroupVector<T, G>;
    constexpr int PARTS = Group<T, G, U>::PARTS;
    const auto& layout = group.layout;
    const int64_t stride = layout.direction();
    auto seen = Extremes<T, G>::read(extremes);
    // No cosine is greater than one, but its rounding may be.
    const V delta = V{} + (call.delta < T(1) ? call.delta : std::numeric_limits<T>::infinity());
    for (int64_t i = begin; i < end; ++i) {
        const int64_t count = call.neighbours.count(i), *const indices = call.neighbours.of(i);
        if (i + 1 < end)  // whose neighbours come from memory meanwhile
            for (int64_t t = call.neighbours.offsets[i + 1]; t < call.neighbours.offsets[i + 2]; ++t)
                for (int64_t j = 0; j < stride; j += 64 / sizeof(T))
                    __builtin_prefetch(call.directions + call.neighbours.indices[t] * stride + j);
        const T* const own = call.directions + i * stride;
        V sums[PARTS] = {};
        for (int64_t t = 0; t < count; t += 4) {
            const T* others[4];
            for (int q = 0; q < 4; ++q)
                others[q] = call.directions + (t + q < count ? indices[t + q] : call.nodes) * stride;
            V products[PARTS];
            multiply_rows<T, G, U>(layout, {own, own, own, own}, others, products);
            for (int p = 0; p < PARTS; ++p) sums[p] += products[p] > delta ? products[p] : V{};
        }
        const V density = add_heads<T, G>(sums);
        store_heads<T, G>(group.node(i) + layout.row() + G, density);
        seen.add_density(density);
    }
    seen.write(extremes);
}

// Targets go through the steps of the work a few at a time, so that the processor need not wait for each.
constexpr int64_t BATCH = 2;

// A target on its way: its sources; their scores, then weights, and what the LeakyReLU takes from these.
template <typename T, int G>
struct Target {
    using V = GroupVector<T, G>;
    Quads<T> quads;
    Buffer<T> scores, losses;
    V highest, density, other, inverse;
    // Scores, in whole vectors.
    int64_t size() const { return round_up(quads.count * 4 * G, lanes<T>); }
};

// Scores the sources of a target, whose records are share, density and another share.
template <typename T, int G, int U>
INLINE void score(const Group<T, G, U>& group, const T* scales, const T* share, Target<T, G>& target) {
    using V = GroupVector<T, G>;
    constexpr int PARTS = Group<T, G, U>::PARTS, L = Group<T, G, U>::L;
    const V own = repeat<T, G>(share), low = repeat<T, G>(scales), factor = repeat<T, G>(scales + G);
    const T slope = group.call.slope;
    V highest[PARTS], density[PARTS], other[PARTS];
    for (int p = 0; p < PARTS; ++p) {
        density[p] = V{};
        highest[p] = other[p] = V{} - std::numeric_limits<T>::infinity();
    }
    target.scores.fit(target.size()), target.losses.fit(target.size());
    T *scores = target.scores.data(), *losses = target.losses.data();
    for (int64_t quad = 0; quad < target.quads.count; ++quad) {
        V fields[4][PARTS];
        read_records<T, G>(target.quads.packets.data() + 4 * quad, group.layout.row(), fields);
        for (int p = 0; p < PARTS; ++p, scores += L, losses += L) {
            const V raw = fields[0][p] + own;
            const V score = (raw > V{} ? raw : slope * raw) + (fields[1][p] - low) * factor;
            highest[p] = larger<V>(highest[p], score);
            density[p] += fields[1][p];
            other[p] = larger<V>(other[p], fields[2][p]);
            store(scores, score);
            store(losses, raw > V{} ? V{} : V{} + (T(1) - slope));
        }
    }
    for (; scores < target.scores.data() + target.size(); scores += L, losses += L)
        store(scores, V{} - std::numeric_limits<T>::infinity()), store(losses, V{});
    target.highest = greatest_heads<T, G>(highest);
    target.density = add_heads<T, G>(density);
    target.other = greatest_heads<T, G>(other);
}

// Turns scores into weights, and losses into weighted losses; what the gradient needs of them goes to ``heads``.
template <typename T, int G>
INLINE void weigh(Target<T, G>& target, T* heads) {
    constexpr int N = lanes<T>;
    using V = Vector<T, N>;
    store_heads<T, G>(heads, target.highest);
    const V highest = repeat_heads<T, G, N>(heads);
    V total = {}, loss = {};
    for (int64_t j = 0; j < target.size(); j += N) {
        const V weight = exponential<T, N>(load<V>(target.scores.data() + j) - highest);
        const V weighted = weight * load<V>(target.losses.data() + j);
        total += weight;
        loss += weighted;
        store(target.scores.data() + j, weight);
        store(target.losses.data() + j, weighted);
    }
    const auto add = [](const V& a, const V& b) { return a + b; };
    const V inverse = T(1) / fold<T, N, G>(total, add);
    std::memcpy(&target.inverse, &inverse, sizeof(target.inverse));
    store_heads<T, G>(heads + G, inverse);
    store_heads<T, G>(heads + 2 * G, fold<T, N, G>(loss, add) * inverse);
}

// Sums by weights, and for the gradient by weighted losses.
template <typename T, int G, int U>
INLINE void sum_rows(const Layout<G, U>& layout, const Target<T, G>& target, bool with_losses, T* room, T* sums) {
    if (target.quads.count == 0) {
        std::fill(sums, sums + layout.sums(), T(0));
        return;
    }
    Sum<T, G, U> sum(layout, room);
    if (!with_losses) {
        for (int64_t quad = 0; quad < target.quads.count; ++quad)
            sum.add(target.scores.data() + quad * 4 * G, target.quads.packets.data() + 4 * quad);
        sum.write(layout, target.inverse, sums);
        return;
    }
    Sum<T, G, U> loss(layout, room + layout.row());
    for (int64_t quad = 0; quad < target.quads.count; ++quad) {
        sum.add(target.scores.data() + quad * 4 * G, target.quads.packets.data() + 4 * quad);
        loss.add(target.losses.data() + quad * 4 * G, target.quads.packets.data() + 4 * quad);
    }
    sum.write(layout, target.inverse, sums);
    loss.write(layout, target.inverse, sums + layout.row());
}

// Where the sums of one of a batch's targets are made: where they are kept, if so, or in the room, behind what summing
// itself needs.
template <typename T, int G, int U>
INLINE T* sums_of(const Group<T, G, U>& group, T* kept, T* room, int64_t number) {
    T* const own = room + (1 + number) * group.layout.sums();
    return kept ? group.make_at(kept, own) : own;
}

// Sums the sources of some targets by attention, (4) to (8), before the activation. The gradient of a target's share
// needs the same sum with what the LeakyReLU takes from each coefficient: 1 - slope where the score is negative. What
// it needs goes to ``kept`` where there is such a place.
template <typename T, int G, int U>
INLINE void attend(const Group<T, G, U>& group, const T* scales, int64_t count, const T* const* shares,
                   Target<T, G>* targets, T* room, T* const* kept) {
    const auto& layout = group.layout;
    for (int64_t j = 0; j < count; ++j) score<T, G, U>(group, scales, shares[j], targets[j]);
    for (int64_t j = 0; j < count; ++j)
        weigh<T, G>(targets[j], sums_of(group, kept[j], room, j) + 2 * layout.row());
    for (int64_t j = 0; j < count; ++j) {
        T* const sums = sums_of(group, kept[j], room, j);
        sum_rows<T, G, U>(layout, targets[j], kept[j] != nullptr, room, sums);
        if (kept[j]) group.put(kept[j], sums, layout.sums());
    }
}

template <typename T, int G, int U>
INLINE void activate(const Layout<G, U>& layout, const T* sums, T* row) {
    constexpr int L = group_lanes<T, G>;
    for (int64_t j = 0; j < layout.row(); j += L) store(row + j, elu<T, L>(load<Vector<T, L>>(sums + j)));
}

// Pass 3: nodes to hyperedges.
template <typename T, int G, int U>
void attend_nodes(const Group<T, G, U>& group, const Forward<T>& call, int64_t begin, int64_t end, T* extremes) {
    const auto& layout = group.layout;
    const T* const vector = group.vector(2);
    Extremes<T, G> seen;
    Target<T, G> all[2 * BATCH];  // of a batch and of the next one, whose packets come from memory meanwhile
    const auto list = [&](int64_t first) {
        for (int64_t k = first; k < std::min(first + BATCH, end); ++k)
            all[k % (2 * BATCH)].quads.list(call.by_hyperedge, k, nullptr, group.node_packets, layout.packet(),
                                            call.nodes);
    };
    list(begin);
    Buffer<T> room, packets;
    room.fit((1 + BATCH) * layout.sums()), packets.fit(BATCH * layout.packet());
    for (; begin < end; begin += BATCH) {
        const int64_t count = std::min(BATCH, end - begin);
        Target<T, G>* const targets = all + begin % (2 * BATCH);
        list(begin + BATCH);
        T *kept[BATCH], *made[BATCH];
        const T* shares[BATCH];
        for (int64_t j = 0; j < count; ++j) {
            made[j] = group.make_at(group.hyperedge(begin + j), packets.data() + j * layout.packet());
            T* const record = made[j] + layout.row();
            std::fill(record, record + layout.packet() - layout.row(), T(0));
            store_heads<T, G>(record + 2 * G, group.read_term(call.e_term, begin + j));
            shares[j] = record + 2 * G;
            kept[j] = group.sums_of_hyperedge(begin + j);
        }
        attend<T, G, U>(group, group.scales, count, shares, targets, room.data(), kept);
        for (int64_t j = 0; j < count; ++j) {
            T *const packet = made[j], *const record = packet + layout.row();
            activate<T, G, U>(layout, sums_of(group, kept[j], room.data(), j), packet);
            group.write(packet, call.new_hyperedges, begin + j);
            GroupVector<T, G> products[Group<T, G, U>::PARTS];
            multiply_rows<T, G, U>(layout, {packet, packet, packet, packet}, {vector, vector, vector, vector},
                                   products);
            store_heads<T, G>(record, products[0]);
            store_heads<T, G>(record + G, targets[j].density);
            seen.add_density(targets[j].density);
            // The other share of the nodes is what they add to the score of this hyperedge.
            seen.add_score(targets[j].other + repeat<T, G>(record));
            group.put(group.hyperedge(begin + j), packet, layout.packet());
        }
    }
    seen.write(extremes);
}

// Pass 4: hyperedges to the nodes that receive.
template <typename T, int G, int U>
void attend_hyperedges(const Group<T, G, U>& group, const Forward<T>& call, int64_t begin, int64_t end) {
    const auto& layout = group.layout;
    Target<T, G> all[2 * BATCH];  // as in pass 3
    const auto list = [&](int64_t first) {
        for (int64_t number = first; number < std::min(first + BATCH, end); ++number)
            all[number % (2 * BATCH)].quads.list(call.by_node, call.receiver(number), nullptr,
                                                 group.hyperedge_packets, layout.packet(), call.hyperedges);
    };
    list(begin);
    Buffer<T> room, activated;
    room.fit((1 + BATCH) * layout.sums()), activated.fit(layout.row());
    for (; begin < end; begin += BATCH) {
        const int64_t count = std::min(BATCH, end - begin);
        Target<T, G>* const targets = all + begin % (2 * BATCH);
        list(begin + BATCH);
        T* kept[BATCH];
        const T* shares[BATCH];
        for (int64_t j = 0; j < count; ++j) {
            shares[j] = group.node(call.receiver(begin + j)) + layout.row() + 2 * G;
            kept[j] = group.sums_of_receiver(begin + j);
        }
        attend<T, G, U>(group, group.scales + 2 * G, count, shares, targets, room.data(), kept);
        for (int64_t j = 0; j < count; ++j) {
            const T* row = sums_of(group, kept[j], room.data(), j);
            if (call.activation) {
                activate<T, G, U>(layout, row, activated.data());
                row = activated.data();
            }
            group.write(row, call.new_nodes, begin + j);
        }
    }
}

// A source without a row, whose score is less than any other, as the slope is positive.
template <typename T, int G, int U>
void write_no_source(const Layout<G, U>& layout, T* packet) {
    std::fill(packet, packet + layout.packet(), T(0));
    std::fill_n(packet + layout.row(), G, -std::numeric_limits<T>::infinity());
    std::fill_n(packet + layout.row() + 2 * G, G, -std::numeric_limits<T>::infinity());
}

template <typename T, int G, int U>
void forward_group(const Forward<T>& call, int64_t first, T* kept) {
    const Group<T, G, U> group(call, first, kept);
    const auto& layout = group.layout;
    const bool density = call.neighbours.offsets != nullptr;
    write_no_source<T, G, U>(layout, group.node(call.nodes));
    write_no_source<T, G, U>(layout, group.hyperedge(call.hyperedges));
    constexpr int64_t SIZE = Extremes<T, G>::SIZE;
    const int64_t node_blocks = count_blocks(call.nodes), hyperedge_blocks = count_blocks(call.hyperedges);
    Buffer<T> of_nodes, of_hyperedges;
    of_nodes.fit(node_blocks * SIZE), of_hyperedges.fit(hyperedge_blocks * SIZE);
    parallel(call.threads, call.nodes, [&](int64_t begin, int64_t end) {
        project_rows<T, G, U>(group, call, begin, end, of_nodes.data() + begin / BLOCK * SIZE);
    });
    if (density) {
        std::fill_n(call.directions + call.nodes * layout.direction(), layout.direction(), T(0));
        parallel(call.threads, call.nodes, [&](int64_t begin, int64_t end) {
            sum_similarities<T, G, U>(group, call, begin, end, of_nodes.data() + begin / BLOCK * SIZE);
        });
    }
    set_scales<T, G>(of_nodes, node_blocks, density, call.tolerance, group.scales);
    if (call.bias) std::fill_n(group.scales + G, G, T(1));  // it is scaled already
    parallel(call.threads, call.hyperedges, [&](int64_t begin, int64_t end) {
        attend_nodes<T, G, U>(group, call, begin, end, of_hyperedges.data() + begin / BLOCK * SIZE);
    });
    set_scales<T, G>(of_hyperedges, hyperedge_blocks, density, call.tolerance, group.scales + 2 * G);
    parallel(call.threads, call.receivers, [&](int64_t begin, int64_t end) {
        attend_hyperedges<T, G, U>(group, call, begin, end);
    });
}

template <typename T>
void messages_forward(const Forward<T>& call) {
    for_groups(call.heads, call.units, [&](auto layout, int64_t first) {
        using L = decltype(layout);
        T* const kept = call.kept + first / L::HEADS * kept_size(layout, call.nodes, call.hyperedges, call.kept_targets());
        forward_group<T, L::HEADS, L::UNITS>(call, first, kept);
    });
}
